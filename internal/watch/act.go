package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/prompts"
	"github.com/bouldermgr/manager/session"
)

const (
	// freshKey is the metadata key of a session that goes on where another one was left: the message id of its first
	// prompt. By it the session is found again after a crash.
	freshKey = "manager_continues"
	// maxResent is how often a continuation is sent again, under the same id, that began no turn.
	maxResent = 3
	// maxRequest is how much of what a person asked for, or of a summary, a fresh session is told, in bytes.
	maxRequest = 8000
)

// proceed stores what will be sent, and sends it.
func (w *Watch) proceed(ctx context.Context, s *watched, d enforcer.Decision, now time.Time) error {
	i := Intent{MessageID: opencode.NewMessageID(now), Text: w.prompt(s, d), Fresh: d.Kind == enforcer.Fresh}
	i.Agent = s.tree.Session().Agent
	if m, ok := s.tree.Chosen(); ok {
		// What a prompt leaves out is taken from whatever the session used last, which may be the summary's.
		i.Agent, i.Model, i.Variant = m.Agent, m.Model, m.Variant
	}
	_, i.Answered = s.answers()
	s.rec.Answered = append(s.rec.Answered, i.Answered...)
	s.rec.Intent, s.resent, s.lookAt = &i, 0, time.Time{}
	return w.decided(ctx, s, d, i.MessageID, func() {
		if w.cfg.stored != nil {
			if err := w.cfg.stored(i); err != nil {
				w.fatal = err
				return
			}
		}
		w.send(ctx, s)
	})
}

// prompt is what the agent is told.
func (w *Watch) prompt(s *watched, d enforcer.Decision) string {
	t := s.rec.Track
	broken, _, _ := s.tree.Broken()
	u := prompts.Unfinished{
		Broken: broken, Compacted: t.Compacted, Promise: w.needs(boulder.DonePromise),
	}
	if w.needs(boulder.DoneTodos) {
		u.Items = enforcer.OpenItems(t, s.tree.Todos())
	}
	if u.Promise && !t.Promised {
		u.Unmet = append(u.Unmet, "the promise, which is asked for below, was not given")
	}
	if s.checks != nil {
		u.Unmet = append(u.Unmet, s.checks.lines...)
		u.Gates = s.checks.red
	}
	if t.Same > 1 && !t.Acted {
		u.Idle = t.Same
	}
	u.Continuous = len(u.Items) == 0 && len(u.Unmet) == 0 && len(u.Gates) == 0 && broken == ""
	u.Answers, _ = s.answers()
	if s.away.on {
		u.BlockerTool = w.cfg.Diverter.ToolName()
	}
	text := prompts.KeepGoing(u)
	if d.Kind == enforcer.Fresh {
		text = s.background(text)
	}
	return w.cfg.Redact(text)
}

// background is what a fresh session has to know besides.
func (s *watched) background(prompt string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s This session goes on with the work of another one, %q, whose conversation became too long for "+
		"its model. You do not know that conversation; the files are as it left them.\n\n", prompts.Mark, text.Short(s.rec.Title, 200))
	add := func(heading, what string) {
		if what = strings.TrimSpace(what); what == "" {
			return
		}
		fmt.Fprintf(&b, "%s\n\n%s\n\n", heading, text.Cut(what, maxRequest))
	}
	add("What the person asked for last:", s.rec.Request)
	add("The summary of what was done:", s.tree.Summary())
	b.WriteString(strings.TrimPrefix(prompt, prompts.Mark+" "))
	return b.String()
}

// send sends the continuation that is stored. An accepted prompt does not prove that a turn runs: the arbiter has it
// looked for.
func (w *Watch) send(ctx context.Context, s *watched) {
	i := *s.rec.Intent
	s.sending = true
	dir, id, info := w.dir, s.rec.SessionID, s.tree.Session()
	w.background(ctx, func() func() {
		if !i.Fresh {
			err := promptAs(ctx, dir, id, i)
			return func() { w.sent(s, i, err) }
		}
		fresh, err := freshSession(ctx, dir, info, i)
		if err == nil {
			err = promptAs(ctx, dir, fresh.ID, i)
		}
		return func() { w.replaced(ctx, s, fresh, i, err) }
	})
}

// promptAs sends a continuation, marked as the manager's own.
func promptAs(ctx context.Context, dir *opencode.Directory, sessionID string, i Intent) error {
	return dir.Prompt(ctx, sessionID, opencode.Prompt{
		MessageID: i.MessageID, Agent: i.Agent, Model: i.Model, Variant: i.Variant,
		Parts: []opencode.TextPart{{Text: i.Text, Metadata: map[string]any{session.TagKey: "watch"}}},
	})
}

// sent takes in how the sending went.
func (w *Watch) sent(s *watched, i Intent, err error) {
	s.sending, s.lookedAt, s.news = false, true, true
	if s.rec.Track.Pending != i.MessageID {
		return // a person was quicker
	}
	switch {
	case err == nil:
		s.lookAt = w.cfg.Now().Add(w.policy.Admission)
	case errors.Is(err, opencode.ErrUnavailable), errors.Is(err, context.Canceled):
		// Whether it arrived is found out when the server is there again.
		w.failed(err)
	default:
		w.log.Warn("OpenCode refused a continuation", "session", s.rec.SessionID, "error", err)
		w.apply(s, enforcer.NotSent{At: w.cfg.Now(), Why: err.Error()})
	}
}

// look finds out what became of a continuation of which nothing is heard. What was read a moment ago tells: at work,
// the arbiter would not ask; ended, neither. So it never arrived, or began no turn.
func (w *Watch) look(ctx context.Context, s *watched, now time.Time) error {
	t := s.rec.Track
	if s.rec.Intent == nil || s.rec.Intent.MessageID != t.Pending || s.resent >= maxResent {
		why := fmt.Sprintf("it was sent %d times and began no turn", s.resent+1)
		if s.rec.Intent == nil {
			why = "its text is not stored"
		}
		w.apply(s, enforcer.NotSent{At: now, Why: why})
		return nil
	}
	s.resent++
	s.fresh, s.lookAt = false, now.Add(w.policy.Admission)
	s.due = s.lookAt
	w.send(ctx, s)
	return nil
}

// freshSession finds the session that was begun for a continuation before a crash, or makes one.
func freshSession(
	ctx context.Context, dir *opencode.Directory, old opencode.Session, i Intent,
) (opencode.Session, error) {
	recent, err := dir.Sessions(ctx, opencode.SessionFilter{Roots: old.ParentID == ""})
	if err != nil {
		return opencode.Session{}, err
	}
	for _, s := range recent {
		if s.Metadata[freshKey] == i.MessageID {
			return s, nil
		}
	}
	return dir.CreateSession(ctx, opencode.NewSession{
		Title: text.Short(strings.TrimSuffix(old.Title, continuedTitle), 200) + continuedTitle, ParentID: old.ParentID,
		Metadata: map[string]any{freshKey: i.MessageID}, Agent: i.Agent, Model: i.Model, Variant: i.Variant, Rules: old.Rules,
	})
}

// continuedTitle ends the title of a session that goes on where another one was left.
const continuedTitle = " (continued)"

// replaced takes in that the work goes on in a fresh session, with the track of the old one.
func (w *Watch) replaced(ctx context.Context, s *watched, fresh opencode.Session, i Intent, err error) {
	if err != nil || s.rec.Track.Pending != i.MessageID {
		w.sent(s, i, err)
		return
	}
	s.sending, s.lookedAt = false, true
	s.rec.Intent = nil // it is the fresh one's
	root := fresh
	if fresh.ParentID != "" {
		root = s.root
	}
	w.watch(fresh, root)
	next := w.sessions[fresh.ID]
	i.Fresh = false
	next.rec.Track, next.rec.Intent, next.rec.Request, next.rec.Asked = s.rec.Track, &i, s.rec.Request, s.rec.Asked
	next.tree.BeginAt(w.cfg.Now()) // its first prompt is the manager's
	next.lookAt, next.changed, next.news = w.cfg.Now().Add(w.policy.Admission), true, true
	w.apply(s, enforcer.Replaced{At: w.cfg.Now(), By: fresh.ID})
	w.toast(ctx, enforcer.Decision{Toast: &enforcer.Toast{
		Variant: enforcer.Warning, Title: "manager goes on in a fresh session", Message: "See: " + text.Short(fresh.Title, 200),
	}})
}
