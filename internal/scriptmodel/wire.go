package scriptmodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/sashabaranov/go-openai"
)

// answer is a reply ready to be written in either form.
type answer struct {
	id, model string
	created   int64
	message   openai.ChatCompletionMessage
	finish    openai.FinishReason
	usage     openai.Usage
	cut       bool
}

// newAnswer prepares r, which has to be one that answers (no Status). seq makes the ids of the completion and of its
// tool calls unique.
func newAnswer(req Request, r Reply, seq, created int64) (*answer, error) {
	r, err := r.deliverJSON(req)
	if err != nil {
		return nil, err
	}
	a := &answer{
		id: "chatcmpl-" + strconv.FormatInt(seq, 10), model: req.Model, created: created, cut: r.Cut,
		message: openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: r.Text},
		finish:  cmp.Or(openai.FinishReason(r.Finish), openai.FinishReasonStop),
	}
	size := len(r.Text)
	for i, call := range r.ToolCalls {
		call = call.forGeneration(req.Tools)
		args, err := marshalArgs(call.Args)
		if err != nil {
			return nil, fmt.Errorf("marshal the arguments of tool call %s: %w", call.Name, err)
		}
		a.message.ToolCalls = append(a.message.ToolCalls, openai.ToolCall{
			ID: cmp.Or(call.ID, fmt.Sprintf("call_%d_%d", seq, i)), Type: openai.ToolTypeFunction,
			Function: openai.FunctionCall{Name: call.Name, Arguments: args},
		})
		size += len(args)
		a.finish = cmp.Or(openai.FinishReason(r.Finish), openai.FinishReasonToolCalls)
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

// whole is the answer in one piece.
func (a *answer) whole() openai.ChatCompletionResponse {
	return openai.ChatCompletionResponse{
		ID: a.id, Object: "chat.completion", Created: a.created, Model: a.model, Usage: a.usage,
		Choices: []openai.ChatCompletionChoice{{Message: a.message, FinishReason: a.finish}},
	}
}

// chunks is the answer as a stream. Text and arguments come in several pieces, as from a real model, so that a
// consumer which cannot put them together is found out.
func (a *answer) chunks(includeUsage bool) (out []openai.ChatCompletionStreamResponse) {
	chunk := openai.ChatCompletionStreamResponse{
		ID: a.id, Object: "chat.completion.chunk", Created: a.created, Model: a.model, Choices: []openai.ChatCompletionStreamChoice{},
	}
	add := func(choice openai.ChatCompletionStreamChoice) {
		one := chunk
		one.Choices = []openai.ChatCompletionStreamChoice{choice}
		out = append(out, one)
	}
	delta := func(d openai.ChatCompletionStreamChoiceDelta) { add(openai.ChatCompletionStreamChoice{Delta: d}) }
	delta(openai.ChatCompletionStreamChoiceDelta{Role: a.message.Role})
	for _, piece := range pieces(a.message.Content) {
		delta(openai.ChatCompletionStreamChoiceDelta{Content: piece})
	}
	for i, call := range a.message.ToolCalls {
		head, arguments := call, call.Function.Arguments
		head.Index, head.Function.Arguments = &i, ""
		delta(openai.ChatCompletionStreamChoiceDelta{ToolCalls: []openai.ToolCall{head}})
		for _, piece := range pieces(arguments) {
			delta(openai.ChatCompletionStreamChoiceDelta{ToolCalls: []openai.ToolCall{
				{Index: &i, Type: call.Type, Function: openai.FunctionCall{Arguments: piece}},
			}})
		}
	}
	add(openai.ChatCompletionStreamChoice{FinishReason: a.finish})
	if includeUsage {
		chunk.Usage = &a.usage
		out = append(out, chunk)
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
