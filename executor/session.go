package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// openSession ensures that the attempt has a session and that its id is stored.
func (t *turn) openSession(ctx context.Context) error {
	if t.job.Attempt.SessionID != "" {
		return nil
	}
	if back := t.job.SubTask.Revert; back != nil {
		if err := t.cfg.Slots.TakeBack(ctx, *back); err != nil {
			return fmt.Errorf("%w: take back what %q changed before: %w; undo it by hand, then run `manager resume`",
				boulder.ErrFatal, t.job.SubTask.ID, err)
		}
	}
	// Before the snapshot, so that files left by gates do not count as the agent's work.
	baseline, err := t.baseline(ctx)
	if err != nil {
		return err
	}
	snapshot := t.job.SubTask.Snapshot // of the state before the sub-task's first attempt
	if snapshot == "" {
		looking, cancel := context.WithTimeout(ctx, workspaceTimeout)
		defer cancel()
		if snapshot, _, err = t.snapshot(looking); err != nil {
			return fmt.Errorf("look at the project before the attempt: %w", err)
		}
	}
	repo, err := t.repo(ctx)
	if err != nil {
		return fmt.Errorf("look at the project before the attempt: %w", err)
	}
	session, err := t.adoptOrCreate(ctx, t.rules)
	if err != nil {
		return fault(err)
	}
	t.job.SubTask.Repo = cmp.Or(t.job.SubTask.Repo, repo)
	t.job.Attempt.SessionID, t.job.SubTask.Snapshot = session.ID, snapshot
	t.job.SubTask.AddBaseline(t.job.Checks, baseline...)
	from, dir := "", ""
	if t.place.slot != nil {
		from, dir = t.place.slot.From(), t.path
	}
	return t.report(boulder.SubTaskStart{
		AttemptRef: t.job.Attempt.AttemptRef, From: from, Dir: dir, Description: t.job.SubTask.Subject, Model: t.job.Attempt.Model,
		Effort:    t.job.Attempt.Effort,
		SessionID: session.ID, Snapshot: snapshot, Repo: repo, Baseline: baseline,
	})
}

// repo returns where the project's git stands, for a turn that works in the project itself.
func (t *turn) repo(ctx context.Context) (*boulder.Repo, error) {
	if t.place.slot != nil {
		return nil, nil
	}
	return t.cfg.Workspace.Repo(ctx)
}

// adoptOrCreate finds the session that a recovered attempt may have created before a crash, or creates one. The rules override
// those of the configuration.
func (t *turn) adoptOrCreate(ctx context.Context, rules func() []opencode.Rule) (opencode.Session, error) {
	if t.job.Recovered {
		tag := t.job.Attempt.Tag
		found, err := session.Find(ctx, t.dir, opencode.SessionFilter{Title: tag}, session.TagKey, tag)
		if err != nil || found.ID != "" {
			return found, err
		}
	}
	return t.dir.CreateSession(ctx, opencode.NewSession{
		Title:    fmt.Sprintf("%s [%s]", t.job.SubTask.Subject, t.job.Attempt.Tag),
		Metadata: t.tag(),
		Agent:    t.job.Attempt.Agent, Model: t.model,
		Rules: rules(),
	})
}

// rules are the permissions of an attempt's session.
func (t *turn) rules() (rules []opencode.Rule) {
	for _, tool := range t.ownTools() {
		rules = append(rules, opencode.Rule{Permission: tool, Pattern: "*", Action: opencode.Allow})
	}
	diverted := t.asks.Diverted()
	if t.asks.Shown = &diverted; t.cfg.Diverter != nil && !diverted { // other sessions in the directory may have it
		rules = append(rules, session.ToolRule(false))
	}
	if t.place.slot != nil { // keep it out of other slots and of the project, except for the files that its brief names
		slots := filepath.Dir(filepath.Dir(t.place.slot.Root()))
		rules = append(rules,
			opencode.Rule{Permission: "external_directory", Pattern: slots + "/*", Action: opencode.Deny},
			opencode.Rule{Permission: "external_directory", Pattern: t.cfg.Project + "/*", Action: opencode.Deny},
			opencode.Rule{Permission: "external_directory", Pattern: filepath.Join(t.cfg.Project, runsDir) + "/*", Action: opencode.Allow})
	}
	if !diverted { // if it cannot ask, it decides for itself; diverted, it may ask
		rules = append(rules, opencode.Rule{Permission: "question", Pattern: "*", Action: opencode.Deny})
	}
	return rules
}

// send ensures that the server has the turn's prompt exactly once, and reports whether the turn has already ended.
func (t *turn) send(ctx context.Context) (ended bool, err error) {
	if err := t.chooseEffort(ctx); err != nil {
		return false, err
	}
	if t.job.Turn.MessageID == "" {
		if t.job.Awaits() {
			t.seen.cutOff = true
			return true, nil
		}
		return false, t.sendNew(ctx, false)
	}
	ended, err = t.pickUp(ctx)
	if ended || err != nil {
		return ended, err
	}
	return false, t.recount(ctx)
}

// pickUp resumes a turn whose prompt may have been sent before a crash or a fault.
func (t *turn) pickUp(ctx context.Context) (ended bool, err error) {
	p, err := t.position(ctx)
	if err != nil {
		return false, err
	}
	cutOff := p.Failed != nil && p.Failed.Name == opencode.MessageAborted // perhaps by manager itself
	switch {
	case p.Busy:
		t.seen.Busy = true
		t.recheckSoon()
		return false, nil
	case p.Answered && !cutOff && turnFault(p.Failed, t.job.Attempt.Model) == nil:
		return true, nil
	case t.job.Awaits(): // never prompt blocked work: judge what is there
		t.seen.cutOff = true
		return true, nil
	case p.Failed == session.NotReached:
		return false, t.sendNew(ctx, true) // the same message would count as answered
	case p.Answered && !cutOff, !p.Arrived:
		// It never arrived, or failed for a reason that may have passed. Resending the same message is harmless.
		return false, t.prompt(ctx)
	case t.job.Turn.ResumeID == "":
		return false, t.sendNew(ctx, true)
	case !p.Begun:
		// Cut off before the model said anything: nothing is lost, and nothing that it did can be to blame.
		return false, t.prompt(ctx)
	}
	// Cut off twice: judge what is there. The judge's continuation takes it from there.
	t.seen.cutOff = true
	return true, nil
}

// sendNew sends the turn's prompt, or its resume prompt, once its id is stored.
func (t *turn) sendNew(ctx context.Context, resume bool) error {
	sent := t.cfg.Now()
	id := opencode.NewMessageID(sent)
	err := t.report(boulder.TurnSent{
		AttemptRef: t.job.Attempt.AttemptRef, Turn: t.job.Turn.Number, Kind: t.job.Turn.Kind, MessageID: id, Resume: resume,
		ToldUpTo: t.job.Turn.ToldUpTo, Server: t.conn.Server(),
	})
	if err != nil {
		return err
	}
	if resume {
		t.job.Turn.ResumeID = id
	} else {
		t.job.Turn.MessageID, t.job.Turn.SentAt = id, sent
	}
	return t.prompt(ctx)
}

func (t *turn) lastMessageID() string { return cmp.Or(t.job.Turn.ResumeID, t.job.Turn.MessageID) }

// position reads the state of the tree, and how far the turn has come.
func (t *turn) position(ctx context.Context) (session.Position, error) {
	r, err := session.Read(ctx, t.dir, t.job.Attempt.SessionID, t.cfg.Now())
	if err != nil {
		return session.Position{}, fault(err)
	}
	r.Messages = redacted(t.Executor, r.Messages)
	t.tree.Load(r, t.lastMessageID())
	for _, s := range r.Sessions {
		t.sub.Follow(s.ID)
	}
	p, known := t.tree.Position(t.lastMessageID())
	if known || p.Busy {
		return p, nil
	}
	switch _, err := t.dir.Message(ctx, t.job.Attempt.SessionID, t.lastMessageID()); {
	case errors.Is(err, opencode.ErrNotFound):
		return p, nil
	case err != nil:
		return p, fault(err)
	}
	p, _ = t.tree.Position("") // the prompt exists, but is older than what was read
	return p, nil
}

// prompt sends or resends the turn's newest prompt. An accepted prompt does not prove that a turn begins.
func (t *turn) prompt(ctx context.Context) error {
	text := t.job.Turn.Prompt
	if t.job.Turn.ResumeID != "" {
		text = t.job.Resume
	}
	return fault(t.dir.Prompt(ctx, t.job.Attempt.SessionID, opencode.Prompt{
		MessageID: t.lastMessageID(), Agent: t.job.Attempt.Agent, Model: t.model, Variant: t.effort,
		Text: text, Metadata: t.tag(),
	}))
}

// chooseEffort decides with which effort the model is prompted: that of the attempt, or none if the model lacks it.
func (t *turn) chooseEffort(ctx context.Context) error {
	a := &t.job.Attempt
	if t.effort = ""; a.Effort == "" || a.Effort == boulder.DefaultEffort {
		return nil
	}
	catalogue, err := t.dir.Catalogue(ctx)
	if err != nil {
		return fault(err)
	}
	has := catalogue.Efforts[t.model]
	switch {
	case slices.Contains(has, a.Effort):
		t.effort = a.Effort
	case !a.NoEffort:
		a.NoEffort = true
		return t.report(boulder.EffortMissing{AttemptRef: a.AttemptRef, Model: a.Model, Effort: a.Effort, Has: has})
	}
	return nil
}

// tag marks a session or a message as the manager's.
func (t *turn) tag() map[string]any { return map[string]any{session.TagKey: t.job.Attempt.Tag} }
