package openai

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// lenient rewrites a complete answer to what is needed of it, since the SDK refuses the whole answer for one field of
// another type, and knows one place for the text. What cannot be read stays, for the SDK to name.
type lenient struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l lenient) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(req)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body) // in memory already
	if err == nil {
		err = resp.Body.Close()
	}
	resp.Body = io.NopCloser(bytes.NewReader(rewritten(body)))
	return resp, err
}

func rewritten(body []byte) []byte {
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	var answer map[string]any
	if in.Decode(&answer) != nil {
		return body
	}
	choices, _ := answer["choices"].([]any)
	if len(choices) == 0 {
		return body
	}
	choice, _ := choices[0].(map[string]any)
	message, _ := choice["message"].(map[string]any)
	if choice == nil {
		return body
	}
	said := map[string]any{"role": "assistant", "content": content(choice, message)}
	if refusal, ok := message["refusal"].(string); ok {
		said["refusal"] = refusal
	}
	out := map[string]any{"choices": []any{map[string]any{"finish_reason": word(choice["finish_reason"]), "message": said}}}
	out["model"] = word(answer["model"])
	if usage, ok := answer["usage"].(map[string]any); ok {
		out["usage"] = numbers(usage)
	}
	encoded, _ := json.Marshal(out) // it came from JSON
	return encoded
}

// content returns the text of an answer: that of its parts, else the argument of a tool call, else what some servers
// put among the reasoning. A value of another type is returned as it is.
func content(choice, message map[string]any) any {
	text, readable := parts(message["content"])
	if !readable {
		return message["content"]
	}
	calls, _ := message["tool_calls"].([]any)
	for _, call := range append(calls, message) {
		call, _ := call.(map[string]any)
		for _, key := range []string{"function", "function_call"} {
			if function, _ := call[key].(map[string]any); strings.TrimSpace(text) == "" {
				text = argument(function["arguments"])
			}
		}
	}
	if strings.TrimSpace(text) == "" {
		text = argument(message["parsed"])
	}
	for _, other := range []any{choice["text"], message["reasoning_content"], message["reasoning"], message["thinking"]} {
		if strings.TrimSpace(text) == "" {
			text, _ = parts(other)
		}
	}
	return text
}

// parts returns a text, or the texts of its parts without the thoughts.
func parts(value any) (text string, readable bool) {
	switch value := value.(type) {
	case nil:
		return "", true
	case string:
		return value, true
	case map[string]any:
		kind, _ := value["type"].(string)
		if kind != "" && kind != "text" && kind != "output_text" {
			return "", true
		}
		return parts(value["text"])
	case []any:
		for _, part := range value {
			said, ok := parts(part)
			if !ok {
				return "", false
			}
			text += said
		}
		return text, true
	}
	return "", false
}

func argument(value any) string {
	if said, ok := value.(string); ok || value == nil {
		return said
	}
	encoded, _ := json.Marshal(value)
	return string(encoded)
}

func word(value any) string {
	said, _ := value.(string)
	return said
}

// numbers reads counts, some of which come as strings or fractions. An impossible one becomes -1, which is refused.
func numbers(usage map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range usage {
		switch value := value.(type) {
		case map[string]any:
			out[name] = numbers(value)
		case json.Number:
			out[name] = number(value.String())
		case string:
			out[name] = number(value)
		}
	}
	return out
}

func number(said string) int64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(said), 64)
	if err != nil || n < 0 || n >= math.MaxInt64 || math.IsNaN(n) {
		return -1
	}
	return int64(n)
}
