package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// openSession makes sure that the attempt has a session and that its id is stored.
func (t *turn) openSession(ctx context.Context) error {
	if t.job.Attempt.SessionID != "" {
		return nil
	}
	// Before the snapshot: what a gate leaves behind is not the agent's work.
	baseline, err := t.baseline(ctx)
	if err != nil {
		return err
	}
	var snapshot string
	var session opencode.Session
	// Both take some 10 ms, and neither changes what the other sees.
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		snapshot, err = t.firstSnapshot(gctx)
		return err
	})
	g.Go(func() (err error) {
		session, err = t.adoptOrCreate(gctx)
		return fault(err)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	t.job.Attempt.SessionID, t.job.SubTask.Snapshot = session.ID, snapshot
	t.job.SubTask.Baseline = append(slices.Clip(t.job.SubTask.Baseline), baseline...)
	return t.report(boulder.SubTaskStart{
		AttemptRef: t.job.Attempt.AttemptRef, Description: t.job.SubTask.Subject, Model: t.job.Attempt.Model,
		SessionID: session.ID, Snapshot: snapshot, Baseline: baseline,
	})
}

// firstSnapshot is the project before the sub-task's first attempt.
func (t *turn) firstSnapshot(ctx context.Context) (string, error) {
	if s := t.job.SubTask.Snapshot; s != "" {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	s, err := t.cfg.Workspace.Snapshot(ctx)
	if err != nil {
		return "", fmt.Errorf("look at the project before the attempt: %w", err)
	}
	return s, nil
}

// adoptOrCreate finds the session that an attempt made before a crash, or makes one. Only an attempt that was at this
// point before can have one.
func (t *turn) adoptOrCreate(ctx context.Context) (opencode.Session, error) {
	if t.job.Recovered {
		found, err := t.dir.FindSessions(ctx, t.job.Attempt.Tag)
		if err != nil {
			return opencode.Session{}, err
		}
		for _, s := range found {
			if s.Metadata[session.TagKey] == t.job.Attempt.Tag {
				return s, nil
			}
		}
	}
	return t.dir.CreateSession(ctx, opencode.NewSession{
		Title:    fmt.Sprintf("%s [%s]", t.job.SubTask.Subject, t.job.Attempt.Tag),
		Metadata: map[string]any{session.TagKey: t.job.Attempt.Tag},
		Agent:    t.job.Attempt.Agent, Model: t.model,
		Rules: t.sessionRules(),
	})
}

// sessionRules are permissions that come after those of the configuration, and win. Nobody is there to answer a question:
// without the tool for it the agent decides for itself, unless its question is taken down.
func (t *turn) sessionRules() []opencode.Rule {
	if t.diverted() {
		name := t.tool.name()
		if name == "" {
			return nil
		}
		return []opencode.Rule{{Permission: name, Pattern: "*", Action: opencode.Allow}}
	}
	return []opencode.Rule{{Permission: "question", Pattern: "*", Action: opencode.Deny}}
}

// send sees to it that the turn's prompt is with the server, exactly once. It reports whether the turn has ended
// already.
func (t *turn) send(ctx context.Context) (ended bool, err error) {
	if t.job.Turn.MessageID == "" {
		if t.job.Awaits() {
			t.seen.cutOff = true
			return true, nil
		}
		sent := t.cfg.Now()
		id := opencode.NewMessageID(sent)
		err := t.report(boulder.TurnSent{
			AttemptRef: t.job.Attempt.AttemptRef, Turn: t.job.Turn.Number, Kind: t.job.Turn.Kind, MessageID: id,
			Heard: t.job.Turn.Heard,
		})
		if err != nil {
			return false, err
		}
		t.job.Turn.MessageID, t.job.Turn.SentAt = id, sent
		return false, t.prompt(ctx, id, t.job.Turn.Prompt)
	}
	if t.cfg.Diverter != nil { // what was recorded just before a crash says whether the session may be prompted
		if err := t.tellRaised(ctx); err != nil {
			return false, err
		}
	}
	if ended, err = t.pickUp(ctx); ended || err != nil {
		return ended, err
	}
	return false, t.recount(ctx)
}

// pickUp goes on with a turn whose prompt was sent, perhaps, before a crash or a fault.
func (t *turn) pickUp(ctx context.Context) (ended bool, err error) {
	p, err := t.position(ctx)
	if err != nil {
		return false, err
	}
	cutOff := p.failed != nil && p.failed.Name == opencode.MessageAborted // by an abort, perhaps this program's own
	t.missed(p)
	switch {
	case p.busy:
		t.seen.busy = true
		t.seen.doubted.raise(t.cfg.Now())
		return false, nil
	case p.answered && !cutOff && turnFault(p.failed, t.job.Attempt.Model) == nil:
		return true, nil
	case t.job.Awaits(): // nothing that is blocked is told to go on: what is there is judged
		t.seen.cutOff = true
		return true, nil
	case p.answered && !cutOff, !p.arrived:
		// The prompt never arrived, or its turn failed for a reason that may be gone now: sending the same message again
		// is harmless.
		return false, t.prompt(ctx, t.lastMessageID(), t.lastPrompt())
	case t.job.Turn.ResumeID == "":
		id := opencode.NewMessageID(t.cfg.Now())
		err := t.report(boulder.TurnSent{
			AttemptRef: t.job.Attempt.AttemptRef, Turn: t.job.Turn.Number, Kind: t.job.Turn.Kind, MessageID: id, Resume: true,
			Heard: t.job.Turn.Heard,
		})
		if err != nil {
			return false, err
		}
		t.job.Turn.ResumeID = id
		return false, t.prompt(ctx, id, t.job.Resume)
	case !p.begun:
		// Cut off while the model had not said a word, as when a provider makes it wait: nothing is lost, and nothing that
		// was done can be to blame.
		return false, t.prompt(ctx, t.lastMessageID(), t.lastPrompt())
	}
	// Cut off twice: what is there is judged, as of an agent that was not done, and the judge's continuation goes on from it.
	t.seen.cutOff = true
	return true, nil
}

func (t *turn) lastMessageID() string {
	if t.job.Turn.ResumeID != "" {
		return t.job.Turn.ResumeID
	}
	return t.job.Turn.MessageID
}

func (t *turn) lastPrompt() string {
	if t.job.Turn.ResumeID != "" {
		return t.job.Resume
	}
	return t.job.Turn.Prompt
}

// position is how far the turn is, as the server's state tells.
type position struct {
	busy     bool
	status   opencode.Status
	arrived  bool // the newest prompt of the turn began one
	answered bool // and the model finished it, well or badly
	unheard  bool // the newest message is a prompt that the model has not begun to answer
	begun    bool // the model's newest answer has content
	failed   *opencode.TurnError
	// messages that followed the newest prompt, of the newest 30; none while it is busy.
	messages []opencode.Message
}

// position reads the state. Absence from the statuses alone proves nothing, see package opencode.
func (t *turn) position(ctx context.Context) (position, error) {
	id := t.job.Attempt.SessionID
	statuses, err := t.dir.Statuses(ctx)
	if err != nil {
		return position{}, fault(err)
	}
	if s, ok := statuses[id]; ok && s.Type != opencode.Idle {
		return position{busy: true, status: s}, nil
	}
	var p position
	if p.messages, err = t.answers(ctx); err != nil {
		return position{}, err
	}
	for _, m := range p.messages {
		p.unheard = m.Info.Role != opencode.RoleAssistant
		if p.unheard {
			continue
		}
		p.arrived, p.failed = true, m.Info.Error
		p.answered = answered(m.Info)
		p.begun = m.Text() != "" || usedTools([]opencode.Message{m})
	}
	return p, nil
}

// answered reports whether a message ends its turn. A summary of the conversation does not: the turn goes on after it.
// Nor does one without a finish and an error, which is what an abort leaves behind while OpenCode waits for a provider
// (seen).
func answered(m opencode.MessageInfo) bool {
	ended := m.Error != nil || m.Finish != "" && m.Finish != opencode.FinishToolCalls
	return ended && !m.Completed.IsZero() && !m.Compacted
}

// answers gives the newest messages that followed the newest prompt of the turn. Not every one has it for its parent:
// OpenCode puts prompts of its own in between (after a compaction), and so do nudges.
func (t *turn) answers(ctx context.Context) ([]opencode.Message, error) {
	const newest = 30
	id := t.job.Attempt.SessionID
	messages, err := t.dir.Messages(ctx, id, newest)
	if errors.Is(err, opencode.ErrNotFound) {
		return nil, fmt.Errorf("session %s: %w", id, boulder.ErrSessionLost)
	}
	if err != nil {
		return nil, fault(err)
	}
	if i := slices.IndexFunc(messages, func(m opencode.Message) bool { return m.Info.ID == t.lastMessageID() }); i >= 0 {
		return messages[i+1:], nil
	}
	if len(messages) < newest {
		return nil, nil
	}
	switch _, err := t.dir.Message(ctx, id, t.lastMessageID()); {
	case errors.Is(err, opencode.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fault(err)
	}
	return messages, nil
}

// prompt sends a text. An accepted prompt proves nothing about a turn.
func (t *turn) prompt(ctx context.Context, messageID, text string) error {
	return t.promptSession(ctx, t.dir, t.job.Attempt.SessionID, opencode.Prompt{
		MessageID: messageID, Agent: t.job.Attempt.Agent, Model: t.model, Parts: t.tagged(text),
	})
}

// tagged is a text that is known to be the manager's.
func (t *turn) tagged(text string) []opencode.TextPart {
	return []opencode.TextPart{{Text: text, Metadata: map[string]any{session.TagKey: t.job.Attempt.Tag}}}
}

func (t *turn) promptSession(ctx context.Context, dir *opencode.Directory, session string, p opencode.Prompt) error {
	err := dir.Prompt(ctx, session, p)
	if errors.Is(err, opencode.ErrNotFound) {
		return fmt.Errorf("session %s: %w", session, boulder.ErrSessionLost)
	}
	return fault(err)
}

func modelRef(s string) opencode.ModelRef {
	provider, model, _ := strings.Cut(s, "/")
	return opencode.ModelRef{ProviderID: provider, ModelID: model}
}
