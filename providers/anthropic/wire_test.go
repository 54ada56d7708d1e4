package anthropic_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/providerstest"
)

// wire speaks Anthropic's Messages API, written from the wire format and not with the SDK's types, so that a mistake
// there cannot cancel itself out.
func wire(respond func(providerstest.Seen) providerstest.Reply) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" || r.Header.Get("Anthropic-Version") == "" {
			http.NotFound(w, r)
			return
		}
		seen, err := decode(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		reply := respond(seen)
		w.Header().Set("Request-Id", reply.RequestID)
		w.Header().Set("Content-Type", "application/json")
		if reply.Fault == providerstest.FaultNone {
			_, _ = w.Write(message(seen.Model, reply))
			return
		}
		fail(w, reply)
	})
}

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
		Key: r.Header.Get("X-Api-Key"), Model: body.Model, MaxOutputTokens: body.MaxTokens,
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
	stop := map[providers.Stop]string{providers.StopEnd: "end_turn", providers.StopLength: "max_tokens"}[reply.Stop]
	u := reply.Usage
	return fmt.Appendf(nil, `{"id":"msg_1","type":"message","role":"assistant","model":%q,
		"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":%s}],
		"stop_reason":%q,"stop_sequence":null,
		"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"output_tokens":%d,
		"output_tokens_details":{"thinking_tokens":%d}}}`,
		model, text, stop, u.Input-u.CachedInput-u.CacheWrite, u.CachedInput, u.CacheWrite, u.Output, u.Reasoning)
}

func fail(w http.ResponseWriter, reply providerstest.Reply) {
	switch reply.Fault {
	case providerstest.FaultCut:
		providerstest.Cut(w, message("m", reply))
	case providerstest.FaultMalformed:
		_, _ = w.Write([]byte(providerstest.Malformed))
		return
	}
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
	if reply.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int(reply.RetryAfter/time.Second)))
	}
	if as.text == "" {
		as.text = reply.Message
	}
	w.WriteHeader(as.status)
	_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q},"request_id":"req-1"}`, as.kind, as.text)
}
