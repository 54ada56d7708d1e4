package anthropic_test

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/providerstest"
)

var wire = providerstest.Protocol{
	Asks: func(r *http.Request) bool {
		return r.Method == http.MethodPost && r.URL.Path == "/v1/messages" && r.Header.Get("Anthropic-Version") != ""
	},
	Decode: decode, Answer: message, Fail: fail,
}.Wire

func decode(r *http.Request) (providerstest.Seen, error) {
	type block struct{ Type, Text string }
	var body struct {
		Model     string
		MaxTokens int `json:"max_tokens"`
		System    []block
		Messages  []struct {
			Role    string
			Content []block
		}
		OutputConfig struct {
			Effort string
			Format struct {
				Type   string
				Schema json.RawMessage
			}
		} `json:"output_config"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return providerstest.Seen{}, err
	}
	seen := providerstest.Seen{
		Key: r.Header.Get("X-Api-Key"), Model: body.Model, Effort: body.OutputConfig.Effort, MaxOutputTokens: body.MaxTokens,
		Schema: body.OutputConfig.Format.Schema,
	}
	for _, b := range body.System {
		seen.System += b.Text
	}
	for _, m := range body.Messages {
		seen.Messages = append(seen.Messages, providers.Message{Role: providers.Role(m.Role), Text: m.Content[0].Text})
	}
	return seen, nil
}

func message(model string, reply providerstest.Reply) []byte {
	text, _ := json.Marshal(reply.Text)
	stop := map[bool]string{false: "end_turn", true: "max_tokens"}[reply.Cut]
	u := reply.Usage
	return fmt.Appendf(nil, `{"id":"msg_1","type":"message","role":"assistant","model":%q,
		"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":%s}],
		"stop_reason":%q,"stop_sequence":null,
		"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"output_tokens":%d,
		"output_tokens_details":{"thinking_tokens":%d}}}`,
		model, text, stop, u.Input-u.CacheRead-u.CacheWrite, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning)
}

func fail(w http.ResponseWriter, reply providerstest.Reply) {
	as := map[providerstest.Fault]struct {
		status     int
		kind, text string
	}{
		providerstest.FaultAuth: {401, "authentication_error", ""},
		providerstest.FaultQuota: {400, "invalid_request_error",
			"Your credit balance is too low to access the Anthropic API."},
		providerstest.FaultRateLimit:     {429, "rate_limit_error", ""},
		providerstest.FaultOverloaded:    {529, "overloaded_error", ""},
		providerstest.FaultContextLength: {400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000"},
		providerstest.FaultFiltered:      {400, "invalid_request_error", "Output blocked by content filtering policy"},
		providerstest.FaultUnknownModel:  {404, "not_found_error", "model: some-model"},
		providerstest.FaultInternal:      {500, "api_error", ""},
	}[reply.Fault]
	providerstest.SetRetryAfter(w.Header(), reply)
	if as.text == "" {
		as.text = reply.Message
	}
	w.WriteHeader(as.status)
	_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q},"request_id":"req-1"}`, as.kind, as.text)
}
