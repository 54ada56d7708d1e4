package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// freshKey is the metadata key of a session that continues another one's work. Its value is the message id of the
	// first prompt, by which the session is found after a crash. continuedTitle ends its title.
	freshKey       = "manager_continues"
	continuedTitle = " (continued)"
	// maxResent is how often a continuation that began no turn is sent again, under the same id.
	maxResent = 3
	// maxRequest bounds the user's request and the summary that a fresh session is told, in bytes.
	maxRequest = 8000
)

func (w *Watch) newIntent(s *watched, d enforcer.Decision) (messageID string) {
	// The id needs the real time: OpenCode compares it with its own ids.
	i := Intent{MessageID: opencode.NewMessageID(time.Now()), Text: w.prompt(s, d), Fresh: d.Kind == enforcer.Fresh}
	// For missing fields OpenCode takes what the session used last, possibly for a summary.
	m := s.tree.Chosen()
	i.Agent, i.Model, i.Variant = s.tree.Agent(), m.Model, m.Variant
	_, i.Answered = s.answers()
	s.rec.Answered = append(s.rec.Answered, i.Answered...)
	s.rec.Intent, s.resent, s.lookAt = &i, 0, time.Time{}
	return i.MessageID
}

func (w *Watch) prompt(s *watched, d enforcer.Decision) string {
	t, u := s.rec.Track, w.unfinished(s)
	u.Compacted = t.Compacted
	u.Broken, _, _ = s.tree.Broken()
	if t.Same > 1 && !t.Acted {
		u.Idle = t.Same
	}
	asked, _ := s.aside()
	u.Aside = prompts.Questions(asked)
	u.Continuous = len(w.situation(s, w.cfg.Now()).Unmet)+len(asked) == 0 && u.Broken == ""
	said := prompts.KeepGoing(u)
	if d.Kind == enforcer.Fresh { // needs more context
		var b strings.Builder
		fmt.Fprintf(&b, "%s This session continues the work of another one, %q, whose conversation became too long for "+
			"its model. You do not know that conversation; the files are as it left them.\n\n", prompts.Mark, s.rec.Title)
		for _, part := range [][2]string{
			{"What the user asked for last:", s.rec.Request}, {"The summary of what was done:", s.tree.Summary()},
		} {
			if what := strings.TrimSpace(part[1]); what != "" {
				fmt.Fprintf(&b, "%s\n\n%s\n\n", part[0], text.Cut(what, maxRequest))
			}
		}
		said = b.String() + strings.TrimPrefix(said, prompts.Mark+" ")
	}
	return w.cfg.Redact(said)
}

// send sends the stored continuation. An accepted prompt is no proof of a turn: the arbiter will look.
func (w *Watch) send(ctx context.Context, s *watched) {
	i := *s.rec.Intent
	to := s.tree.Session()
	var err error
	if i.Fresh {
		to, err = w.freshSession(ctx, to, i)
	}
	if err == nil {
		err = w.dir.Prompt(ctx, to.ID, opencode.Prompt{
			MessageID: i.MessageID, Agent: i.Agent, Model: i.Model, Variant: i.Variant,
			Text: i.Text, Metadata: map[string]any{session.TagKey: "watch"},
		})
	}
	s.lookedAt, s.lookAt = true, w.cfg.Now().Add(w.cfg.Policy.Admission)
	s.wake()
	switch {
	case err == nil && i.Fresh:
		w.replaced(ctx, s, to, i)
	case err == nil:
	case errors.Is(err, opencode.ErrUnavailable), errors.Is(err, context.Canceled):
		w.failed(err) // on reconnect it turns out whether it arrived
	default:
		w.log.Warn("OpenCode refused a continuation", "session", s.rec.SessionID, "error", err)
		w.apply(s, enforcer.NotSent{At: w.cfg.Now()})
	}
}

// look handles a continuation without a response. The state was just read, and the arbiter asks for a look only if no
// turn is running or ended. So the prompt never arrived or began no turn, and is sent again.
func (w *Watch) look(ctx context.Context, s *watched) {
	switch i := s.rec.Intent; {
	case i == nil || i.MessageID != s.rec.Track.Pending, s.resent >= maxResent:
		w.apply(s, enforcer.NotSent{At: w.cfg.Now()})
	default:
		s.resent++
		w.send(ctx, s)
	}
}

// freshSession returns the session created for a continuation before a crash, or creates one.
func (w *Watch) freshSession(ctx context.Context, old opencode.Session, i Intent) (opencode.Session, error) {
	recent := opencode.SessionFilter{Roots: old.ParentID == ""}
	if found, err := session.Find(ctx, w.dir, recent, freshKey, i.MessageID); err != nil || found.ID != "" {
		return found, err
	}
	return w.dir.CreateSession(ctx, opencode.NewSession{
		Title: text.Short(strings.TrimSuffix(old.Title, continuedTitle), 200) + continuedTitle, ParentID: old.ParentID,
		Metadata: map[string]any{freshKey: i.MessageID}, Agent: i.Agent, Model: i.Model, Variant: i.Variant, Rules: old.Rules,
	})
}

// replaced moves the track of a session to the fresh session that continues its work.
func (w *Watch) replaced(ctx context.Context, s *watched, fresh opencode.Session, i Intent) {
	now := w.cfg.Now()
	s.rec.Intent = nil // now the fresh session's
	main := fresh
	if fresh.ParentID != "" {
		main = s.main
	}
	w.begin(fresh, main)
	next := w.sessions[fresh.ID]
	i.Fresh = false
	next.rec.Track, next.rec.Intent, next.rec.Request, next.rec.Asked = s.rec.Track, &i, s.rec.Request, s.rec.Asked
	next.tree.BeginAt(now) // its first prompt is manager's
	next.lookAt, next.changed = now.Add(w.cfg.Policy.Admission), true
	w.apply(s, enforcer.Replaced{At: now, By: fresh.ID})
	w.toast(ctx, enforcer.Decision{Toast: &enforcer.Toast{
		Variant: enforcer.Warning, Title: "manager continues in a fresh session", Message: "See: " + fresh.Title,
	}})
}

type checks struct {
	boulder.Evidence          // for the judge, with the gates that ran
	unmet            []string // criteria other than gates, one line each
	green            []string // commands that passed
	fault            error    // why the check failed
}

// maxFindings is how many language server errors an agent is told at once.
const maxFindings = 10

// check evaluates the costly criteria. Activity of the session cancels it.
func (w *Watch) check(ctx context.Context, s *watched) {
	checking, end := context.WithCancel(ctx)
	s.cancelCheck = end
	newest, id, request := s.rec.Track.Turn, s.rec.SessionID, s.rec.Request
	_, reached := s.tree.Reached()
	c := checks{Evidence: boulder.Evidence{FinalMessage: reached.Answer, Said: s.tree.Said(), Todos: reached.Todos}}
	var turn []string
	for _, m := range s.tree.Answers() {
		turn, c.Ended.Finish = append(turn, m.ID), m.Finish
	}
	if w.needs(boulder.DoneDiagnostics) {
		c.Diagnostics = s.tree.Findings.Errors
		found := c.Errors()
		c.unmet = found[:min(len(found), maxFindings)]
	}
	dir := w.dir
	w.inBackground(ctx, func() {
		c.fault = w.verify(checking, dir, &c, request, id, turn)
	}, func() {
		ended := checking.Err() != nil
		end()
		if ended || s.rec.Track.Turn != newest {
			return
		}
		s.cancelCheck, s.checks = nil, &c
		w.apply(s, enforcer.Verified{At: w.cfg.Now(), Green: c.green})
	})
}

// inBackground runs work on a goroutine of its own, then follows on the loop goroutine.
func (w *Watch) inBackground(ctx context.Context, work, follows func()) {
	w.inFlight++
	w.work.Go(func() {
		work()
		select {
		case w.posts <- func() { w.inFlight--; follows() }:
		case <-ctx.Done():
		}
	})
}

// verify runs the commands of the criteria and, if everything else holds, asks the judge. It runs in the background.
func (w *Watch) verify(
	ctx context.Context, dir *opencode.Directory, c *checks, request, sessionID string, turn []string,
) error {
	var commands []string
	if w.needs(boulder.DoneDiagnostics) && len(w.cfg.Lint) > 0 {
		has, err := dir.HasLanguageServer(ctx)
		if err != nil {
			return err
		}
		if !has {
			commands = w.cfg.Lint
		}
	}
	if w.needs(boulder.DoneTests) {
		commands = slices.Concat(commands, w.cfg.Tests)
	}
	for _, command := range commands {
		g := w.cfg.Run(ctx, command)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.Gates = append(c.Gates, g)
		if g.Green() {
			c.green = append(c.green, command)
		}
	}
	if !w.needs(boulder.DoneJudge) || len(c.unmet)+len(c.Red()) > 0 {
		return nil
	}
	messages, err := dir.Messages(ctx, sessionID, session.MaxMessages)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if slices.Contains(turn, m.Info.ID) {
			c.ToolCalls = append(c.ToolCalls, session.ToolCalls(m)...)
		}
	}
	c.ToolCount = len(c.ToolCalls)
	c.ToolCalls = c.ToolCalls[max(0, c.ToolCount-session.MaxToolCalls):]
	missing, err := w.cfg.Judge(ctx, request, &c.Evidence)
	if err != nil {
		return fmt.Errorf("the judge did not answer: %w", err)
	}
	c.unmet = append(c.unmet, missing...)
	return nil
}
