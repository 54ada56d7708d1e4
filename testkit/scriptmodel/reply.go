package scriptmodel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"
)

// Reply is the answer to one request. The zero value is an empty message that ends the turn.
type Reply struct {
	Text      string     `yaml:"text"` // may come with tool calls
	ToolCalls []ToolCall `yaml:"tool_calls"`
	// JSON is the answer to a structured request: a call of OpenCode's StructuredOutput tool if that is offered, else
	// the text of the message.
	JSON   any    `yaml:"json"`
	Finish string `yaml:"finish"` // finish reason; defaults to tool_calls with tool calls, else to stop
	// InputTokens and OutputTokens are the reported usage. They default to a quarter of the characters, at least 1.
	InputTokens  int `yaml:"input_tokens"`
	OutputTokens int `yaml:"output_tokens"`

	Delay time.Duration `yaml:"delay"` // before anything is sent
	// Wait, if not nil, blocks the answer until a receive from it succeeds. Delay and Wait also end when the caller is
	// gone or the server is closed.
	Wait <-chan struct{} `yaml:"-"`

	// Status, if not 0, is sent instead of a message, with Header and Body. Body defaults to an error in OpenAI's
	// format.
	Status int               `yaml:"status"`
	Header map[string]string `yaml:"header"`
	Body   string            `yaml:"body"`
	Cut    bool              `yaml:"cut"`   // break the connection in the middle of the answer
	Empty  bool              `yaml:"empty"` // status 200 with Finish alone, as gateways answer during an outage
	Times  int               `yaml:"times"` // of a fault in a [Script], per session; defaults to 1

	forCheck bool // a rule of a script for checks gave it
}

// ToolCall is one call of a tool, named as in OpenCode 1.
type ToolCall struct {
	ID   string `yaml:"id"` // defaults to a unique one
	Name string `yaml:"name"`
	// Args is marshalled to JSON; nil means {}. A [json.RawMessage] is sent as is, valid or not.
	Args any `yaml:"args"`
}

// Call returns a reply that calls one tool.
func Call(name string, args map[string]any) Reply {
	return Reply{ToolCalls: []ToolCall{{Name: name, Args: args}}}
}

// Bash returns a reply that runs a shell command.
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

// allMet is the answer to a check of a whole request if the handler has none, so that only tests of checks need one.
func allMet(asked Request) Reply {
	row := func(id string) any {
		return map[string]any{"id": id, "text": "All of it", "evidence": "The script says so", "met": true}
	}
	rows := []any{row("")}
	for _, m := range regexp.MustCompile(`(?m)^- \[(\S+)\] `).FindAllStringSubmatch(asked.Text(), -1) { // those listed
		rows = append(rows, row(m[1]))
	}
	return Reply{JSON: map[string]any{"request": rows, "missing": []any{}, "answer": ""}}
}

// answersCheck reports whether the reply is meant for a check of a whole request.
func (r Reply) answersCheck() bool {
	fields, _ := r.JSON.(map[string]any)
	return r.forCheck || r.Fault() || fields["request"] != nil
}

// Fault reports whether the reply is an HTTP error, a cut connection or nothing instead of a whole answer.
func (r Reply) Fault() bool { return r.Status != 0 || r.Cut || r.Empty }

// deliverJSON converts JSON to text or a tool call, as req asks for.
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

// Errorf returns the reply to a request that cannot be answered: HTTP 400, which no client retries, with a message.
func Errorf(format string, args ...any) Reply {
	return fault(http.StatusBadRequest, fmt.Sprintf(format, args...))
}

func fault(status int, message string) Reply {
	return Reply{Status: status, Body: errorBody(status, message)}
}

// errorBody formats an error as OpenAI does. message defaults to the text of the status.
func errorBody(status int, message string) string {
	code := map[int]any{http.StatusUnauthorized: "invalid_api_key", http.StatusTooManyRequests: "rate_limit_exceeded"}[status]
	return string(marshal(map[string]any{"error": map[string]any{
		"message": cmp.Or(message, http.StatusText(status)), "type": "error", "param": nil, "code": code,
	}}))
}

// marshalArgs is [json.Marshal] without a check of raw JSON: real models do send invalid arguments.
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
