package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

const (
	// An agent waits for all of these: ReplyTimeout bounds a reply, and each optional read before a ruling;
	// rulingTimeout bounds what the diverter does. An ask is answered even if it cannot be recorded.
	ReplyTimeout  = 5 * time.Second
	rulingTimeout = 2 * time.Second
	// answerLook is how often to check for an answer of the user, switchLook whether the session is diverted by now.
	answerLook = time.Second
	switchLook = 5 * time.Second
	// callLook is how often to read the call of an ask until it is stored. It takes milliseconds.
	callLook = 50 * time.Millisecond
	// overdue is the grace period after which a wait ends even if the diverter did not end it.
	overdue = 5 * time.Second
)

// StandIn answers the asks of a session's tree in the user's stead. It is not safe for concurrent use.
type StandIn struct {
	Tree       *Tree
	Dir        *opencode.Directory // of the main session
	Diverter   Diverter            // nil: none
	Scope      boulder.BlockerScope
	Policy     func(opencode.Request) boulder.Ruling // without diversion; nil, or no reply: the user is asked
	SkipAgents []string                              // agents whose sessions are not diverted
	About      func(opencode.Request) string         // the circumstances of an ask; nil: none
	Tell       func(context.Context, []*Ruled) error // called before anything is replied; an error ends the round
	Redact     func(string) string
	Now        func() time.Time
	Log        *slog.Logger

	Shown  *bool     // whether the agent has the blocker tool; nil: unknown, see [StandIn.ShowTool]
	asks   []*Ruled  // by id, in order of arrival
	looked time.Time // start of the newest round
}

// Ruled is an ask of OpenCode with the decision about it.
type Ruled struct {
	opencode.Request
	Ruling boulder.Ruling // Reply is empty until something is decided
	Says   string         // the outcome, in words for people
	Notice bool           // important even to a user who does not follow every step

	failed  error // why it is not recorded
	blocker boulder.Blocker
	told    boulder.AskReply // the reply that [StandIn.Tell] was told last
	done    bool             // replied to, or obsolete
}

// Waits reports whether the user may still answer.
func (r *Ruled) Waits() bool { return r.Ruling.Reply == boulder.ReplyWaiting && !r.done }

func (r *Ruled) decided() bool { return r.Ruling.Reply != "" && r.Ruling.Reply != boulder.ReplyWaiting }

// Diverted reports whether the session's asks go to the diverter at this moment.
func (s *StandIn) Diverted() bool { return s.Diverter != nil && s.Diverter.On(s.Scope) }

// Waits reports whether the user may still answer any ask.
func (s *StandIn) Waits() bool { return slices.ContainsFunc(s.asks, (*Ruled).Waits) }

// Awaits reports whether the tree waits for the answer to a blocker.
func (s *StandIn) Awaits(blockerID string) bool {
	return slices.ContainsFunc(s.asks, func(r *Ruled) bool { return r.Ruling.BlockerID == blockerID && !r.done })
}

func (s *StandIn) find(id string) *Ruled {
	for _, r := range s.asks {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func among(asks []opencode.Request, id string) bool {
	return slices.ContainsFunc(asks, func(a opencode.Request) bool { return a.ID == id })
}

// Answer handles the tree's asks if anything is due. It returns when to call it again (zero: when something is asked)
// and whether anything was due. The error is Tell's, the server's or ctx's.
func (s *StandIn) Answer(ctx context.Context) (again time.Time, looked bool, err error) {
	pending, now := s.Tree.Pending(), s.Now()
	if at := s.next(pending, now); at.IsZero() || now.Before(at) {
		return at, false, nil
	}
	found, err := s.round(ctx, pending)
	now = s.Now()
	for _, a := range found {
		s.Tree.Take(opencode.Event{SessionID: a.SessionID, Payload: opencode.Asked{Request: a}}, now)
	}
	return s.next(s.Tree.Pending(), now), true, err
}

// next returns when something is due about the asks, perhaps in the past; zero: not before they change.
func (s *StandIn) next(pending []opencode.Request, now time.Time) (at time.Time) {
	if slices.ContainsFunc(pending, func(a opencode.Request) bool { return s.find(a.ID) == nil }) {
		return now
	}
	for _, r := range s.asks {
		switch {
		case !among(pending, r.ID):
			return now
		case r.done:
		case r.Ruling.Reply == "":
			at = Earliest(at, s.looked.Add(switchLook))
		default:
			at = Earliest(at, s.looked.Add(answerLook))
		}
	}
	return at
}

// round rules on new asks, checks waiting ones again and sends due replies. It returns asks that had no event so far.
func (s *StandIn) round(ctx context.Context, pending []opencode.Request) (found []opencode.Request, err error) {
	s.looked = s.Now()
	s.asks = slices.DeleteFunc(s.asks, func(r *Ruled) bool {
		settled := !among(pending, r.ID) // by another client of the server, or by an abort
		if settled && r.Waits() {
			s.EndWait(ctx, r.Ruling.BlockerID, false)
		}
		return settled
	})
	if err := s.ruleOn(ctx, pending); err != nil {
		return nil, err
	}
	found = s.otherPermissions(ctx, replies(s.asks))
	if err := s.ruleOn(ctx, found); err != nil {
		return found, err
	}
	for _, r := range replies(s.asks) {
		if err := s.reply(ctx, r); err != nil {
			return found, err
		}
	}
	return found, nil
}

// replies returns the asks to reply to now, in order. A rejected permission takes the session's other asks with it,
// without a word to the agent. So approvals come first. Rejections wait while another permission of the session may
// still be granted: the model continues no sooner anyway, since it needs the ends of all calls of its message. The
// newest rejection comes first: rejecting one left over from an aborted turn rejects the others, too.
func replies(asks []*Ruled) (now []*Ruled) {
	var refused []*Ruled
	open := map[string]bool{}
	for _, r := range asks {
		switch {
		case r.done:
		case !r.decided():
			open[r.SessionID] = open[r.SessionID] || r.Permission != ""
		case r.Permission == "" || r.Ruling.Reply == boulder.ReplyAllowed:
			now = append(now, r)
		default:
			refused = append(refused, r)
		}
	}
	for _, r := range slices.Backward(refused) {
		if !open[r.SessionID] {
			now = append(now, r)
		}
	}
	return now
}

// otherPermissions returns permissions that no event reported and a rejection would take along. Errors delay no reply.
func (s *StandIn) otherPermissions(ctx context.Context, due []*Ruled) (found []opencode.Request) {
	ctx, cancel := context.WithTimeout(ctx, ReplyTimeout)
	defer cancel()
	for _, r := range due {
		if r.Permission == "" || r.Ruling.Reply == boulder.ReplyAllowed {
			continue
		}
		listed, err := s.Tree.In(s.Dir, r.SessionID).Requests(ctx)
		if err != nil {
			s.Log.Warn("what else is asked is not known", "error", err)
			return found
		}
		for _, other := range listed {
			if other.Permission == "" || other.SessionID != r.SessionID || s.find(other.ID) != nil || among(found, other.ID) {
				continue
			}
			if _, waits, err := s.callOf(ctx, other); err == nil && waits {
				found = append(found, other)
			}
		}
	}
	return found
}

// callOf reads the call that asks, if known, and reports whether it waits. OpenCode keeps listing asks of an aborted
// turn (seen), and rejecting one of those rejects the session's current asks, too. It may send an ask before it has
// stored the call with its arguments (seen: one in 250, on a busy machine), so that callOf reads again until ctx ends.
func (s *StandIn) callOf(ctx context.Context, r opencode.Request) (call opencode.ToolCall, waits bool, err error) {
	if r.Tool == nil {
		return call, true, nil
	}
	for {
		m, err := s.Tree.In(s.Dir, r.SessionID).Message(ctx, r.SessionID, r.Tool.MessageID)
		if errors.Is(err, opencode.ErrNotFound) {
			return call, false, nil
		}
		c := callOf(m, r.Tool.CallID)
		if c != nil {
			call = *c
		}
		if err != nil || c != nil && c.State != opencode.ToolPending {
			return call, err == nil && !call.State.Ended(), err
		}
		select {
		case <-time.After(callLook):
		case <-ctx.Done():
			return call, true, nil
		}
	}
}

// ruleOn rules on asks that are new or waiting, in parallel: together they take no longer than one may.
func (s *StandIn) ruleOn(ctx context.Context, asks []opencode.Request) error {
	var work sync.WaitGroup
	for _, a := range asks {
		r := s.find(a.ID)
		if r == nil {
			r = &Ruled{Request: a}
			s.asks = append(s.asks, r)
		}
		if !r.done && !r.decided() {
			work.Go(func() { s.rule(ctx, r) })
		}
	}
	work.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx) // nothing is refused: the session's next owner rules again
	}
	slices.SortFunc(s.asks, func(a, b *Ruled) int { return strings.Compare(a.ID, b.ID) })
	var news []*Ruled
	for _, r := range s.asks {
		if r.told != r.Ruling.Reply {
			r.told = r.Ruling.Reply
			s.describe(r)
			news = append(news, r)
		}
	}
	if len(news) == 0 {
		return nil
	}
	return s.Tell(ctx, news)
}

func (s *StandIn) describe(r *Ruled) {
	done, allowed := "refused ", r.Ruling.Reply == boulder.ReplyAllowed
	what := text.Short(s.Redact(r.String()), 250) + text.If(r.SessionID != s.Scope.SessionID, " (sub-agent)")
	switch {
	case r.Permission == "" && allowed:
		done = "answered "
	case r.Permission == "":
		done = "unanswered: "
	case allowed:
		done = "allowed "
	}
	r.Says, r.Notice = done+what, true
	switch id := r.Ruling.BlockerID; {
	case r.failed != nil:
		s.Log.Warn("an ask could not be recorded", "session", r.SessionID, "ask", r.ID, "error", r.failed)
		r.Says += ", which could not be recorded: " + text.Short(s.Redact(r.failed.Error()), 200)
	case r.Waits():
		r.Says = "waits for the user until " + text.Until(r.Ruling.Until, s.Now()) + ": " + what + " (" + id + ")"
	case id != "" && (allowed || r.Ruling.ByUser):
		r.Says += ", as the user answered " + id
	case id != "":
		r.Says += text.If(!r.Ruling.Until.IsZero(), " when its time was over") + ", recorded as " + id
	default:
		r.Notice = !allowed // by the policy
	}
}

func (s *StandIn) rule(ctx context.Context, r *Ruled) {
	diverted := s.Diverted() && !s.Tree.Clarifies() && !slices.Contains(s.SkipAgents, s.Tree.Agent())
	own := r.Permission == boulder.BlockerTool || r.Permission == opencode.TodoTool && !s.Dir.Client().Caps().Todos
	switch {
	case r.Waits():
		s.ruleAgain(ctx, r)
	case s.Diverter != nil && own:
		r.Ruling.Reply = boulder.ReplyAllowed // the manager's own tools need a permission, too (seen)
	case !diverted && s.Policy == nil, s.obsolete(ctx, r):
	case diverted:
		s.divert(ctx, r)
	default:
		r.Ruling = s.Policy(r.Request)
	}
}

// obsolete fills in the ask's blocker, with its call, and reports whether that no longer waits. Errors refuse no ask.
func (s *StandIn) obsolete(ctx context.Context, r *Ruled) bool {
	ctx, cancel := context.WithTimeout(ctx, ReplyTimeout)
	defer cancel()
	call, waits, err := s.callOf(ctx, r.Request)
	if err != nil {
		s.Log.Warn("the arguments of a call that asks are not known", "session", r.SessionID, "error", err)
	}
	r.blocker = blockerOf(r.Request)
	if call.Tool != "" { // for people to read
		r.blocker.Ask.Tool, r.blocker.Ask.Arguments = call.Tool, string(call.Input)
	}
	r.done = err == nil && !waits
	return r.done
}

// blockerOf returns the blocker of an ask, without its scope. The words for a permission are added when it is stored.
func blockerOf(r opencode.Request) boulder.Blocker {
	if r.Permission != "" {
		return boulder.Blocker{Category: boulder.BlockerPermission, Ask: &boulder.Ask{
			Kind: boulder.AskPermission, RequestID: r.ID, Permission: r.Permission, Patterns: r.Patterns,
			Arguments: string(r.Metadata),
		}}
	}
	b := boulder.Blocker{
		Category: boulder.BlockerQuestion, Question: r.Asked(), Ask: &boulder.Ask{Kind: boulder.AskQuestion, RequestID: r.ID},
	}
	for _, q := range r.Questions {
		for _, o := range q.Options {
			b.Options = append(b.Options, o.Label)
		}
	}
	return b
}

func (s *StandIn) divert(ctx context.Context, r *Ruled) {
	b := &r.blocker
	b.BlockerScope = s.Scope
	if s.About != nil {
		b.Context = s.About(r.Request)
	}
	ctx, cancel := context.WithTimeout(ctx, rulingTimeout)
	defer cancel()
	r.Ruling, r.failed = s.Diverter.Divert(ctx, *b)
	if r.failed == nil {
		return
	}
	if errors.Is(r.failed, context.DeadlineExceeded) {
		r.failed = fmt.Errorf("it took more than %s: %w", rulingTimeout, r.failed)
	}
	r.Ruling = boulder.Ruling{Reply: boulder.ReplyDiverted}
	if IsDoomLoop(r.Request) {
		r.Ruling.Reply = boulder.ReplyAllowed
	}
}

// IsDoomLoop reports whether it is the permission that OpenCode requests when a message makes a call three times.
// Rejecting it fails the turn, with or without a message (seen). The enforcer decides whether a session is stuck.
func IsDoomLoop(r opencode.Request) bool { return r.Permission == "doom_loop" }

// ruleAgain checks whether the user has answered, or ran out of time.
func (s *StandIn) ruleAgain(ctx context.Context, r *Ruled) {
	ctx, cancel := context.WithTimeout(ctx, rulingTimeout)
	defer cancel()
	ruling, err := s.Diverter.Ruling(ctx, s.Scope, r.Ruling.BlockerID)
	switch {
	case err == nil && ruling.Reply != boulder.ReplyWaiting:
		ruling.BlockerID, ruling.Until = r.Ruling.BlockerID, r.Ruling.Until
		r.Ruling = ruling
	case s.looked.After(r.Ruling.Until.Add(overdue)):
		r.failed, r.Ruling.Reply, r.Ruling.Message = err, boulder.ReplyDiverted, ""
	case err == nil:
		r.Ruling.Until = ruling.Until
	default: // another process may hold the database; the user still has time
		s.Log.Warn("it is not known whether the user answered", "blocker", r.Ruling.BlockerID, "error", err)
	}
}

// reply sends a ruling to OpenCode. [opencode.ErrNotFound] means that the ask is obsolete.
func (s *StandIn) reply(ctx context.Context, r *Ruled) error {
	message := r.Ruling.Message
	if s.Diverter != nil && r.blocker.Ask != nil {
		message = cmp.Or(message, s.Diverter.Instruction(r.blocker))
	}
	limited, cancel := context.WithTimeout(ctx, ReplyTimeout)
	defer cancel()
	dir, err := s.Tree.In(s.Dir, r.SessionID), error(nil)
	switch {
	case r.Permission == "":
		err = dir.AnswerQuestion(limited, r.ID, slices.Repeat([][]string{{message}}, max(1, len(r.Questions))))
		if err != nil && !errors.Is(err, opencode.ErrNotFound) {
			err = dir.RejectQuestion(limited, r.ID) // better than to let it hang
		}
	case r.Ruling.Reply == boulder.ReplyAllowed:
		err = dir.ReplyPermission(limited, r.ID, opencode.ReplyOnce, "")
	default:
		err = dir.ReplyPermission(limited, r.ID, opencode.ReplyReject, message)
	}
	if err != nil && !errors.Is(err, opencode.ErrNotFound) {
		return err
	}
	r.done = true
	text := r.Permission != "" && r.Ruling.Reply == boulder.ReplyAllowed && r.Ruling.Message != "" // not sent: see above
	if err == nil && r.Ruling.ByUser && !text {
		s.EndWait(ctx, r.Ruling.BlockerID, true)
	}
	return nil
}

// EndWait stores that the tree no longer waits for an answer. If that fails, the answer is told once more, or the
// blocker is shown as waiting until its time is over.
func (s *StandIn) EndWait(ctx context.Context, blockerID string, replied bool) {
	ctx, cancel := context.WithTimeout(ctx, rulingTimeout)
	defer cancel()
	if err := s.Diverter.EndWait(ctx, s.Scope, blockerID, replied); err != nil {
		s.Log.Warn("the end of a wait is not stored", "blocker", blockerID, "error", err)
	}
}

// End stores that nothing waits any more.
func (s *StandIn) End(ctx context.Context) {
	for _, r := range s.asks {
		if r.Waits() {
			s.EndWait(ctx, r.Ruling.BlockerID, false)
		}
	}
	s.asks = nil
}
