package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

const (
	// rulingTimeout bounds a ruling, and what else is asked of the diverter while an agent waits: so an ask is answered
	// within 5 s even if it cannot be taken down.
	rulingTimeout = 2 * time.Second
	// besideTimeout bounds the looks at the server without which an ask is answered all the same.
	besideTimeout = time.Second
	// askLook is how often it is looked whether a person has answered.
	askLook = time.Second
	// overdue is how long after its time a wait is ended by the session that waits, should nobody else end it.
	overdue = 5 * time.Second
)

// ask is a request of a session of the tree that the diverter was given and that is not replied to.
type ask struct {
	id, session string
	dir         *opencode.Directory
	questions   int // of a question: how many texts answer it
	blocker     boulder.Blocker
	ruling      boulder.Ruling
	failed      error // why there is no record
}

func (a *ask) waits() bool { return a.ruling.Reply == boulder.ReplyWaiting }

// refused reports whether the reply is one that sweeps away the other permissions that its session asks for.
func (a *ask) refused() bool {
	return a.questions == 0 && !a.waits() && a.ruling.Reply != boulder.ReplyAllowed
}

// diverted reports whether the session's asks are the diverter's at this moment.
func (t *turn) diverted() bool {
	if t.cfg.Diverter == nil || !t.cfg.Diverter.On(t.scope()) {
		return false
	}
	t.seen.diverting = true
	return true
}

func (t *turn) scope() boulder.BlockerScope {
	a := t.job.Attempt
	return boulder.BlockerScope{
		BoulderID: t.job.BoulderID, SubTaskID: a.SubTaskID, Attempt: a.Attempt, SessionID: a.SessionID,
		Diverted: t.job.Diverted,
	}
}

// permissionAsk is a permission as it is taken down.
func (t *turn) permissionAsk(dir *opencode.Directory, r opencode.PermissionRequest) *ask {
	what := "May the agent use " + r.Permission
	if patterns := strings.Join(r.Patterns, ", "); patterns != "" && patterns != "*" {
		what += " for " + patterns
	}
	a := &ask{id: r.ID, session: r.SessionID, dir: dir, blocker: t.blocker(r.SessionID, r.Tool)}
	a.blocker.Category, a.blocker.Question = boulder.BlockerPermission, what+"?"
	a.blocker.Ask.Kind, a.blocker.Ask.RequestID = boulder.AskPermission, r.ID
	a.blocker.Ask.Permission, a.blocker.Ask.Patterns = r.Permission, r.Patterns
	return a
}

// questionAsk is a question as it is taken down. Several that are asked together are one.
func (t *turn) questionAsk(dir *opencode.Directory, r opencode.QuestionRequest) *ask {
	a := &ask{
		id: r.ID, session: r.SessionID, dir: dir, questions: max(1, len(r.Questions)), blocker: t.blocker(r.SessionID, r.Tool),
	}
	var asked []string
	for _, q := range r.Questions {
		asked = append(asked, q.Question)
		for _, o := range q.Options {
			a.blocker.Options = append(a.blocker.Options, o.Label)
		}
	}
	a.blocker.Category = boulder.BlockerQuestion
	a.blocker.Question = cmp.Or(strings.Join(asked, " / "), "A question without words.")
	a.blocker.Ask.Kind, a.blocker.Ask.RequestID = boulder.AskQuestion, r.ID
	return a
}

// blocker is what asks have in common.
func (t *turn) blocker(session string, ref *opencode.ToolRef) boulder.Blocker {
	s := t.scope()
	b := boulder.Blocker{
		BoulderID: s.BoulderID, SubTaskID: s.SubTaskID, Attempt: s.Attempt, SessionID: s.SessionID, Diverted: s.Diverted,
		Context: "The sub-task: " + t.job.SubTask.Subject + ".", Ask: &boulder.Ask{},
	}
	m := t.member(session)
	if session != s.SessionID {
		b.Context += " A sub-agent asks, which is to do this: " + cmp.Or(m.title, "unknown") + "."
	}
	if m.directory != "" {
		b.Context += " It works in " + m.directory + "."
	}
	if ref != nil {
		c := t.seen.calls[*ref]
		b.Ask.Tool, b.Ask.Arguments = c.tool, string(c.input)
	}
	return b
}

// divertAsked diverts a permission that an event tells of, together with what is asked beside it.
func (t *turn) divertAsked(ctx context.Context, dir *opencode.Directory, r opencode.PermissionRequest) error {
	looking, cancel := context.WithTimeout(ctx, besideTimeout)
	t.know(looking, dir, r.SessionID, r.Tool)
	asks := append(t.beside(looking, dir, r.ID), t.permissionAsk(dir, r)) // it is the newest that is known of
	cancel()
	return t.divert(ctx, asks...)
}

// divertAskedQuestion does the same for a question, whose answer sweeps nothing away.
func (t *turn) divertAskedQuestion(ctx context.Context, dir *opencode.Directory, r opencode.QuestionRequest) error {
	looking, cancel := context.WithTimeout(ctx, besideTimeout)
	t.know(looking, dir, r.SessionID, r.Tool)
	cancel()
	return t.divert(ctx, t.questionAsk(dir, r))
}

// divert gives asks to the diverter and replies to them as far as there is something to reply. One that is known already
// is left alone: it comes as an event and in lists.
func (t *turn) divert(ctx context.Context, asks ...*ask) error {
	asks = slices.DeleteFunc(asks, func(a *ask) bool {
		known := t.seen.asked[a.id]
		setIn(&t.seen.asked, a.id)
		return known
	})
	if len(asks) == 0 {
		return nil
	}
	t.seen.lastEvent, t.seen.looked = t.cfg.Now(), false
	t.ruleOn(ctx, asks)
	if ctx.Err() != nil {
		return context.Cause(ctx) // and not refused: whoever takes the turn up asks again
	}
	if !t.waitsForPerson() {
		t.seen.asksAt = t.cfg.Now().Add(askLook)
	}
	t.seen.asks = append(t.seen.asks, asks...)
	t.keepTime()
	if err := t.tellUnoffered(); err != nil {
		return err
	}
	if slices.ContainsFunc(asks, func(a *ask) bool { return a.failed == nil && a.ruling.BlockerID != "" }) {
		if err := t.tellRaised(ctx); err != nil {
			return err
		}
	}
	for _, a := range asks {
		if err := t.announce(a); err != nil {
			return err
		}
	}
	return t.replyToAsks(ctx)
}

// ruleOn has asks ruled on, all at once: together they take no longer than one may.
func (t *turn) ruleOn(ctx context.Context, asks []*ask) {
	ctx, cancel := context.WithTimeout(ctx, rulingTimeout)
	defer cancel()
	var g errgroup.Group
	for _, a := range asks {
		g.Go(func() error { t.rule(ctx, a); return nil })
	}
	t.offerTool(ctx, false) // in case the diverter was off when the turn began
	_ = g.Wait()
}

func (t *turn) rule(ctx context.Context, a *ask) {
	a.ruling, a.failed = t.cfg.Diverter.Divert(ctx, a.blocker)
	if a.failed == nil {
		return
	}
	a.ruling.Reply = boulder.ReplyDiverted
	if a.blocker.Ask.Permission == doomLoop {
		a.ruling.Reply = boulder.ReplyAllowed // to refuse it would end the turn
	}
}

// announce says in a line for people what becomes of an ask.
func (t *turn) announce(a *ask) error {
	what := t.inWords(a)
	switch r := a.ruling; {
	case a.failed != nil:
		t.cfg.Logger.Warn("an ask could not be taken down", "session", a.session, "ask", a.id, "error", a.failed)
		done := "refused "
		if r.Reply == boulder.ReplyAllowed {
			done = "allowed "
		}
		return t.notice(done + what + ", which could not be taken down: " + clip(t.cfg.Redact.Text(a.failed.Error()), 200))
	case a.waits():
		return t.notice("waits for a person until " + clock(r.Until, t.cfg.Now()) + ": " + what + " (" + r.BlockerID + ")")
	case r.Reply != boulder.ReplyAllowed:
		return t.notice("refused " + what + ", taken down as " + r.BlockerID)
	case r.BlockerID != "":
		return t.notice("allowed " + what + ", as was answered to " + r.BlockerID)
	default:
		return t.progress("allowed "+what, nil) // as the policy has it
	}
}

func (t *turn) inWords(a *ask) string {
	text := "the question " + clip(t.cfg.Redact.Text(a.blocker.Question), 200)
	if p := a.blocker.Ask; p.Kind == boulder.AskPermission {
		text = "permission " + p.Permission + " " + clip(t.cfg.Redact.Text(fmt.Sprint(p.Patterns)), 200)
	}
	if a.session != t.job.Attempt.SessionID {
		text += " (sub-agent)"
	}
	return text
}

// clock is a time as a person reads it who looks at it now.
func clock(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04")
	}
	return at.Format("Jan 2 15:04")
}

// replyToAsks replies to what is ruled on. A refusal sweeps away whatever else its session asks for, without a word to
// the agent. So what is allowed comes first, and as long as a person may still answer for a session, what it is refused
// waits as well: its model goes on no sooner than all calls of its message have ended.
func (t *turn) replyToAsks(ctx context.Context) error {
	waiting := map[string]bool{}
	for _, a := range t.seen.asks {
		waiting[a.session] = waiting[a.session] || a.waits() && a.questions == 0
	}
	for _, a := range slices.Clone(t.seen.asks) {
		if !a.waits() && !a.refused() {
			if err := t.reply(ctx, a); err != nil {
				return err
			}
		}
	}
	for _, a := range slices.Backward(slices.Clone(t.seen.asks)) { // the newest first, see pendingAsks
		if a.refused() && !waiting[a.session] {
			if err := t.reply(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// reply does what was ruled.
func (t *turn) reply(ctx context.Context, a *ask) error {
	replying, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := a.reply(replying, cmp.Or(a.ruling.Message, t.cfg.Diverter.Instruction(a.blocker)))
	if err != nil && !errors.Is(err, opencode.ErrNotFound) {
		return fault(err)
	}
	t.seen.lastEvent, t.seen.looked = t.cfg.Now(), false
	t.forget(a)
	if err != nil && a.ruling.Reply != boulder.ReplyAllowed {
		t.gone(ctx, a.ruling.BlockerID)
	}
	return nil
}

func (a *ask) reply(ctx context.Context, message string) error {
	switch {
	case a.questions > 0:
		answers := make([][]string, a.questions)
		for i := range answers {
			answers[i] = []string{message}
		}
		err := a.dir.AnswerQuestion(ctx, a.id, answers)
		if err == nil || errors.Is(err, opencode.ErrNotFound) {
			return err
		}
		return a.dir.RejectQuestion(ctx, a.id) // better than to let it hang
	case a.ruling.Reply == boulder.ReplyAllowed:
		return a.dir.ReplyPermission(ctx, a.id, opencode.ReplyOnce, "")
	}
	return a.dir.ReplyPermission(ctx, a.id, opencode.ReplyReject, message)
}

// lookAtAsks looks, once in a while, whether a person has answered.
func (t *turn) lookAtAsks(ctx context.Context) error {
	now := t.cfg.Now()
	if !t.waitsForPerson() || now.Before(t.seen.asksAt) {
		return nil
	}
	t.seen.asksAt = now.Add(askLook)
	for _, a := range t.seen.asks {
		if !a.waits() {
			continue
		}
		if !t.ruleAgain(ctx, a, now) {
			continue
		}
		if err := t.announce(a); err != nil {
			return err
		}
	}
	t.keepTime()
	return t.replyToAsks(ctx)
}

// ruleAgain reports whether an ask does not wait any longer.
func (t *turn) ruleAgain(ctx context.Context, a *ask, now time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, rulingTimeout)
	defer cancel()
	r, err := t.cfg.Diverter.Ruling(ctx, a.ruling.BlockerID)
	late := now.After(a.ruling.Until.Add(overdue))
	switch {
	case err == nil && r.Reply != boulder.ReplyWaiting:
		r.BlockerID = a.ruling.BlockerID
		a.ruling = r
	case late:
		a.failed = err
		a.ruling.Reply, a.ruling.Message = boulder.ReplyDiverted, ""
	case err == nil:
		a.ruling.Until = r.Until
	}
	return !a.waits()
}

// waitsForPerson reports whether a person may still answer something.
func (t *turn) waitsForPerson() bool { return slices.ContainsFunc(t.seen.asks, (*ask).waits) }

// askOrBefore is the moment, or the one at which to look at the asks if that comes before.
func (t *turn) askOrBefore(at time.Time) time.Time {
	if t.waitsForPerson() && t.seen.asksAt.Before(at) {
		return t.seen.asksAt
	}
	return at
}

// keepTime stops the turn's clock while it waits for a person.
func (t *turn) keepTime() { t.seen.pause.set(t.waitsForPerson(), t.cfg.Now()) }

// settledElsewhere takes in that somebody else replied to an ask: another client of the server, or an abort.
func (t *turn) settledElsewhere(ctx context.Context, id string) {
	for _, a := range t.seen.asks {
		if a.id == id {
			t.forget(a)
			t.gone(ctx, a.ruling.BlockerID)
			return
		}
	}
}

func (t *turn) forget(a *ask) {
	t.seen.asks = slices.DeleteFunc(t.seen.asks, func(b *ask) bool { return b == a })
	t.keepTime()
}

// gone is best effort: it is about what people read.
func (t *turn) gone(ctx context.Context, blockerID string) {
	if blockerID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rulingTimeout)
	defer cancel()
	if err := t.cfg.Diverter.Gone(ctx, blockerID); err != nil {
		t.cfg.Logger.Warn("a blocker that nobody waits for is not marked so", "blocker", blockerID, "error", err)
	}
}

// divertListed takes in what a directory lists: what is new, and what is not there any more.
func (t *turn) divertListed(
	ctx context.Context, dir *opencode.Directory, permissions []opencode.PermissionRequest,
	questions []opencode.QuestionRequest,
) error {
	listed := map[string]bool{}
	if err := t.allowTool(ctx, dir, permissions); err != nil {
		return err
	}
	for _, r := range permissions {
		listed[r.ID] = true
	}
	for _, r := range questions {
		listed[r.ID] = true
	}
	for _, a := range slices.Clone(t.seen.asks) {
		if a.dir.Path() == dir.Path() && !listed[a.id] {
			t.settledElsewhere(ctx, a.id)
		}
	}
	asks, err := t.live(ctx, dir, permissions, questions)
	if err != nil {
		return err
	}
	return t.divert(ctx, asks...)
}

// allowTool lets those who want to report a blocker do it, before a refusal sweeps that away.
func (t *turn) allowTool(ctx context.Context, dir *opencode.Directory, listed []opencode.PermissionRequest) error {
	for _, r := range listed {
		if t.isBlockerTool(r.Permission) && t.seen.tree[r.SessionID] != nil {
			if err := t.permission(ctx, dir, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// beside are the other permissions that a directory's sessions ask for at this moment. It is about the order of the
// replies alone, so an ask is not held up for it.
func (t *turn) beside(ctx context.Context, dir *opencode.Directory, but string) []*ask {
	listed, err := dir.Permissions(ctx)
	if err == nil {
		err = t.allowTool(ctx, dir, listed)
	}
	if err != nil {
		t.cfg.Logger.Warn("what else is asked is not known", "error", err)
		return nil
	}
	listed = slices.DeleteFunc(listed, func(r opencode.PermissionRequest) bool { return r.ID == but })
	asks, err := t.live(ctx, dir, listed, nil)
	if err != nil {
		t.cfg.Logger.Warn("what else is asked is not known", "error", err)
	}
	return asks
}

// live are the asks of the tree among those that a directory lists and that are not known yet. One whose turn was aborted
// is still listed: its call has ended, and to refuse it would sweep away what the session asks for now.
func (t *turn) live(
	ctx context.Context, dir *opencode.Directory, permissions []opencode.PermissionRequest,
	questions []opencode.QuestionRequest,
) ([]*ask, error) {
	var asks []*ask
	mine := func(id, session string, ref *opencode.ToolRef) (bool, error) {
		if t.seen.tree[session] == nil || t.seen.asked[id] {
			return false, nil
		}
		return t.calls(ctx, dir, session, ref)
	}
	for _, r := range permissions {
		if t.isBlockerTool(r.Permission) {
			continue
		}
		ok, err := mine(r.ID, r.SessionID, r.Tool)
		if err != nil {
			return asks, err
		}
		if ok {
			asks = append(asks, t.permissionAsk(dir, r))
		}
	}
	for _, r := range questions {
		ok, err := mine(r.ID, r.SessionID, r.Tool)
		if err != nil {
			return asks, err
		}
		if ok {
			asks = append(asks, t.questionAsk(dir, r))
		}
	}
	return asks, nil
}

// calling is a tool call that is under way.
type calling struct {
	tool  string
	input []byte
}

// know sees to it that the arguments of an asking call are known: the event that tells them may come after the ask. They
// are for people to read, so an ask is not held up for them.
func (t *turn) know(ctx context.Context, dir *opencode.Directory, session string, ref *opencode.ToolRef) {
	if _, err := t.calls(ctx, dir, session, ref); err != nil {
		t.cfg.Logger.Warn("the arguments of a call that asks are not known", "session", session, "error", err)
	}
}

// calls reports whether a call is under way, and sees to it that its arguments are known.
func (t *turn) calls(
	ctx context.Context, dir *opencode.Directory, session string, ref *opencode.ToolRef,
) (bool, error) {
	if ref == nil {
		return true, nil
	}
	if _, ok := t.seen.calls[*ref]; ok {
		return true, nil
	}
	m, err := dir.Message(ctx, session, ref.MessageID)
	if errors.Is(err, opencode.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fault(err)
	}
	for _, p := range m.Parts {
		if p.Tool != nil && p.Tool.CallID == ref.CallID {
			t.underWay(p)
			_, ok := t.seen.calls[*ref]
			return ok || p.Tool.State == opencode.ToolPending, nil
		}
	}
	return true, nil
}

// underWay keeps the arguments of a call until it has ended.
func (t *turn) underWay(p opencode.Part) {
	ref := opencode.ToolRef{MessageID: p.MessageID, CallID: p.Tool.CallID}
	switch p.Tool.State {
	case opencode.ToolRunning:
		if t.seen.calls == nil {
			t.seen.calls = map[opencode.ToolRef]calling{}
		}
		t.seen.calls[ref] = calling{p.Tool.Tool, p.Tool.Input}
	case opencode.ToolCompleted, opencode.ToolError:
		delete(t.seen.calls, ref)
	}
}

// pause adds up the times in which a turn waits for a person: they are nobody's work, and no silence.
type pause struct {
	since time.Time // zero: it does not wait
	total time.Duration
}

func (p *pause) set(waits bool, now time.Time) {
	switch {
	case waits && p.since.IsZero():
		p.since = now
	case !waits && !p.since.IsZero():
		p.total, p.since = p.by(now), time.Time{}
	}
}

// by is how long it had waited at a moment.
func (p *pause) by(now time.Time) time.Duration {
	if p.since.IsZero() {
		return p.total
	}
	return p.total + max(0, now.Sub(p.since))
}
