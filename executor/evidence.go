package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
)

// Sizes of what is kept as evidence, in characters.
const (
	finalMessageKept = 8000
	toolTextKept     = 500
	toolCallsKept    = 30
)

// settleTime is how long the last message of an ended turn may take to be completed: that comes a little after the idle
// event when a turn failed or was aborted (seen: 30 ms).
const settleTime = 2 * time.Second

// settled reads the session's messages, as soon as the last one is completed.
func (t *turn) settled(ctx context.Context, sub *opencode.Subscription) ([]opencode.Message, error) {
	deadline := t.cfg.Now().Add(settleTime)
	for {
		messages, err := t.dir.Messages(ctx, t.job.Attempt.SessionID, 0)
		if err != nil {
			return nil, fault(err)
		}
		now := t.cfg.Now()
		n := len(messages)
		if n == 0 || messages[n-1].Info.Role != opencode.RoleAssistant || !messages[n-1].Info.Completed.IsZero() ||
			!now.Before(deadline) {
			return messages, nil
		}
		if _, err := t.next(ctx, sub, now.Add(settleTime/20)); err != nil {
			return nil, err
		}
	}
}

// workspaceTimeout bounds one look at the project: a first snapshot of a large one takes a minute.
const workspaceTimeout = 10 * time.Minute

// gather collects what the turn left behind.
func (t *turn) gather(ctx context.Context, sub *opencode.Subscription) (boulder.Evidence, error) {
	var e boulder.Evidence
	messages, err := t.settled(ctx, sub)
	if err != nil {
		return e, err
	}
	own := t.ofTurn(messages)
	t.readMessages(&e, own)
	if err := turnFault(t.ending(&e, own), t.modelName(own)); err != nil {
		return e, err
	}
	e.Duration = t.duration(own)
	e.Diagnostics = t.diagnostics(messages)
	if err := t.ask(ctx, &e, messages); err != nil {
		return e, err
	}
	e.Gates, err = t.runGates(ctx)
	return e, err
}

// ask collects what does not depend on each other at the same time: the session's sub-agents, its todo list, the
// project's changes; and it writes the transcript. Gates come after that, since they may leave files behind.
func (t *turn) ask(ctx context.Context, e *boulder.Evidence, messages []opencode.Message) error {
	var children boulder.Usage
	g, ctx := errgroup.WithContext(ctx)
	if usedTools(messages) { // sub-agents and todo lists come about by tools only
		g.Go(func() (err error) {
			children, err = t.children(ctx)
			return err
		})
		g.Go(func() (err error) {
			e.Todos, err = t.todoList(ctx)
			return err
		})
	}
	g.Go(func() (err error) {
		e.Diff, err = t.diff(ctx, messages)
		return err
	})
	g.Go(func() (err error) {
		e.Transcript, err = t.writeTranscript(messages)
		return err
	})
	err := g.Wait()
	e.Usage = e.Usage.Add(children)
	return err
}

func (t *turn) todoList(ctx context.Context) ([]boulder.Todo, error) {
	list, err := t.dir.Todos(ctx, t.job.Attempt.SessionID)
	if err != nil {
		return nil, fault(err)
	}
	var todos []boulder.Todo
	for _, x := range list {
		todos = append(todos, boulder.Todo{Content: clip(x.Content, 300), Status: x.Status})
	}
	return todos, nil
}

// ofTurn cuts out the messages that follow the turn's own prompt.
func (t *turn) ofTurn(messages []opencode.Message) []opencode.Message {
	i := slices.IndexFunc(messages, func(m opencode.Message) bool { return m.Info.ID == t.job.Turn.MessageID })
	if i < 0 {
		return nil // the prompt never arrived
	}
	return messages[i+1:]
}

// readMessages takes in what the agent said, called and cost.
func (t *turn) readMessages(e *boulder.Evidence, messages []opencode.Message) {
	for _, m := range messages {
		if m.Info.Role != opencode.RoleAssistant {
			continue
		}
		if text := m.Text(); text != "" && !m.Info.Compacted { // a summary of the conversation is no answer
			e.FinalMessage = head(text, finalMessageKept)
		}
		e.Usage = e.Usage.Add(t.usageOf(m.Info.Model, m.Info.Tokens, m.Info.Cost))
		for _, p := range m.Parts {
			if p.Tool != nil {
				e.ToolCount++
				e.ToolCalls = append(e.ToolCalls, toolCall(p.Tool))
			}
		}
	}
	if n := len(e.ToolCalls); n > toolCallsKept {
		e.ToolCalls = slices.Clone(e.ToolCalls[n-toolCallsKept:])
	}
}

func toolCall(c *opencode.ToolCall) boulder.ToolCall {
	out, status := c.Output, string(c.State)
	switch c.State {
	case opencode.ToolError:
		out = c.Error
	case opencode.ToolPending, opencode.ToolRunning:
		status = "running"
	}
	return boulder.ToolCall{
		ID: c.CallID, Tool: c.Tool, Title: clip(c.Title, 200),
		Input: head(string(c.Input), toolTextKept), Output: tail(out, toolTextKept), Status: status,
	}
}

// usageOf counts one call. Where OpenCode knows no price it says 0 for what was not free; then [Config].Price is asked, and
// without an answer the cost is unknown.
func (t *turn) usageOf(model opencode.ModelRef, n opencode.Tokens, cost float64) boulder.Usage {
	u := boulder.Usage{
		Input: n.Input + n.CacheRead + n.CacheWrite, CacheRead: n.CacheRead, CacheWrite: n.CacheWrite,
		Output: n.Output + n.Reasoning, Reasoning: n.Reasoning, Cost: cost, Calls: 1,
	}
	if cost > 0 || u.Tokens() == 0 {
		return u
	}
	name := t.job.Attempt.Model
	if !model.IsZero() {
		name = model.String()
	}
	if price, known := t.cfg.Price(name, u); known {
		u.Cost = price
	} else {
		u.Unpriced = 1
	}
	return u
}

// ending fills in how the turn ended and returns the error that ended it, if one did.
func (t *turn) ending(e *boulder.Evidence, messages []opencode.Message) *opencode.TurnError {
	e.Ended.Stopped, e.Ended.Rule = t.seen.stopped, t.seen.rule
	failed := t.seen.failed
	for _, m := range slices.Backward(messages) {
		if m.Info.Role == opencode.RoleAssistant {
			e.Ended.Finish = m.Info.Finish
			failed = cmp.Or(m.Info.Error, failed) // the message is completed a little after the idle event
			break
		}
	}
	if failed != nil && failed.Name == opencode.MessageAborted && t.seen.stopped != "" {
		failed = nil // an abort of our own is told by Stopped
	}
	if failed != nil {
		e.Ended.Error, e.Ended.Message = failed.Name, clip(failed.Message, 600)
		if failed.Name == opencode.APIError && classify(failed).Kind == providers.KindContextLength {
			e.Ended.Error = opencode.ContextOverflow
		}
	}
	e.Ended.Truncated = t.truncated(e.Ended, messages)
	return failed
}

// truncated says why the turn's end is none of its own although it looks like one.
func (t *turn) truncated(ended boulder.Ended, messages []opencode.Message) string {
	switch {
	case ended.Finish == opencode.FinishLength, ended.Error == opencode.MessageOutputLength:
		return "the turn was cut off at the output limit"
	case ended.Finish == opencode.FinishUnknown:
		return "the turn ended for a reason that its provider did not name"
	case ended.Error != "", ended.Stopped != "", usedTools(messages):
		return ""
	}
	tokens, reported, characters := int64(0), false, 0
	for _, m := range messages {
		if m.Info.Role == opencode.RoleAssistant && !m.Info.Compacted {
			tokens += m.Info.Tokens.Output
			reported = reported || m.Info.Tokens != opencode.Tokens{}
			characters += utf8.RuneCountInString(m.Text())
		}
	}
	if !reported {
		tokens = int64(characters / 4)
	}
	if t.rules.MinOutput < 0 || tokens > int64(t.rules.MinOutput) {
		return ""
	}
	return fmt.Sprintf("the turn ended after %d output tokens and no tool call", tokens)
}

// duration is how long the turn was at work. What it did before it was taken up again is known by its messages.
func (t *turn) duration(messages []opencode.Message) time.Duration {
	d := t.seen.ended.Sub(t.seen.began)
	if t.seen.began.IsZero() {
		d = 0 // it had ended before anybody looked
	}
	for _, m := range messages {
		if end := m.Info.Completed; m.Info.Role == opencode.RoleAssistant && !end.IsZero() &&
			(t.seen.began.IsZero() || end.Before(t.seen.began)) {
			d += end.Sub(m.Info.Created)
		}
	}
	return max(0, d)
}

func (t *turn) modelName(messages []opencode.Message) string {
	if t.job.Attempt.Model != "" {
		return t.job.Attempt.Model
	}
	for _, m := range messages {
		if !m.Info.Model.IsZero() {
			return m.Info.Model.String()
		}
	}
	return "the default model"
}

// children is what sub-agents of the session cost in this turn.
func (t *turn) children(ctx context.Context) (boulder.Usage, error) {
	var sum boulder.Usage
	children, err := t.dir.Children(ctx, t.job.Attempt.SessionID)
	if err != nil {
		return sum, fault(err)
	}
	for _, c := range children {
		if c.Created.Before(t.seen.began) {
			continue // counted with the turn that made it
		}
		sum = sum.Add(t.usageOf(t.model, c.Tokens, c.Cost))
	}
	return sum, nil
}

// diff says what changed in the project since the sub-task began. When other sub-tasks were at work at the same time,
// only files that its sessions were seen to write are its own.
func (t *turn) diff(ctx context.Context, messages []opencode.Message) (boulder.Diff, error) {
	if t.job.SubTask.Snapshot != "" && t.job.Attempt.Attempt == 1 && !usedTools(messages) {
		return boulder.Diff{}, nil // without a tool an agent changes nothing
	}
	ctx, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	now, err := t.cfg.Workspace.Snapshot(ctx)
	if err != nil {
		return boulder.Diff{}, fmt.Errorf("look at the project after the turn: %w", err)
	}
	own := func(string) bool { return true }
	alone := t.job.Alone == nil || t.job.Alone()
	if !alone {
		touched := t.touched(messages)
		own = func(path string) bool { return touched[path] || slices.Contains(t.job.SubTask.Files, path) }
	}
	d, err := t.cfg.Workspace.Diff(ctx, t.job.SubTask.Snapshot, now, own)
	if err != nil && ctx.Err() == nil {
		// A snapshot's objects can be gone after a garbage collection. Better no diff than no judgement.
		t.cfg.Logger.Warn("no diff", "sub_task", t.job.SubTask.ID, "error", err)
		return boulder.Diff{Unavailable: clip(err.Error(), 300)}, nil
	}
	d.Commands = !alone && used(messages, func(tool string) bool { return tool == "bash" || tool == "task" })
	return d, err
}

func usedTools(messages []opencode.Message) bool {
	return used(messages, func(string) bool { return true })
}

// used reports whether the session called a tool of the kind.
func used(messages []opencode.Message, kind func(tool string) bool) bool {
	for _, m := range messages {
		if slices.ContainsFunc(m.Parts, func(p opencode.Part) bool { return p.Tool != nil && kind(p.Tool.Tool) }) {
			return true
		}
	}
	return false
}

// touched are the files that the session wrote, relative to the project, as its messages and its events tell.
func (t *turn) touched(messages []opencode.Message) map[string]bool {
	files := map[string]bool{}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Tool != nil {
				for _, f := range editedFiles(p.Tool) {
					files[t.relative(f)] = true
				}
			}
		}
	}
	for f := range t.seen.touched {
		files[t.relative(f)] = true
	}
	return files
}

// errTranscript wraps a transcript that could not be written: without it the record of the attempt would be incomplete.
var errTranscript = errors.New("the transcript could not be written")

// writeTranscript keeps the whole session so far, and returns the file's path relative to the project.
func (t *turn) writeTranscript(messages []opencode.Message) (string, error) {
	a := t.job.Attempt
	path := filepath.Join(t.cfg.RunsDir, t.job.BoulderID, a.SubTaskID, fmt.Sprintf("%d.jsonl", a.Attempt))
	if err := saveTranscript(path, messages); err != nil {
		return "", fmt.Errorf("%w: %w: %w", boulder.ErrTrouble, errTranscript, err)
	}
	return t.relative(path), nil
}
