package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// watched is a session that is watched. It belongs to the loop goroutine.
type watched struct {
	rec      Record
	tree     *session.Tree
	root     opencode.Session // of a sub-agent's session that is watched for itself: the main session
	notOwned string

	due  time.Time // when to decide again by itself; zero: not
	news bool      // something happened since the newest decision

	loaded  bool // the server's state was read at least once
	fresh   bool // it was read since the newest event, and nothing was done since
	reading bool
	again   bool // it has to be read once more

	checks  *checks            // what the costly criteria said of the newest turn; nil: not looked at
	end     context.CancelFunc // of the look at them that is under way; nil: none is
	sending bool
	resent  int       // how often the pending continuation was sent again
	lookAt  time.Time // not before is it looked for again

	away     away  // who stands in for the person
	shown    Entry // the newest decision
	held     bool  // of a dry run: nothing further until something happens
	lookedAt bool  // with Once: it was looked at

	changed bool // has to be stored
	dirty   bool // a sign of life is not stored yet
}

// apply has the arbiter take in what happened.
func (w *Watch) apply(s *watched, events ...enforcer.Event) {
	for _, e := range events {
		if end, ok := e.(enforcer.TurnEnded); ok && end.Message != "" && end.Message == s.rec.Track.Turn {
			continue // every reading tells of the newest turn
		}
		before := s.rec.Track.Pending
		s.rec.Track = enforcer.Apply(s.rec.Track, e, w.policyFor(s))
		switch e.(type) {
		case enforcer.Activity:
			s.dirty = true
		default:
			s.changed = true
		}
		switch e.(type) {
		case enforcer.TurnEnded, enforcer.Started:
			s.checks = nil
		case enforcer.Prompted:
			s.checks = nil
			s.rec.Request = w.cfg.Redact(text.Cut(s.tree.Request(), maxRequest))
		case enforcer.Verified, enforcer.Decided, enforcer.TakenUp:
			continue // not of the session's own doing
		}
		s.held = false
		s.stopChecking()
		if before != "" && s.rec.Track.Pending == "" {
			_, ran := e.(enforcer.TurnEnded)
			s.rec.drop(ran)
			s.resent = 0
		}
	}
	if !s.rec.Spent.Since.Equal(s.rec.Track.Began) {
		tokens, cost := s.tree.SpentBefore()
		s.rec.Spent = Spent{Since: s.rec.Track.Began, Tokens: tokens, Cost: cost}
	}
	s.rec.Cursor = s.tree.Cursor()
	s.news = true
}

func (s *watched) stopChecking() {
	if s.end != nil {
		s.end()
		s.end = nil
	}
}

// situation is what the arbiter is told.
func (w *Watch) situation(s *watched, now time.Time) enforcer.Situation {
	sit := s.tree.Situation(now)
	sit.Owned, sit.NotOwned = s.notOwned == "", s.notOwned
	sit.Unmet = w.unmet(s)
	sit.Checked = !w.costly()
	if s.checks != nil {
		sit.Checked = true
		sit.Unmet = append(sit.Unmet, s.checks.missing...)
	}
	sit.Overspent = w.overspent(s, now)
	sit.Asks = append(sit.Asks, s.awaited()...)
	if answers, _ := s.answers(); len(answers) > 0 {
		sit.Unmet = append(sit.Unmet, "the person's answers to what was asked")
	}
	return sit
}

// unmet is what the criteria say that cost nothing to look at.
func (w *Watch) unmet(s *watched) []string {
	var lines []string
	if w.needs(boulder.DoneTodos) {
		for _, item := range enforcer.OpenItems(s.rec.Track, s.tree.Todos()) {
			lines = append(lines, w.cfg.Redact(item))
		}
	}
	if w.needs(boulder.DonePromise) && !s.rec.Track.Promised {
		lines = append(lines, "the promise "+boulder.Promise+" was not given")
	}
	return lines
}

// overspent says which budget is used up; empty: none.
func (w *Watch) overspent(s *watched, now time.Time) string {
	b := w.cfg.Budget
	if b == nil {
		return ""
	}
	tokens, cost := s.tree.Spent()
	tokens, cost = tokens-s.rec.Spent.Tokens, cost-s.rec.Spent.Cost
	took := now.Sub(s.rec.Track.Began)
	switch {
	case b.Tokens > 0 && tokens >= b.Tokens:
		return fmt.Sprintf("%d of %d tokens", tokens, b.Tokens)
	case b.Cost > 0 && cost >= b.Cost:
		return fmt.Sprintf("$%.2f of $%.2f", cost, b.Cost)
	case b.Time > 0 && took >= time.Duration(b.Time):
		return fmt.Sprintf("%s of %s", took.Round(time.Second), time.Duration(b.Time))
	}
	return ""
}

// acts reports whether a decision is more than waiting, so that it must not rest on what may be old.
func acts(k enforcer.Kind) bool { return k != enforcer.Wait }

// decide asks the arbiter about a session, and does what it says. An error ends the watch.
func (w *Watch) decide(ctx context.Context, s *watched) error {
	s.due = time.Time{}
	if s.notOwned == "" && !s.loaded {
		w.read(ctx, s)
	}
	if s.reading || s.sending || s.end != nil {
		return nil // its end is news
	}
	now := w.cfg.Now()
	if w.lookAtBlockers(ctx, s, now) {
		return nil // its end is news
	}
	d := enforcer.Continue(s.rec.Track, w.situation(s, now), w.policyFor(s), now)
	switch {
	case acts(d.Kind) && s.held:
		return nil
	case acts(d.Kind) && !s.fresh:
		w.read(ctx, s)
		return nil
	case d.Kind == enforcer.Look && now.Before(s.lookAt):
		s.due = s.lookAt
		return nil
	}
	return w.do(ctx, s, d, now)
}

// do does what was decided.
func (w *Watch) do(ctx context.Context, s *watched, d enforcer.Decision, now time.Time) error {
	if w.cfg.DryRun && acts(d.Kind) {
		return w.pretend(s, d, now)
	}
	switch d.Kind {
	case enforcer.Wait:
		w.show(s, w.entry(s, d, now))
		s.due = earlier(d.At, s.tree.Lapses(now))
		if len(s.awaited()) > 0 {
			s.due = earlier(s.due, now.Add(blockerLook))
		}
		s.lookedAt = true
	case enforcer.Look:
		w.show(s, w.entry(s, d, now))
		return w.look(ctx, s, now)
	case enforcer.Check:
		w.show(s, w.entry(s, d, now))
		w.check(ctx, s)
	case enforcer.Countdown:
		return w.decided(ctx, s, d, "", func() { s.due = d.At })
	case enforcer.Finish, enforcer.LetGo:
		return w.decided(ctx, s, d, "", func() { s.lookedAt, s.news = true, true })
	case enforcer.Send, enforcer.Fresh:
		return w.proceed(ctx, s, d, now)
	default:
		return fmt.Errorf("watch: the arbiter said %q about session %s, which is not known here", d.Kind, s.rec.SessionID)
	}
	return nil
}

// decided stores a decision, and only then lets it be acted upon.
func (w *Watch) decided(ctx context.Context, s *watched, d enforcer.Decision, messageID string, act func()) error {
	now := w.cfg.Now()
	w.apply(s, enforcer.Decided{At: now, Decision: d, MessageID: messageID})
	s.news, s.fresh = false, false
	w.show(s, w.entry(s, d, now))
	if err := w.save(); err != nil {
		return err
	}
	w.toast(ctx, d)
	act()
	return nil
}

// pretend shows what would be done.
func (w *Watch) pretend(s *watched, d enforcer.Decision, now time.Time) error {
	e := w.entry(s, d, now)
	e.DryRun = true
	if d.Kind == enforcer.Send || d.Kind == enforcer.Fresh {
		e.Iteration++
		e.Prompt = w.prompt(s, d)
	}
	w.show(s, e)
	s.held, s.lookedAt = true, true
	return nil
}

// entry is a decision as it is stored and shown.
func (w *Watch) entry(s *watched, d enforcer.Decision, now time.Time) Entry {
	e := Entry{
		Type: TypeDecision, Time: now, SessionID: s.rec.SessionID, Title: s.rec.Title, Decision: d.Kind, Gate: d.Gate,
		Reason: w.cfg.Redact(d.Reason), Iteration: s.rec.Track.Iteration, Failures: s.rec.Track.FailureCount, Until: d.At,
	}
	if s.rec.Intent != nil && (d.Kind == enforcer.Send || d.Kind == enforcer.Fresh) {
		e.MessageID, e.Prompt = s.rec.Intent.MessageID, s.rec.Intent.Text
	}
	return e
}

// show tells a decision that is not the one before.
func (w *Watch) show(s *watched, e Entry) {
	if e.same(s.shown) {
		return
	}
	s.shown = e
	if !w.cfg.DryRun {
		w.entries = append(w.entries, e)
	}
	w.cfg.Show(e)
}

// toast shows people what is about to happen. That nobody sees it is no fault.
func (w *Watch) toast(ctx context.Context, d enforcer.Decision) {
	if d.Toast == nil {
		return
	}
	shown := 5 * time.Second
	if d.Kind == enforcer.Countdown {
		shown = max(w.policy.Countdown, time.Second)
	}
	t := opencode.Toast{
		Title: d.Toast.Title, Message: w.cfg.Redact(text.Short(d.Toast.Message, 300)), Variant: string(d.Toast.Variant),
		Duration: shown,
	}
	dir := w.dir
	w.background(ctx, func() func() {
		err := dir.ShowToast(ctx, t)
		return func() {
			if err != nil {
				w.failed(err)
			}
		}
	})
}

// read reads the server's state of a session.
func (w *Watch) read(ctx context.Context, s *watched) {
	if s.notOwned != "" || !w.online {
		return
	}
	if s.reading {
		s.again = true
		return
	}
	s.reading = true
	at, dir, id := w.cfg.Now(), w.dir, s.rec.SessionID
	w.background(ctx, func() func() {
		w.readers <- struct{}{}
		defer func() { <-w.readers }()
		r, err := session.Read(ctx, dir, id, at)
		return func() { w.taken(ctx, s, r, err) }
	})
}

// taken takes in what was read. Events that came meanwhile may be newer than it: then it is read again before anything
// is done.
func (w *Watch) taken(ctx context.Context, s *watched, r session.Reading, err error) {
	s.reading = false
	s.news = true
	switch {
	case errors.Is(err, opencode.ErrNotFound):
		w.forget(s)
		return
	case err != nil:
		w.failed(err)
		s.news, s.due = false, w.cfg.Now().Add(reconnect)
		s.lookedAt = w.cfg.Once
		return
	}
	current := !s.again && !s.tree.ChangedSince(r.At)
	w.apply(s, s.tree.Load(r)...)
	s.rec.Title = text.Short(s.tree.Session().Title, 200)
	s.notOwned = w.notOwned(s)
	s.loaded, s.fresh = true, current
	if s.again {
		s.again = false
		w.read(ctx, s)
	}
}

// earlier is the earlier of two times, of which the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// policyFor are the numbers of a session's gates.
func (w *Watch) policyFor(s *watched) enforcer.Policy {
	p := w.policy
	if s.away.on {
		p.Marker = boulder.DoneMarker // which its agent was asked for
	}
	return p
}
