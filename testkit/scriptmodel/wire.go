package scriptmodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/bouldermgr/manager/internal/text"
)

// answer makes the answer to req. seq, the request's number, makes the ids of the completion and its tool calls unique.
func (r Reply) answer(req Request, seq int) (out openai.ChatCompletionResponse, err error) {
	if r, err = r.deliverJSON(req); err != nil {
		return out, err
	}
	message := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: r.Text}
	size := len(r.Text)
	for i, call := range r.ToolCalls {
		call = call.forGeneration(req.Tools)
		args, err := marshalArgs(call.Args)
		if err != nil {
			return out, fmt.Errorf("marshal the arguments of tool call %s: %w", call.Name, err)
		}
		message.ToolCalls = append(message.ToolCalls, openai.ToolCall{
			ID: cmp.Or(call.ID, fmt.Sprintf("call_%d_%d", seq, i)), Type: openai.ToolTypeFunction,
			Function: openai.FunctionCall{Name: call.Name, Arguments: args},
		})
		size += len(args)
	}
	finish := cmp.Or(r.Finish, text.If(len(r.ToolCalls) > 0, "tool_calls"), "stop")
	in, written := cmp.Or(r.InputTokens, max(1, len(req.Text())/4)), cmp.Or(r.OutputTokens, max(1, size/4))
	out = openai.ChatCompletionResponse{
		ID: fmt.Sprint("chatcmpl-", seq), Object: "chat.completion", Created: time.Now().Unix(), Model: req.Model,
		Choices: []openai.ChatCompletionChoice{{Message: message, FinishReason: openai.FinishReason(finish)}},
	}
	if !r.Empty {
		out.Usage = openai.Usage{PromptTokens: in, CompletionTokens: written, TotalTokens: in + written}
	}
	return out, nil
}

// chunks splits an answer into a stream. Text and arguments come in several pieces, as from a real model, so that tests
// find clients that cannot join them.
func chunks(whole openai.ChatCompletionResponse) (out []openai.ChatCompletionStreamResponse) {
	chunk := openai.ChatCompletionStreamResponse{
		ID: whole.ID, Object: "chat.completion.chunk", Created: whole.Created, Model: whole.Model,
		Choices: []openai.ChatCompletionStreamChoice{},
	}
	add := func(choice openai.ChatCompletionStreamChoice) {
		one := chunk
		one.Choices = []openai.ChatCompletionStreamChoice{choice}
		out = append(out, one)
	}
	delta := func(d openai.ChatCompletionStreamChoiceDelta) { add(openai.ChatCompletionStreamChoice{Delta: d}) }
	message := whole.Choices[0].Message
	delta(openai.ChatCompletionStreamChoiceDelta{Role: message.Role})
	for _, piece := range pieces(message.Content) {
		delta(openai.ChatCompletionStreamChoiceDelta{Content: piece})
	}
	for i, call := range message.ToolCalls {
		arguments := call.Function.Arguments
		call.Index, call.Function.Arguments = &i, ""
		delta(openai.ChatCompletionStreamChoiceDelta{ToolCalls: []openai.ToolCall{call}})
		for _, piece := range pieces(arguments) {
			delta(openai.ChatCompletionStreamChoiceDelta{ToolCalls: []openai.ToolCall{
				{Index: &i, Type: call.Type, Function: openai.FunctionCall{Arguments: piece}},
			}})
		}
	}
	add(openai.ChatCompletionStreamChoice{FinishReason: whole.Choices[0].FinishReason})
	if chunk.Usage = &whole.Usage; whole.Usage.TotalTokens > 0 {
		out = append(out, chunk)
	}
	return out
}

// pieces cuts s into at most four pieces.
func pieces(s string) (out []string) {
	const fewest = 8 // minimum characters per piece
	all := []rune(s)
	for piece := range slices.Chunk(all, max(fewest, (len(all)+3)/4)) {
		out = append(out, string(piece))
	}
	return out
}

func writeWhole(w http.ResponseWriter, answer openai.ChatCompletionResponse, cut bool) {
	body := marshal(answer)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if cut {
		body = body[:len(body)/2]
	}
	_, _ = w.Write(body) // the caller may be gone
	if cut {
		breakConnection(w)
	}
}

func writeStream(w http.ResponseWriter, answer openai.ChatCompletionResponse, cut bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	all := chunks(answer)
	for i, chunk := range all {
		if cut && i > 0 && i >= len(all)/2 {
			breakConnection(w)
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", marshal(chunk))
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

// breakConnection aborts the response, so that the client sees a broken connection. It does not return.
func breakConnection(w http.ResponseWriter) {
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// marshal is for values that cannot fail to marshal, such as texts and numbers.
func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
