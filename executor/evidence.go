package executor

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/bouldermgr/manager/internal/text"

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

// completionTime is how long the last message of an ended turn may take to be completed: that comes a little after the idle
// event when a turn failed or was aborted (seen: 30 ms).
const completionTime = 2 * time.Second

// awaitCompletion waits until the last message is completed.
func (t *turn) awaitCompletion(ctx context.Context, sub *opencode.Subscription) error {
	deadline := t.cfg.Now().Add(completionTime)
	for !t.tree.Completed() && t.cfg.Now().Before(deadline) {
		if _, err := t.next(ctx, sub, deadline); err != nil {
			return err
		}
	}
	return nil
}

// workspaceTimeout bounds one look at the project: a first snapshot of a large one takes a minute.
const workspaceTimeout = 10 * time.Minute

// gather collects what the turn left behind.
func (t *turn) gather(ctx context.Context, sub *opencode.Subscription) (boulder.Evidence, error) {
	var e boulder.Evidence
	if err := t.awaitCompletion(ctx, sub); err != nil {
		return e, err
	}
	r, err := t.read(ctx, &e)
	if err != nil {
		return e, err
	}
	if err := turnFault(t.ending(&e, r.own), t.modelName(r.own)); err != nil {
		r.transcript.discard()
		return e, err
	}
	e.Duration = t.duration()
	if err := t.ask(ctx, &e, r); err != nil {
		return e, err
	}
	e.Gates, err = t.runGates(ctx, e.NoServer)
	return e, err
}

// ask collects what does not depend on each other at the same time: the session's sub-agents, its todo list, the
// project's changes; and it writes the transcript. Gates come after that, since they may leave files behind.
func (t *turn) ask(ctx context.Context, e *boulder.Evidence, r *reading) error {
	var children boulder.Usage
	e.Diagnostics, e.Promised = t.diagnostics(r.session), r.session.promised || r.session.marked && t.diverted()
	g, ctx := errgroup.WithContext(ctx)
	if r.session.tools { // sub-agents and todo lists come about by tools only
		g.Go(func() (err error) {
			children, err = t.children(ctx)
			return err
		})
		g.Go(func() (err error) {
			e.Todos, err = t.todoList(ctx)
			return err
		})
	}
	if r.session.tools || t.job.Attempt.Attempt > 1 { // an earlier attempt may have left something behind
		g.Go(func() (err error) {
			e.NoServer, err = t.unanalysed(ctx)
			return err
		})
	}
	g.Go(func() (err error) {
		e.Diff, err = t.diff(ctx, r.session)
		return err
	})
	g.Go(func() error {
		e.Transcript = t.relative(filepath.Join(t.cfg.RunsDir, r.transcript.name))
		return transcriptFault(r.transcript.save())
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
		todos = append(todos, boulder.Todo{Content: text.Short(t.cfg.Redact.Text(x.Content), 300), Status: x.Status})
	}
	return todos, nil
}

// readMessage takes in what the agent said, called and cost, and gives the message without the bulk.
func (t *turn) readMessage(e *boulder.Evidence, m opencode.Message) opencode.Message {
	if m.Info.Role != opencode.RoleAssistant {
		return slim(m)
	}
	if said := m.Text(); said != "" && !m.Info.Compacted { // a summary of the conversation is no answer
		e.FinalMessage = text.Excerpt(said, finalMessageKept, text.Start)
	}
	if m.Info.Compacted {
		e.Compactions++
	}
	e.Usage = e.Usage.Add(t.usageOf(m.Info.Model, m.Info.Tokens, m.Info.Cost))
	for _, p := range m.Parts {
		if p.Tool != nil {
			e.ToolCount++
			e.ToolCalls = append(e.ToolCalls, toolCall(p.Tool))
		}
	}
	if n := len(e.ToolCalls); n > toolCallsKept {
		e.ToolCalls = slices.Delete(e.ToolCalls, 0, n-toolCallsKept)
	}
	return slim(m)
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
		ID: c.CallID, Tool: c.Tool, Title: text.Short(c.Title, 200),
		Input: text.Excerpt(string(c.Input), toolTextKept, text.Start), Output: text.Excerpt(out, toolTextKept, text.End), Status: status,
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
		e.Ended.Error, e.Ended.Message = failed.Name, text.Short(failed.Message, 600)
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
	case t.seen.cutOff && t.job.Awaits():
		return "the turn was cut off from outside, and does not go on before a person has answered"
	case t.seen.cutOff:
		return "the turn was cut off from outside twice"
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

// duration is how long the turn was at work since it was taken up: what it did before is booked when that is. Waiting for
// a person is no work.
func (t *turn) duration() time.Duration {
	if t.seen.began.IsZero() {
		return 0 // it had ended before anybody looked
	}
	return max(0, t.seen.ended.Sub(t.seen.began)-t.seen.pause.by(t.seen.ended))
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

// diff says what changed in the project since the sub-task began. When other sub-tasks were at work at the same time,
// only files that its sessions were seen to write are its own.
func (t *turn) diff(ctx context.Context, session account) (boulder.Diff, error) {
	if t.job.SubTask.Snapshot != "" && t.job.Attempt.Attempt == 1 && !session.tools {
		return boulder.Diff{Tree: t.untouched()}, nil // without a tool an agent changes nothing
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
		touched := t.touched(session)
		own = func(path string) bool { return touched[path] || slices.Contains(t.job.SubTask.Files, path) }
	}
	d, err := t.cfg.Workspace.Diff(ctx, t.job.SubTask.Snapshot, now, own)
	if err != nil && ctx.Err() == nil {
		// A snapshot's objects can be gone after a garbage collection. Better no diff than no judgement.
		t.cfg.Logger.Warn("no diff", "sub_task", t.job.SubTask.ID, "error", err)
		return boulder.Diff{Unavailable: text.Short(err.Error(), 300)}, nil
	}
	d.Commands, d.Tree = !alone && session.commands, now
	return d, err
}

// untouched is the tree in which the sub-task began, if nobody else can have changed it.
func (t *turn) untouched() string {
	if t.job.Alone == nil || t.job.Alone() {
		return t.job.SubTask.Snapshot
	}
	return ""
}

// usedTools reports whether a tool was called.
func usedTools(messages []opencode.Message) bool {
	for _, m := range messages {
		if slices.ContainsFunc(m.Parts, func(p opencode.Part) bool { return p.Tool != nil }) {
			return true
		}
	}
	return false
}

// touched are the files that the session wrote, relative to the project, as its messages and its events tell.
func (t *turn) touched(session account) map[string]bool {
	files := map[string]bool{}
	for _, paths := range []map[string]bool{session.edited, t.seen.touched} {
		for f := range paths {
			files[t.relative(f)] = true
		}
	}
	return files
}
