package scriptmodel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Reply is the answer to one request. The zero value is an empty message that ends the turn.
type Reply struct {
	// Text is what the model says. It may come together with tool calls.
	Text string `yaml:"text"`
	// ToolCalls are the tools that the model wants to have run.
	ToolCalls []ToolCall `yaml:"tool_calls"`
	// JSON is the answer to a structured request. It is delivered the way the request asks for: as a call of
	// OpenCode's StructuredOutput tool where that is offered, as the text of the message elsewhere.
	JSON any `yaml:"json"`
	// Finish is the finish reason. Defaults to tool_calls with tool calls, and to stop without.
	Finish string `yaml:"finish"`
	// InputTokens and OutputTokens are what the answer is said to have cost. They default to a quarter of the
	// characters, at least 1.
	InputTokens  int `yaml:"input_tokens"`
	OutputTokens int `yaml:"output_tokens"`

	// Delay passes before anything is sent.
	Delay time.Duration `yaml:"delay"`
	// Wait, when not nil, is received from (or found closed) before anything is sent. Delay and Wait both end
	// when the caller goes away or the server is closed.
	Wait <-chan struct{} `yaml:"-"`

	// Status, when not 0, is answered instead of a message, with Header and Body. Body defaults to an error in
	// the shape that OpenAI uses.
	Status int               `yaml:"status"`
	Header map[string]string `yaml:"header"`
	Body   string            `yaml:"body"`
	// Cut breaks the connection in the middle of the answer.
	Cut bool `yaml:"cut"`
	// Times is how often a [Script] gives this fault (Status or Cut) in a session. Defaults to once.
	Times int `yaml:"times"`
}

// ToolCall is one call of a tool, named as in OpenCode 1.
type ToolCall struct {
	ID   string `yaml:"id"` // defaults to one that no other call has
	Name string `yaml:"name"`
	// Args is marshalled to JSON; nil means {}. A [json.RawMessage] goes out as it is, valid or not.
	Args any `yaml:"args"`
}

// Call is a reply that calls one tool.
func Call(name string, args map[string]any) Reply {
	return Reply{ToolCalls: []ToolCall{{Name: name, Args: args}}}
}

// Bash is a reply that runs a shell command.
func Bash(command string) Reply {
	return Call("bash", map[string]any{"command": command, "description": "Run it"})
}

// Steps answers the nth request after a prompt with the nth reply, and says "done" after the last.
func Steps(replies ...Reply) Handler {
	return func(_ context.Context, r Request) Reply {
		if n := r.TurnsSinceUser(); n < len(replies) {
			return replies[n]
		}
		return Reply{Text: "done"}
	}
}

// Always answers every request with the same reply.
func Always(reply Reply) Handler {
	return func(context.Context, Request) Reply { return reply }
}

// Fault reports whether the reply is an HTTP error or a cut connection instead of a whole answer.
func (r Reply) Fault() bool { return r.Status != 0 || r.Cut }

// deliverJSON turns JSON into what req asks for, so that only text and tool calls are left to be sent.
func (r Reply) deliverJSON(req Request) (Reply, error) {
	if r.JSON == nil {
		return r, nil
	}
	if slices.Contains(req.Tools, structuredTool) {
		r.ToolCalls = append(r.ToolCalls[:len(r.ToolCalls):len(r.ToolCalls)], ToolCall{Name: structuredTool, Args: r.JSON})
		return r, nil
	}
	data, err := marshalArgs(r.JSON)
	if err != nil {
		return r, fmt.Errorf("marshal the JSON of a reply: %w", err)
	}
	r.Text += data
	return r, nil
}

// Errorf is the reply for a request that cannot be answered: HTTP 400, which no client retries, with an explanation
// in the place where clients look for one.
func Errorf(format string, args ...any) Reply {
	return fault(http.StatusBadRequest, fmt.Sprintf(format, args...))
}

func fault(status int, message string) Reply {
	return Reply{Status: status, Body: errorBody(status, message)}
}

// errorBody is OpenAI's error shape. Message defaults to the text of the status.
func errorBody(status int, message string) string {
	code := map[int]any{http.StatusUnauthorized: "invalid_api_key", http.StatusTooManyRequests: "rate_limit_exceeded"}[status]
	return string(marshal(map[string]any{"error": map[string]any{
		"message": cmp.Or(message, http.StatusText(status)), "type": "error", "param": nil, "code": code,
	}}))
}

// marshalArgs is [json.Marshal], except that raw JSON is passed through unchecked: broken arguments are a fault that
// models really show.
func marshalArgs(v any) (string, error) {
	if v == nil {
		return "{}", nil
	}
	if raw, ok := v.(json.RawMessage); ok {
		return string(raw), nil
	}
	data, err := json.Marshal(v)
	return string(data), err
}
