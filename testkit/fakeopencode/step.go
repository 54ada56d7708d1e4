package fakeopencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sashabaranov/go-openai"
)

// step is one call of the model, with the tool calls in its answer.
type step struct {
	x       *session
	agent   *agent
	message *message
	finish  openai.FinishReason
}

// step runs one step, and reports whether the model called tools and so has to be called again.
func (x *session) step(ctx context.Context, a *agent, e endpoint) (more bool, err error) {
	t := &step{x: x, agent: a}
	begin := x.tree()
	t.message = x.add(&message{Type: "assistant", Agent: a.id, Model: &e.ref, Content: []*content{}})
	started := fields{"agent": a.id, "model": e.ref}
	if begin != "" {
		t.message.Snapshot = map[string]string{"start": begin}
		started["snapshot"] = begin
	}
	x.emit("session.step.started", t.about(started))
	wanted, err := t.ask(ctx, e)
	if err == nil {
		err = t.runTools(ctx, wanted)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		t.fail(err)
		return false, err
	}
	t.end()
	return len(wanted) > 0, nil
}

// ask calls the model, retries transient errors, and returns the tool calls that the model wants.
func (t *step) ask(ctx context.Context, e endpoint) (wanted []openai.ToolCall, err error) {
	x, s := t.x, t.x.server
	messages, tools := x.conversation(t.agent), x.offered(t.agent)
	for attempt := 1; ; attempt++ {
		var answer openai.ChatCompletionResponse
		var failure *turnError
		s.unlocked(func() { answer, failure = e.ask(ctx, x.Info.ID, messages, tools) })
		switch {
		case failure == nil:
			return t.take(answer, e.model), nil
		case ctx.Err() != nil || !slices.Contains(transient, failure.Type) || attempt > maxRetries:
			return nil, failure
		}
		wait := max(failure.after, s.behaviour.Retry<<(attempt-1))
		x.emit("session.retry.scheduled", t.about(fields{
			"attempt": attempt + 1, "at": now() + wait.Milliseconds(), "error": failure,
		}))
		await(ctx, s, time.After(wait))
	}
}

// take puts text and usage of the answer into the message, and returns the tool calls.
func (t *step) take(answer openai.ChatCompletionResponse, m model) []openai.ToolCall {
	u, choice := answer.Usage, answer.Choices[0]
	cost := (float64(u.PromptTokens)*m.Cost.Input + float64(u.CompletionTokens)*m.Cost.Output) / 1e6
	t.message.Cost, t.message.Tokens = &cost, &tokens{Input: u.PromptTokens, Output: u.CompletionTokens}
	t.finish = choice.FinishReason
	if text := choice.Message.Content; text != "" {
		t.message.Content = append(t.message.Content, &content{Type: "text", Text: text})
		t.x.emit("session.text.started", t.about(fields{"ordinal": 0}))
		t.x.live("session.text.delta", t.about(fields{"ordinal": 0, "delta": text}))
		t.x.emit("session.text.ended", t.about(fields{"ordinal": 0, "text": text}))
	}
	return choice.Message.ToolCalls
}

func (t *step) about(data fields) fields {
	data["assistantMessageID"] = t.message.ID
	return data
}

// runTools runs the calls in parallel. It returns errDeclined if the user declined one without a text.
func (t *step) runTools(ctx context.Context, wanted []openai.ToolCall) error {
	var group sync.WaitGroup
	var calls []*toolCall
	for _, w := range wanted {
		text, input := w.Function.Arguments, map[string]any{}
		err := json.Unmarshal([]byte(text), &input)
		c := &content{
			Type: "tool", ID: w.ID, Name: w.Function.Name, Time: &times{Created: now(), Ran: now()},
			State: &toolState{Status: "running", Input: input, Metadata: map[string]any{}},
		}
		t.message.Content = append(t.message.Content, c)
		t.x.emit("session.tool.input.started", t.about(fields{"id": c.ID, "name": c.Name}))
		t.x.live("session.tool.input.delta", t.about(fields{"id": c.ID, "delta": text}))
		t.x.emit("session.tool.input.ended", t.about(fields{"id": c.ID, "text": text}))
		if err != nil {
			t.x.failTool(t.message, c, failed("Invalid tool input: %v", err))
			continue
		}
		t.x.emit("session.tool.called", t.about(fields{"id": c.ID, "input": input, "executed": false}))
		calls = append(calls, &toolCall{ctx: ctx, step: t, content: c, input: input})
	}
	t.x.emit("session.step.streamed", t.about(fields{}))
	for _, call := range calls {
		group.Go(call.run)
	}
	t.x.server.unlocked(group.Wait)
	if slices.ContainsFunc(calls, func(call *toolCall) bool { return errors.Is(call.err, errDeclined) }) {
		return errDeclined
	}
	return nil
}

func (x *session) failTool(m *message, c *content, failure *turnError) {
	c.State = &toolState{Status: "error", Input: c.State.Input, Error: failure, Metadata: c.State.Metadata}
	c.Time.Completed = now()
	x.emit("session.tool.failed", fields{
		"assistantMessageID": m.ID, "id": c.ID, "error": failure, "executed": false,
	})
}

func (t *step) fail(err error) {
	failure, ok := errors.AsType[*turnError](err)
	if !ok {
		failure = &turnError{Type: "aborted", Message: "Step interrupted"}
	}
	for _, c := range t.message.running() {
		t.x.failTool(t.message, c, &turnError{Type: "aborted", Message: "Tool execution aborted"})
	}
	t.message.Error, t.message.Time.Completed = failure, now()
	t.x.emit("session.step.failed", t.about(fields{"error": failure}))
}

// finishes maps finish reasons to OpenCode's. All others become unknown.
var finishes = map[openai.FinishReason]string{
	"tool_calls": "tool-calls", "content_filter": "content-filter", "stop": "stop", "length": "length",
}

func (t *step) end() {
	x, m := t.x, t.message
	m.Time.Completed, m.Finish = now(), cmp.Or(finishes[t.finish], "unknown")
	if m.Cost == nil {
		m.Cost, m.Tokens = new(0.0), &tokens{}
	}
	x.Info.Cost += *m.Cost
	x.Info.Tokens.Input += m.Tokens.Input
	x.Info.Tokens.Output += m.Tokens.Output
	ended := t.about(fields{"finish": m.Finish, "cost": *m.Cost, "tokens": *m.Tokens})
	if tree := x.tree(); tree != "" && m.Snapshot != nil {
		m.Snapshot["end"] = tree
		ended["snapshot"] = tree
	}
	x.emit("session.step.ended", ended)
	x.live("session.usage.updated", fields{"cost": x.Info.Cost, "tokens": x.Info.Tokens})
}

// conversation returns what the model reads.
func (x *session) conversation(a *agent) []openai.ChatCompletionMessage {
	system := fmt.Sprintf("You are the agent %s of a stand-in for OpenCode.\n\n"+
		"Here is some useful information about the environment you are running in:\n<env>\n  Working directory: %s\n</env>%s",
		a.id, x.Info.Location.Directory, x.instructions())
	all := []openai.ChatCompletionMessage{{Role: "system", Content: system}}
	for _, m := range x.Messages {
		switch m.Type {
		case "user", "synthetic":
			all = append(all, openai.ChatCompletionMessage{Role: "user", Content: m.Text})
		case "assistant":
			all = append(all, m.spoken()...)
		}
	}
	return all
}

// spoken returns an assistant's message as the model reads it: its text, its tool calls and their results.
func (m *message) spoken() []openai.ChatCompletionMessage {
	said := openai.ChatCompletionMessage{Role: "assistant", Content: m.said()}
	var results []openai.ChatCompletionMessage
	for _, c := range m.Content {
		if c.Type != "tool" {
			continue
		}
		input, _ := json.Marshal(c.State.Input) // it came in as JSON
		said.ToolCalls = append(said.ToolCalls, openai.ToolCall{
			ID: c.ID, Type: openai.ToolTypeFunction, Function: openai.FunctionCall{Name: c.Name, Arguments: string(input)},
		})
		result := openai.ChatCompletionMessage{Role: "tool", ToolCallID: c.ID}
		if c.State.Error != nil {
			result.Content = c.State.Error.Message
		}
		for _, part := range c.State.Content {
			result.Content += part.Text + "\n"
		}
		results = append(results, result)
	}
	if said.Content == "" && len(said.ToolCalls) == 0 {
		return nil
	}
	return append([]openai.ChatCompletionMessage{said}, results...)
}
