package executor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/scope"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
	"github.com/bouldermgr/manager/session"
)

const (
	// completionTime bounds the wait for the last message of an ended turn. After a failure or an abort it completes
	// shortly after the idle event (observed: 30 ms).
	completionTime = 2 * time.Second
	// workspaceTimeout bounds one look at the project. The first snapshot of a large project takes a minute.
	workspaceTimeout = 10 * time.Minute
)

func (t *turn) gather(ctx context.Context) (boulder.Evidence, error) {
	deadline := t.cfg.Now().Add(completionTime)
	for !t.tree.Completed() && t.cfg.Now().Before(deadline) {
		if _, err := t.next(ctx, deadline); err != nil {
			return boulder.Evidence{}, err
		}
	}
	r, err := t.read(ctx)
	if err != nil {
		return boulder.Evidence{}, err
	}
	e := r.evidence
	if err := turnFault(t.ending(&e, r), t.modelName(r.model)); err != nil {
		return e, err
	}
	if !t.seen.Began.IsZero() { // zero if the turn had ended before it was resumed
		e.Duration = max(0, t.seen.ended.Sub(t.seen.Began))
	}
	if err := t.lookAround(ctx, &e, r); err != nil {
		return e, err
	}
	if t.place.slot != nil {
		if e.Ignored, err = t.place.slot.Ignored(ctx); err != nil {
			return e, err
		}
		for _, name := range undelivered(&t.job.SubTask, paths(e.Diff.Files), e.Ignored) {
			e.Warnings = append(slices.Clip(e.Warnings), name+" is ignored by git: it is no part of the result, and will not land")
		}
		e.Ignored = e.Ignored[:min(len(e.Ignored), maxIgnored)]
	}
	e.Gates, err = t.runGates(ctx, e.NoServer)
	return e, err
}

const maxIgnored = 50 // names of ignored files in evidence

// reading is one pass over a session's messages, oldest first.
type reading struct {
	transcript bytes.Buffer
	cut        bool // the transcript
	// Of the turn, that is, of the messages after its prompt:

	evidence boulder.Evidence
	newest   opencode.MessageInfo // the newest answer
	model    opencode.ModelRef    // of the first answer
	output   int64                // tokens, without compaction summaries
	said     session.Words
	// Of the whole session:

	marker   string // counts like [boulder.Promise]; empty: not diverted
	tools    bool   // a tool was called
	commands bool   // a tool was called that may write files without naming them
	findings session.Findings
}

// read puts all messages of the session into the transcript, and those of the turn into the evidence.
func (t *turn) read(ctx context.Context) (*reading, error) {
	r, own := &reading{}, false
	if t.asks.Diverted() {
		r.marker = t.asks.Diverter.Diversion().Marker
	}
	transcript := json.NewEncoder(&r.transcript)
	transcript.SetEscapeHTML(false) // users read it
	for m, err := range t.dir.EachMessage(ctx, t.job.Attempt.SessionID) {
		if err != nil {
			return nil, fault(err)
		}
		m = redacted(t.Executor, m)
		for _, l := range linesOf(m) {
			if r.transcript.Len() > transcriptKept {
				r.cut = true
				break
			}
			if err := transcript.Encode(l); err != nil {
				return nil, fmt.Errorf("%w: message %s cannot be written: %w", boulder.ErrTrouble, m.Info.ID, err)
			}
		}
		t.readMessage(r, m, own)
		own = own || m.Info.ID == t.job.Turn.MessageID
	}
	if r.cut {
		said := fmt.Sprintf("the session goes on: a transcript holds %d MiB", transcriptKept>>20)
		if err := transcript.Encode(TranscriptLine{Time: r.newest.Completed, Type: "end", Error: said}); err != nil {
			return nil, fmt.Errorf("%w: the end of the transcript cannot be written: %w", boulder.ErrTrouble, err)
		}
	}
	e := &r.evidence
	e.Said = r.said.Text()
	e.Diagnostics = r.findings.Errors
	for i := range e.Diagnostics {
		e.Diagnostics[i].File = t.relative(e.Diagnostics[i].File)
	}
	return r, nil
}

// readMessage adds a message to r. own says whether it belongs to the turn.
func (t *turn) readMessage(r *reading, m opencode.Message, own bool) {
	for _, p := range m.Parts {
		if p.Tool != nil {
			r.tools, r.commands = true, r.commands || p.Tool.Tool == "bash" || p.Tool.Tool == "task"
			r.findings.Take(p.Tool, t.path)
		}
	}
	if m.Info.Role != opencode.RoleAssistant {
		return
	}
	said, e := m.Text(), &r.evidence
	if m.Info.Compacted { // a compaction summary is no answer
		said = ""
	}
	marked := enforcer.Marked(said, r.marker)
	e.Promised = e.Promised || marked || enforcer.Promised(said)
	if !own {
		return
	}
	e.Marked = e.Marked || marked
	if m.Info.Compacted {
		e.Compactions++
	} else {
		r.output += session.Output(m)
	}
	if said != "" {
		e.FinalMessage = text.Excerpt(said, session.MaxWords, text.Start)
	}
	r.said.Add(m)
	r.model, r.newest = cmp.Or(r.model, m.Info.Model), m.Info
	r.newest.Error = session.Failure(m)
	e.Usage = e.Usage.Add(t.usageOf(m.Info))
	calls := session.ToolCalls(m)
	e.ToolCount += len(calls)
	calls = append(e.ToolCalls, calls...)
	e.ToolCalls = slices.Clone(calls[max(0, len(calls)-session.MaxToolCalls):])
	for _, p := range m.Parts {
		if p.Tool != nil {
			t.touch(p.Tool)
		}
	}
}

// lookAround collects evidence outside the messages and writes the transcript, before gates can leave files behind.
func (t *turn) lookAround(ctx context.Context, e *boulder.Evidence, r *reading) error {
	if r.tools { // only tools create sub-agents and todo lists
		err := t.eachChildAnswer(ctx, func(m opencode.MessageInfo) { e.Usage = e.Usage.Add(t.usageOf(m)) })
		if err != nil {
			return err
		}
		list, err := t.dir.Todos(ctx, t.job.Attempt.SessionID)
		if err != nil {
			return fault(err)
		}
		e.Todos = session.Todos(redacted(t.Executor, list))
	}
	// An earlier attempt may have left errors behind.
	if t.job.SubTask.DoneNeeds(boulder.DoneDiagnostics) && (r.tools || t.job.Attempt.Attempt > 1) {
		has, err := t.dir.HasLanguageServer(ctx)
		if err != nil {
			return fault(err)
		}
		e.NoServer = !has
	}
	escaped := t.escaped()
	var err error
	if e.Diff, err = t.diff(ctx, r); err != nil {
		return err
	}
	own, _, _ := e.Diff.Split(nil)
	if e.Escaped = escaped; t.place.slot != nil && r.commands {
		if e.Strayed, err = t.strayed(ctx, paths(own)); err != nil {
			return err
		}
	}
	if e.Outside = scope.Outside(t.job.SubTask.Writes, paths(own)); len(e.Outside) > 0 {
		if err := t.notice("changed outside of its writes: " + text.Short(strings.Join(e.Outside, ", "), 200)); err != nil {
			return err
		}
	}
	e.Warnings = t.seen.lacks
	switch repo, err := t.repo(ctx); {
	case err != nil:
		t.cfg.Logger.Warn("where the turn left git is not known", "error", err)
	default:
		e.Warnings = append(slices.Clip(e.Warnings), repo.Since(t.job.SubTask.Repo)...)
	}
	a := t.job.Attempt
	name := path.Join(t.job.BoulderID, a.SubTaskID, fmt.Sprintf("%d.jsonl", a.Attempt))
	e.Transcript = path.Join(runsDir, name)
	if err := t.writeRun(name, r.transcript.Bytes()); err != nil {
		return fmt.Errorf("%w: the transcript could not be written: %w", boulder.ErrTrouble, err)
	}
	return nil
}

// ending fills in how the turn ended, and returns the error that ended it, if any.
func (t *turn) ending(e *boulder.Evidence, r *reading) *opencode.TurnError {
	e.Ended = boulder.Ended{Finish: r.newest.Finish, Stopped: t.seen.stopped, Rule: t.seen.rule}
	failed := cmp.Or(r.newest.Error, t.seen.failed) // the message gets its error shortly after the idle event
	if failed != nil && failed.Name == opencode.MessageAborted && t.seen.stopped != "" {
		failed = nil // our own abort: Stopped says so
	}
	if failed != nil {
		e.Ended.Error, e.Ended.Message = failed.Name, text.Short(failed.Message, 600)
		if failed.Name == opencode.APIError && ocprovider.Classify(failed).Kind == providers.KindContextLength {
			e.Ended.Error = opencode.ContextOverflow
		}
	}
	e.Ended.Truncated = t.truncated(e, r)
	return failed
}

// truncated says why a turn that seems to have ended was cut off; empty if it was not.
func (t *turn) truncated(e *boulder.Evidence, r *reading) string {
	switch {
	case t.seen.cutOff && t.job.Awaits():
		return "the turn was cut off from outside, with a question that has no answer"
	case t.seen.cutOff:
		return "the turn was cut off from outside twice"
	}
	return session.CutOff(e.Ended.Finish, cmp.Or(e.Ended.Error, e.Ended.Stopped), e.ToolCount > 0, r.output, t.cfg.Rules.MinOutput)
}

// modelName names the model in messages: the chosen one, else the one that answered.
func (t *turn) modelName(answered opencode.ModelRef) string {
	return cmp.Or(t.job.Attempt.Model, answered.String(), "the default model")
}

// diff returns what changed in the project since the sub-task began. If other sub-tasks ran meanwhile, only files that
// its sessions were seen to write count as its own.
func (t *turn) diff(ctx context.Context, r *reading) (boulder.Diff, error) {
	alone := t.job.Alone == nil || t.job.Alone()
	if t.job.SubTask.Snapshot != "" && t.job.Attempt.Attempt == 1 && !r.tools { // no tools, no changes
		if !alone {
			return boulder.Diff{}, nil
		}
		return boulder.Diff{Tree: t.job.SubTask.Snapshot}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	now, unstored, err := t.snapshot(ctx)
	if err != nil {
		return boulder.Diff{}, fmt.Errorf("look at the project after the turn: %w", err)
	}
	for file := range r.findings.Edited {
		t.seen.touched[t.relative(file)] = true
	}
	d, err := t.files.Diff(ctx, t.job.SubTask.Snapshot, now, func(path string) bool {
		return alone || t.seen.touched[path] || slices.Contains(t.job.SubTask.Files, path)
	})
	if err == nil && t.place.slot != nil {
		d.Commit, _, err = t.place.slot.Capture(ctx, now)
	}
	if err != nil && ctx.Err() == nil && t.place.slot != nil { // uncaptured work would be lost
		return d, fmt.Errorf("%w: the slot could not be captured: %w", boulder.ErrTrouble, err)
	}
	if err != nil && ctx.Err() == nil {
		// Garbage collection may have removed a snapshot's objects. Better to judge without a diff than not at all.
		t.cfg.Logger.Warn("no diff", "sub_task", t.job.SubTask.ID, "error", err)
		return boulder.Diff{Unavailable: text.Short(err.Error(), 300)}, nil
	}
	d.Unstored = unstored
	d.Commands, d.Tree = !alone && r.commands, now
	return d, err
}

func paths(files []boulder.FileChange) (all []string) {
	for _, f := range files {
		all = append(all, f.Path)
	}
	return all
}
