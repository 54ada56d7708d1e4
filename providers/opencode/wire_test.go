package opencode_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/providerstest"
)

// wire is the model's provider as OpenCode calls it. OpenCode repeats failed calls by itself; these get the same answer
// again, at once, and are not the adapter's doing, so the suite is asked only once for each session.
func wire(respond func(providerstest.Seen) providerstest.Reply) http.Handler {
	var mu sync.Mutex
	sessions := map[string]func() (reply providerstest.Reply, first bool){}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
			http.NotFound(w, r)
			return
		}
		seen, structured, err := decode(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		id := r.Header.Get("X-Session-Id")
		mu.Lock()
		if sessions[id] == nil {
			once := sync.OnceValue(func() providerstest.Reply { return respond(seen) })
			calls := 0
			sessions[id] = func() (providerstest.Reply, bool) {
				mu.Lock()
				calls++
				first := calls == 1
				mu.Unlock()
				return once(), first
			}
		}
		answer := sessions[id]
		mu.Unlock()
		reply, first := answer()
		if reply.Fault == providerstest.FaultCut && !first {
			reply.Fault = providerstest.FaultInternal // waits for a cut connection come to a minute, those for a 500 to 5 ms
		}
		if reply.Fault != providerstest.FaultNone {
			fail(w, seen, reply)
			return
		}
		stream(w, chunks(seen, reply, structured))
	})
}

func decode(r *http.Request) (seen providerstest.Seen, structured bool, err error) {
	var body struct {
		Model    string
		Messages []struct {
			Role    string
			Content content
		}
		Tools []struct {
			Function struct {
				Name       string
				Parameters json.RawMessage
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return seen, false, err
	}
	seen.Key = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	seen.Model = body.Model
	for _, tool := range body.Tools {
		if tool.Function.Name == "StructuredOutput" {
			structured, seen.Schema = true, tool.Function.Parameters
		}
	}
	for _, m := range body.Messages {
		switch m.Role {
		case "system":
			seen.System += ownSystem(string(m.Content))
		case "user":
			seen.Messages = append(seen.Messages, conversation(string(m.Content))...)
		default:
			return seen, false, fmt.Errorf("a message of %q in a new session", m.Role)
		}
	}
	return seen, structured, nil
}

// content is a text, or a list of parts.
type content string

func (c *content) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, (*string)(c)) == nil {
		return nil
	}
	var parts []struct{ Text string }
	if err := json.Unmarshal(data, &parts); err != nil || len(parts) != 1 {
		return errors.New("content is neither a text nor one part")
	}
	*c = content(parts[0].Text)
	return nil
}

// ownSystem takes away what OpenCode adds: the agent's prompt and the environment before, the order to use the tool
// after.
func ownSystem(text string) string {
	if _, after, ok := strings.Cut(text, "</env>"); ok {
		text = after
	}
	text, _, _ = strings.Cut(text, "IMPORTANT: The user has requested structured output")
	return strings.TrimSpace(text)
}

var speaker = regexp.MustCompile(`(?m)^\[(user|assistant)\]\n`)

// conversation reads back what the adapter makes of several messages.
func conversation(text string) []providers.Message {
	heads := speaker.FindAllStringSubmatchIndex(text, -1)
	if heads == nil {
		return []providers.Message{{Role: providers.RoleUser, Text: text}}
	}
	var out []providers.Message
	for i, head := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		out = append(out, providers.Message{
			Role: providers.Role(text[head[2]:head[3]]), Text: strings.TrimSuffix(text[head[1]:end], "\n\n"),
		})
	}
	return out
}

// chunks is the answer as OpenAI streams it; JSON comes as a call of the tool, prose as a text.
func chunks(seen providerstest.Seen, reply providerstest.Reply, structured bool) []string {
	delta, finish := map[string]any{"content": reply.Text}, "stop"
	if structured && json.Valid([]byte(reply.Text)) {
		delta = map[string]any{"tool_calls": []any{map[string]any{
			"index": 0, "id": "call_1", "type": "function",
			"function": map[string]any{"name": "StructuredOutput", "arguments": reply.Text},
		}}}
		finish = "tool_calls"
	}
	if reply.Stop == providers.StopLength {
		finish = "length"
	}
	encoded, _ := json.Marshal(delta)
	u := reply.Usage
	return []string{
		fmt.Sprintf(`{"id":"c-1","object":"chat.completion.chunk","created":1,"model":%q,`+
			`"choices":[{"index":0,"delta":%s,"finish_reason":null}]}`, seen.Model, encoded),
		fmt.Sprintf(`{"id":"c-1","object":"chat.completion.chunk","created":1,"model":%q,`+
			`"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, seen.Model, finish),
		fmt.Sprintf(`{"id":"c-1","object":"chat.completion.chunk","created":1,"model":%q,"choices":[],`+
			`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,`+
			`"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}}`,
			seen.Model, u.Input, u.Output, u.Input+u.Output, u.CachedInput, u.Reasoning),
		"[DONE]",
	}
}

func stream(w http.ResponseWriter, data []string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range data {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", d)
	}
}

func fail(w http.ResponseWriter, seen providerstest.Seen, reply providerstest.Reply) {
	switch reply.Fault {
	case providerstest.FaultCut:
		reply.Text = "half of"
		w.Header().Set("Content-Type", "text/event-stream")
		providerstest.Cut(w, []byte("data: "+chunks(seen, reply, false)[0]+"\n\n"))
	case providerstest.FaultMalformed:
		stream(w, []string{providerstest.Malformed})
		return
	}
	as := map[providerstest.Fault]struct {
		status int
		code   string
	}{
		providerstest.FaultAuth:          {401, "invalid_api_key"},
		providerstest.FaultQuota:         {429, "insufficient_quota"},
		providerstest.FaultRateLimit:     {429, "rate_limit_exceeded"},
		providerstest.FaultOverloaded:    {503, ""},
		providerstest.FaultContextLength: {400, "context_length_exceeded"},
		providerstest.FaultFiltered:      {400, "content_filter"},
		providerstest.FaultUnknownModel:  {404, "model_not_found"},
		providerstest.FaultInternal:      {500, ""},
	}[reply.Fault]
	// OpenCode waits for the milliseconds, and passes both on; only the seconds are of interest to the suite.
	w.Header().Set("Retry-After-Ms", "1")
	providerstest.SetRetryAfter(w.Header(), reply)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(as.status)
	// The key is OpenCode's, so the adapter cannot know and remove it: here, as in most providers' answers, it is masked.
	message := strings.ReplaceAll(reply.Message, cmp.Or(seen.Key, "no key"), "con***789")
	_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":"error","param":null,"code":%q}}`, message, as.code)
}
