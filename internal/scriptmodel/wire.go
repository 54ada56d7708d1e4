package scriptmodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// The answer's side of the chat completions format. Only the fields that clients read are there.

type wireCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []wireChoice `json:"choices"`
	Usage   *wireUsage   `json:"usage,omitempty"`
}

type wireChoice struct {
	Index        int        `json:"index"`
	Message      *wireDelta `json:"message,omitempty"`
	Delta        *wireDelta `json:"delta,omitempty"`
	FinishReason *string    `json:"finish_reason"`
}

type wireDelta struct {
	Role      string         `json:"role,omitempty"`
	Content   *string        `json:"content,omitempty"`
	ToolCalls []wireToolCall `json:"tool_calls,omitempty"`
}

type wireToolCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type wireUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// answer is a reply ready to be written in either form.
type answer struct {
	id, model, text, finish string
	created                 int64
	calls                   []wireToolCall
	usage                   wireUsage
	cut                     bool
}

// newAnswer prepares r, which has to be one that answers (no Status). seq makes the ids of the completion and of its
// tool calls unique.
func newAnswer(req Request, r Reply, seq, created int64) (*answer, error) {
	r, err := r.deliverJSON(req)
	if err != nil {
		return nil, err
	}
	id := "chatcmpl-" + strconv.FormatInt(seq, 10)
	a := &answer{id: id, model: req.Model, created: created, text: r.Text, finish: r.Finish, cut: r.Cut}
	size := len(r.Text)
	for i, call := range r.ToolCalls {
		call = call.forGeneration(req.Tools)
		args, err := marshalArgs(call.Args)
		if err != nil {
			return nil, fmt.Errorf("marshal the arguments of tool call %s: %w", call.Name, err)
		}
		wire := wireToolCall{ID: cmp.Or(call.ID, fmt.Sprintf("call_%d_%d", seq, i)), Type: "function"}
		wire.Function.Name, wire.Function.Arguments = call.Name, args
		a.calls = append(a.calls, wire)
		size += len(args)
	}
	if a.finish == "" {
		a.finish = "stop"
		if len(a.calls) > 0 {
			a.finish = "tool_calls"
		}
	}
	a.usage.PromptTokens = orEstimate(r.InputTokens, len(req.Text()))
	a.usage.CompletionTokens = orEstimate(r.OutputTokens, size)
	a.usage.TotalTokens = a.usage.PromptTokens + a.usage.CompletionTokens
	return a, nil
}

func orEstimate(tokens, characters int) int {
	if tokens > 0 {
		return tokens
	}
	return max(1, characters/4)
}

func (a *answer) completion(object string, choices ...wireChoice) wireCompletion {
	if choices == nil {
		choices = []wireChoice{} // the usage chunk has an empty list, never null
	}
	return wireCompletion{ID: a.id, Object: object, Created: a.created, Model: a.model, Choices: choices}
}

// whole is the answer in one piece.
func (a *answer) whole() wireCompletion {
	message := &wireDelta{Role: "assistant", Content: &a.text, ToolCalls: a.calls}
	c := a.completion("chat.completion", wireChoice{Message: message, FinishReason: &a.finish})
	c.Usage = &a.usage
	return c
}

// chunks is the answer as a stream. Text and arguments come in several pieces, as from a real model, so that a
// consumer which cannot put them together is found out.
func (a *answer) chunks(includeUsage bool) []wireCompletion {
	var out []wireCompletion
	delta := func(d wireDelta) {
		out = append(out, a.completion("chat.completion.chunk", wireChoice{Delta: &d}))
	}
	delta(wireDelta{Role: "assistant", Content: new("")})
	for _, piece := range pieces(a.text) {
		delta(wireDelta{Content: &piece})
	}
	for i, call := range a.calls {
		head := wireToolCall{Index: &i, ID: call.ID, Type: call.Type}
		head.Function.Name = call.Function.Name
		delta(wireDelta{ToolCalls: []wireToolCall{head}})
		for _, piece := range pieces(call.Function.Arguments) {
			tail := wireToolCall{Index: &i}
			tail.Function.Arguments = piece
			delta(wireDelta{ToolCalls: []wireToolCall{tail}})
		}
	}
	end := wireChoice{Delta: &wireDelta{}, FinishReason: &a.finish}
	out = append(out, a.completion("chat.completion.chunk", end))
	if includeUsage {
		last := a.completion("chat.completion.chunk")
		last.Usage = &a.usage
		out = append(out, last)
	}
	return out
}

// pieces cuts s on character boundaries into at most five pieces.
func pieces(s string) []string {
	const minSize = 8
	size := max(minSize, (len(s)+3)/4)
	var out []string
	for len(s) > size {
		end := size
		for end < len(s) && !utf8.RuneStart(s[end]) {
			end++
		}
		out = append(out, s[:end])
		s = s[end:]
	}
	if s != "" {
		out = append(out, s)
	}
	return out
}

// writeWhole sends the answer in one piece.
func (a *answer) writeWhole(w http.ResponseWriter) {
	body, err := json.Marshal(a.whole())
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if a.cut {
		body = body[:len(body)/2]
	}
	_, _ = w.Write(body) // a caller that went away is the caller's business
	if a.cut {
		breakConnection(w)
	}
}

// writeStream sends the answer as server-sent events.
func (a *answer) writeStream(w http.ResponseWriter, includeUsage bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	chunks := a.chunks(includeUsage)
	for i, chunk := range chunks {
		if a.cut && i > 0 && i >= len(chunks)/2 {
			breakConnection(w)
		}
		data, err := json.Marshal(chunk)
		if err != nil {
			panic(err) // strings and numbers always marshal
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

// breakConnection ends the response so that the client sees a broken one. It does not return.
func breakConnection(w http.ResponseWriter) {
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
