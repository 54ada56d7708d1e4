package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

// Sizes of what is kept as evidence, in characters.
const (
	finalMessageKept = 8000
	toolTextKept     = 500
	toolCallsKept    = 30
)

// settleTime is how long the last message of an ended turn may take to be completed: that comes a little after the idle event
// when a turn failed or was aborted (seen: 30 ms).
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
	if err := t.ask(ctx, &e, messages); err != nil {
		return e, err
	}
	e.Gates, err = t.runGates(ctx)
	return e, err
}

// ask collects what does not depend on each other at the same time: the session's sub-agents, its todo list, the project's
// changes; and it writes the transcript. Gates come after that, since they may leave files behind.
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
		if text := m.Text(); text != "" {
			e.FinalMessage = head(text, finalMessageKept)
		}
		e.Usage = e.Usage.Add(usageOf(m.Info.Tokens, m.Info.Cost, 1))
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

// usageOf counts the cost as unknown where OpenCode knows no price: it then says 0 for what was not free.
func usageOf(t opencode.Tokens, cost float64, calls int64) boulder.Usage {
	u := boulder.Usage{
		Input: t.Input + t.CacheRead + t.CacheWrite, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite,
		Output: t.Output + t.Reasoning, Reasoning: t.Reasoning, Cost: cost, Calls: calls,
	}
	if cost == 0 && u.Tokens() > 0 {
		u.Unpriced = calls
	}
	return u
}

// ending fills in how the turn ended and returns the error that ended it, if one did.
func (t *turn) ending(e *boulder.Evidence, messages []opencode.Message) *opencode.TurnError {
	e.Ended.Stopped = t.seen.stopped
	failed := t.seen.failed
	for _, m := range slices.Backward(messages) {
		if m.Info.Role == opencode.RoleAssistant {
			e.Ended.Finish = m.Info.Finish
			failed = cmp.Or(m.Info.Error, failed) // the message is completed a little after the idle event
			break
		}
	}
	if failed == nil || (failed.Name == opencode.MessageAborted && t.seen.stopped != "") {
		return nil // an abort of our own is told by Stopped
	}
	e.Ended.Error, e.Ended.Message = failed.Name, clip(failed.Message, 600)
	return failed
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
		sum = sum.Add(usageOf(c.Tokens, c.Cost, 1))
	}
	return sum, nil
}

// diff says what changed in the project since the sub-task began. When other sub-tasks were at work at the same time, only
// files that its sessions were seen to write are its own.
func (t *turn) diff(ctx context.Context, messages []opencode.Message) (boulder.Diff, error) {
	if t.job.SubTask.Snapshot != "" && t.job.Attempt.Attempt == 1 && !usedTools(messages) {
		return boulder.Diff{}, nil // without a tool an agent changes nothing
	}
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
