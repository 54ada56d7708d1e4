package openai

import (
	"encoding/json"
	"strconv"

	"github.com/bouldermgr/manager/providers/internal/failures"
)

// parseError reads the forms in use: {"error":{"message","type","code"}} (OpenAI, most others), {"error":"text",
// "code":"text"} (xAI), {"object":"error","message",…} and {"detail":…} (vLLM, FastAPI), and a list around any of them.
func parseError(body []byte) failures.Said {
	var flat map[string]json.RawMessage
	if json.Unmarshal(failures.First(body), &flat) != nil {
		return failures.Said{}
	}
	fields := flat
	var nested map[string]json.RawMessage
	if json.Unmarshal(flat["error"], &nested) == nil && nested != nil {
		fields = nested
	}
	out := failures.Said{Code: word(fields["code"]), Text: word(fields["message"])}
	if out.Text == "" {
		out.Text = word(flat["error"])
	}
	if out.Text == "" && len(flat["detail"]) > 0 {
		out.Text = word(flat["detail"])
	}
	// A numeric code is an HTTP status in disguise, and the type says more. A null one says nothing at all.
	if status, err := strconv.Atoi(out.Code); err == nil {
		out.Status, out.Code = status, ""
	}
	if out.Code == "" {
		out.Code = word(fields["type"])
	}
	return out
}

// word gives a string as it is, null and nothing as "", and any other value as JSON.
func word(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
