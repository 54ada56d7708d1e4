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

// watched is a session that is watched, or was. It belongs to the loop goroutine.
//
// An event passes through the session's tree (event), and then the arbiter's track (apply). The session becomes due,
// the arbiter's gates decide (decide), and the decision is carried out (do).
type watched struct {
	rec      Record
	tree     *session.Tree    // nil: not seen active since the start
	main     opencode.Session // the root of its tree; itself for a main session
	notOwned string

	due         time.Time          // next decision; zero: after the next event
	loaded      bool               // state was read on this connection
	fresh       bool               // state was read; no event and no action since
	checks      *checks            // result for the newest turn; nil: not checked
	cancelCheck context.CancelFunc // cancels the running check; nil: none
	resent      int                // how often the pending continuation was sent again
	lookAt      time.Time          // earliest next look for it
	shown       Entry              // the latest decision
	held        bool               // dry run: decided, waits for an event
	lookedAt    bool               // with Once: has had its look
	changed     bool               // not yet stored

	standIn      *session.StandIn // answers for the user
	diverted     bool
	blockers     []boulder.Blocker // of the session and its sub-agents
	blockersRead time.Time         // when they and diverted were read
}

func (s *watched) wake() { s.due = time.Unix(0, 0) }

func (w *Watch) event(ctx context.Context, e opencode.Event) {
	switch p := e.Payload.(type) {
	case opencode.Resync:
		w.connected(ctx)
		return
	case opencode.Disconnected:
		w.disconnected(p.Err)
		return
	}
	known := false
	for s := range w.watched() {
		had := s.tree.Has(e.SessionID)
		events := s.tree.Take(e, w.cfg.Now())
		if had || s.tree.Has(e.SessionID) {
			known = true
			w.called(ctx, s, e)
		}
		if len(events) > 0 {
			s.fresh, s.notOwned = false, w.notOwned(s)
			w.apply(s, events...)
		}
		if s.tree.Deleted {
			w.forget(ctx, s)
		}
	}
	switch e.Payload.(type) {
	case opencode.SessionUpdated, opencode.SessionDeleted, opencode.Unknown:
		return // no activity: renamed, counted, compared
	}
	if e.SessionID != "" && (!known || w.cfg.All) {
		w.lookUp(ctx, e.SessionID)
	}
	if p, ok := e.Payload.(opencode.PartUpdated); ok {
		w.typedIn(ctx, e.SessionID, p.Part.Text)
	}
}

// apply feeds events to the arbiter's track.
func (w *Watch) apply(s *watched, events ...enforcer.Event) {
	for _, e := range events {
		end, ended := e.(enforcer.TurnEnded)
		if ended && end.Message != "" && end.Message == s.rec.Track.Turn {
			continue // each read repeats the newest turn
		}
		before := s.rec.Track.Pending
		s.rec.Track = enforcer.Apply(s.rec.Track, e, w.policyFor(s))
		_, life := e.(enforcer.Activity)
		s.changed = s.changed || !life // activity alone is not stored: the next read repeats it
		switch e.(type) {
		case enforcer.Verified, enforcer.Decided, enforcer.Restarted:
			continue // not the session's own doing
		case enforcer.Prompted:
			s.rec.Request = w.cfg.Redact(text.Cut(s.tree.Request(), maxRequest))
			s.checks = nil
		case enforcer.TurnEnded, enforcer.Started:
			s.checks = nil
		}
		s.held = false
		s.stopChecking()
		if before != "" && s.rec.Track.Pending == "" {
			s.rec.drop(ended)
			s.resent = 0
		}
	}
	s.wake()
	if s.tree == nil {
		return
	}
	if !s.rec.Spent.Since.Equal(s.rec.Track.Began) {
		tokens, cost := s.tree.SpentBefore()
		s.rec.Spent = Spent{Since: s.rec.Track.Began, Tokens: tokens, Cost: cost}
	}
	s.rec.Cursor = s.tree.Cursor()
}

func (s *watched) stopChecking() {
	if s.cancelCheck != nil {
		s.cancelCheck()
		s.cancelCheck = nil
	}
}

func (w *Watch) policyFor(s *watched) enforcer.Policy {
	p := w.cfg.Policy
	p.Marker = s.diversion().Marker
	return p
}

func (w *Watch) situation(s *watched, now time.Time) enforcer.Situation {
	sit := s.tree.Situation(now)
	sit.NotOwned, sit.Agent = s.notOwned, s.tree.Agent()
	for _, b := range s.awaited() {
		says := "an answer to " + b.ID + ": " + text.Short(b.Question, 200)
		sit.Questions = append(sit.Questions, enforcer.Question{ID: b.ID, Says: says})
	}
	u := w.unfinished(s)
	sit.OpenItems = len(u.Items)
	for _, missing := range slices.Concat(u.Items, u.Unmet) {
		sit.Unmet = append(sit.Unmet, w.cfg.Redact(missing))
	}
	for _, g := range u.Gates {
		sit.Unmet = append(sit.Unmet, fmt.Sprintf("`%s` fails", g.Command))
	}
	if s.checks != nil && s.checks.fault != nil {
		sit.Unmet = append(sit.Unmet, "it could not be checked: "+s.checks.fault.Error())
	}
	if len(u.Answers) > 0 {
		sit.Unmet = append(sit.Unmet, "the user's answers to what was asked")
	}
	// Before the first request of the user, the agent has nothing to finish.
	if d := s.diversion(); d.Marker != "" && s.rec.Request != "" && !s.rec.Track.Promised &&
		s.rec.Track.Status != enforcer.Complete {
		sit.Unmet = append(sit.Unmet, "its agent has not said "+d.Marker)
	}
	sit.Checked = s.checks != nil || !w.needs(boulder.DoneTests, boulder.DoneJudge, boulder.DoneDiagnostics)
	if b := w.cfg.Budget; b != nil {
		tokens, cost := s.tree.Spent()
		tokens, cost = tokens-s.rec.Spent.Tokens, cost-s.rec.Spent.Cost
		took := now.Sub(s.rec.Track.Began)
		switch {
		case b.Tokens > 0 && tokens >= b.Tokens:
			sit.Overspent = fmt.Sprintf("%d of %d tokens", tokens, b.Tokens)
		case b.Cost > 0 && cost >= b.Cost:
			sit.Overspent = fmt.Sprintf("$%.2f of $%.2f", cost, b.Cost)
		case b.Time > 0 && took >= time.Duration(b.Time):
			sit.Overspent = fmt.Sprintf("%s of %s", took.Round(time.Second), time.Duration(b.Time))
		}
	}
	return sit
}

func (w *Watch) unfinished(s *watched) (u prompts.Unfinished) {
	if w.needs(boulder.DoneTodos) {
		u.Items = enforcer.OpenItems(s.rec.Track, s.tree.Todos)
	}
	u.Diversion = s.diversion()
	if u.Promise = w.needs(boulder.DonePromise) && u.Diversion.Tool == ""; u.Promise && !s.rec.Track.Promised {
		u.Unmet = append(u.Unmet, "the promise "+boulder.Promise+" was not given")
	}
	if cut := s.tree.CutOff(w.cfg.MinOutput); cut != "" {
		u.Unmet = append(u.Unmet, cut)
	}
	if s.checks != nil {
		u.Unmet, u.Gates = append(u.Unmet, s.checks.unmet...), s.checks.Red()
	}
	u.Answers, _ = s.answers()
	return u
}

func (w *Watch) needs(criteria ...string) bool {
	return slices.ContainsFunc(criteria, func(c string) bool { return slices.Contains(w.cfg.DoneWhen, c) })
}

// decide asks the arbiter about a session and carries out its decision. It never acts on stale state: it first reads
// the session again, and then takes in all events that came meanwhile.
func (w *Watch) decide(ctx context.Context, s *watched) {
	s.due = time.Time{}
	if s.cancelCheck != nil {
		return // its result wakes the session
	}
	if s.notOwned == "" && !s.loaded {
		w.read(ctx, s)
		return
	}
	now := w.cfg.Now()
	w.lookAtBlockers(ctx, s, now)
	d := enforcer.Continue(s.rec.Track, w.situation(s, now), w.policyFor(s), now)
	switch {
	case d.Kind == enforcer.Wait:
		w.show(s, d)
		s.due = session.Earliest(d.At, s.tree.Lapses(now))
		if len(s.awaited()) > 0 {
			s.due = session.Earliest(s.due, now.Add(blockerLook))
		}
		s.lookedAt = true
	case s.held:
	case !s.fresh:
		w.read(ctx, s)
		return
	case d.Kind == enforcer.Look && now.Before(s.lookAt):
		s.due = s.lookAt
	case w.cfg.DryRun:
		w.show(s, d)
		s.held, s.lookedAt = true, true
	default:
		w.do(ctx, s, d)
	}
	w.divert(ctx, s)
}

func (w *Watch) do(ctx context.Context, s *watched, d enforcer.Decision) {
	decided := enforcer.Decided{At: w.cfg.Now(), Decision: d}
	if d.Kind == enforcer.Send || d.Kind == enforcer.Fresh {
		decided.MessageID = w.newIntent(s, d)
		decided.Answered = len(s.rec.Intent.Answered) > 0
		_, decided.Aside = s.aside()
	}
	w.apply(s, decided)
	s.fresh = false
	w.show(s, d)
	if w.fatal = w.save(); w.fatal != nil {
		return
	}
	w.toast(ctx, d)
	switch d.Kind {
	case enforcer.Look:
		w.look(ctx, s)
	case enforcer.Check:
		w.check(ctx, s)
	case enforcer.Countdown:
		s.due = d.At
	case enforcer.Send, enforcer.Fresh:
		w.send(ctx, s)
	default: // Finish, LetGo
		s.lookedAt = true
	}
}

// show reports a decision unless it repeats the last one.
func (w *Watch) show(s *watched, d enforcer.Decision) {
	e := Entry{
		Type: "decision", Time: w.cfg.Now(), SessionID: s.rec.SessionID, Title: s.rec.Title, Decision: d.Kind, Gate: d.Gate,
		Reason: w.cfg.Redact(d.Reason), Iteration: s.rec.Track.Iteration, Failures: s.rec.Track.FailureCount, Until: d.At,
	}
	sends := d.Kind == enforcer.Send || d.Kind == enforcer.Fresh
	switch e.DryRun = w.cfg.DryRun && d.Kind != enforcer.Wait; {
	case sends && e.DryRun:
		e.Iteration++
		e.Prompt = w.prompt(s, d)
	case sends:
		e.MessageID, e.Prompt = s.rec.Intent.MessageID, s.rec.Intent.Text
	}
	if e.same(s.shown) {
		return
	}
	s.shown = e
	w.entries = append(w.entries, e)
	w.cfg.Show(e)
}

// toast announces a decision on the user's screen; errors are only logged. Without toasts, the watch's output tells.
func (w *Watch) toast(ctx context.Context, d enforcer.Decision) {
	if d.Toast == nil || !w.client.Caps().Toasts {
		return
	}
	if err := w.dir.ShowToast(ctx, opencode.Toast{
		Title: d.Toast.Title, Message: w.cfg.Redact(text.Short(d.Toast.Message, 300)), Variant: d.Toast.Variant,
		Duration: 15 * time.Second, // seed 000
	}); err != nil {
		w.log.Warn("a toast could not be shown", "error", err)
	}
}

func (w *Watch) read(ctx context.Context, s *watched) {
	if err := w.offer(ctx, s.diverted); err != nil { // without a todo list, no work would seem to be left
		w.failed(err)
		s.due = w.cfg.Now().Add(reconnect)
		return
	}
	r, err := session.Read(ctx, w.dir, s.rec.SessionID, w.cfg.Now())
	switch {
	case errors.Is(err, opencode.ErrNotFound):
		w.forget(ctx, s)
	case err != nil:
		w.failed(err)
		s.due = w.cfg.Now().Add(reconnect)
	default:
		w.apply(s, s.tree.Load(r)...)
		s.rec.Title = text.Short(s.tree.Session().Title, 200)
		s.notOwned = w.notOwned(s)
		s.loaded, s.fresh = true, true
	}
}

// lookUp starts to watch the main session of an active session or, with All, the session itself.
func (w *Watch) lookUp(ctx context.Context, id string) {
	if s := w.sessions[id]; w.foreign[id] || s != nil && s.tree != nil {
		return
	}
	found, err := w.dir.Session(ctx, id)
	main := found
	for err == nil && main.ParentID != "" {
		main, err = w.dir.Session(ctx, main.ParentID)
	}
	w.foreign[id] = err == nil || errors.Is(err, opencode.ErrNotFound) // after other errors the next event retries
	if err != nil {
		w.log.Warn("could not look a session up", "session", id, "error", err)
		return
	}
	if !w.cfg.All {
		found = main
	}
	w.begin(found, main)
}

// begin starts to watch a session, unless it is watched already or a pending intent will take it over.
func (w *Watch) begin(info, main opencode.Session) {
	replaces, fresh := info.Metadata[freshKey].(string)
	for _, s := range w.sessions {
		if i := s.rec.Intent; fresh && i != nil && i.Fresh && i.MessageID == replaces {
			return
		}
	}
	s := w.sessions[info.ID]
	switch {
	case s == nil:
		s = &watched{rec: Record{SessionID: info.ID}}
		w.sessions[info.ID] = s
	case s.tree != nil:
		return
	default:
		w.apply(s, enforcer.Restarted{At: w.cfg.Now()})
	}
	s.rec.Title = text.Short(info.Title, 200)
	s.tree, s.main = session.NewTree(info.ID, s.rec.Cursor), main
	s.tree.Join(info, w.cfg.Now())
	s.standIn = w.standIn(s)
	s.notOwned = w.notOwned(s)
	s.diverted = w.diverts(s) && w.cfg.Diverter.On(s.standIn.Scope) // before a turn ends
	s.wake()
}

// ledgerTitle begins the titles of sessions in which a ledger asks a model, see providers/opencode. The judge of a
// watch creates such sessions, and must not be asked about them.
const ledgerTitle = "manager: "

// notOwned says why a session is not one of the user's in this project; "" if it is.
func (w *Watch) notOwned(s *watched) string {
	info := s.tree.Session()
	switch tag, _ := s.main.Metadata[session.TagKey].(string); {
	case tag != "", strings.Contains(s.main.Title, "["+session.TagKey+":"):
		return "it belongs to a run of manager"
	case strings.HasPrefix(info.Title, ledgerTitle):
		return "manager asks a model something in it"
	case info.Directory != w.cfg.Project:
		return "it works in " + info.Directory
	case !info.Archived.IsZero():
		return "it is archived"
	}
	return ""
}

// forget drops all that is stored about a session that was deleted (seed 003, FR-020).
func (w *Watch) forget(ctx context.Context, s *watched) {
	s.stopChecking()
	if w.cfg.Forget != nil && !w.cfg.DryRun {
		if err := w.cfg.Forget(ctx, s.rec.SessionID); err != nil {
			w.log.Warn("the switch of a deleted session stays", "session", s.rec.SessionID, "error", err)
		}
	}
	delete(w.sessions, s.rec.SessionID)
	w.foreign[s.rec.SessionID] = true
	if !w.cfg.DryRun {
		w.fatal = errors.Join(w.fatal, w.cfg.Store.Forget(s.rec.SessionID))
	}
}
