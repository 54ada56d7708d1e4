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
	"github.com/bouldermgr/manager/opencode"
)

const (
	// An ask is answered within 5 s even if it cannot be recorded: rulingTimeout bounds a ruling, lookTimeout the looks at
	// the server that it can do without.
	rulingTimeout = 2 * time.Second
	lookTimeout   = time.Second
	// answerLook is how often it is looked whether the user has answered, switchLook whether a session is diverted by now.
	answerLook = time.Second
	switchLook = 5 * time.Second
	// overdue is how long after its time a wait ends that the diverter has not ended.
	overdue = 5 * time.Second
	// doomLoop is the permission that OpenCode asks for when a message makes the same call three times. Rejecting it fails
	// the turn, with or without a message (seen). Whether a session is stuck is for the enforcer to say.
	doomLoop = "doom_loop"
)

// Diverter takes down what only the user can answer, and says how the agent continues without. Its methods may be called
// from any goroutine, and those with a context return soon after that ends.
//
// Scopes carry the main session, also for what its sub-agents ask and call: what holds for a session holds for its whole
// tree.
type Diverter interface {
	// On reports whether a session is diverted at this moment.
	On(scope boulder.BlockerScope) bool
	// ToolName is what agents call the tool with which they report blockers.
	ToolName() string
	// Tool is the MCP server (streamable HTTP) that has the tool.
	Tool(ctx context.Context) (opencode.MCPServer, error)
	// Called says which session makes a call of that tool. The call itself does not say it. It may be told again.
	Called(call boulder.BlockerCall)
	// Divert takes down an ask, which has neither id nor status yet, and rules on it. Asked again about the same
	// request it gives the same ruling, and records nothing. An error means that nothing is recorded. The ask holds
	// whatever the agent wrote, secrets included.
	Divert(ctx context.Context, ask boulder.Blocker) (boulder.Ruling, error)
	// Instruction is what an agent is told about an ask that could not be taken down.
	Instruction(ask boulder.Blocker) string
	// Ruling says what has become of a ruling to wait: the user answered, or the time is over.
	Ruling(ctx context.Context, blockerID string) (boulder.Ruling, error)
	// Gone takes down that the answer to an ask did not reach its session, which does not wait for it any longer. Of a
	// blocker that the user has settled it changes nothing.
	Gone(ctx context.Context, blockerID string) error
	// Raised lists what was recorded for an attempt, or, in a scope without one, for a session; oldest first.
	Raised(ctx context.Context, scope boulder.BlockerScope) ([]boulder.Blocker, error)
}

// StandIn answers in the user's stead what the tree of a session asks: [StandIn.Next] says when, [StandIn.Round] does it. It
// is not for concurrent use.
type StandIn struct {
	Diverter Diverter // nil: none
	Scope    boulder.BlockerScope
	Policy   func(Ask) boulder.Ruling                   // where not diverted; nil, or without a reply: the user is asked
	About    func(Ask) string                           // in which circumstances something is asked; nil: nothing
	Tell     func(context.Context, []*Ruled) error      // before anything is replied; its error ends the round
	In       func(sessionID string) *opencode.Directory // in which a session of the tree works
	Now      func() time.Time
	Log      *slog.Logger

	asks []*Ruled // by their ids, as they came up
}

// Ruled is an ask with what was decided about it.
type Ruled struct {
	Ask
	Ruling boulder.Ruling // Reply is empty where nothing was decided yet
	Failed error          // why there is no record

	blocker boulder.Blocker
	again   time.Time // when to look again, or to reply again; zero: there is nothing to do
	done    bool      // it was replied to, or nobody waits for that
}

// Waits reports whether the user may still answer.
func (r *Ruled) Waits() bool { return r.Ruling.Reply == boulder.ReplyWaiting && !r.done }

func (r *Ruled) decided() bool { return r.Ruling.Reply != "" && r.Ruling.Reply != boulder.ReplyWaiting }

// Diverted reports whether the session's asks are the diverter's at this moment.
func (s *StandIn) Diverted() bool { return s.Diverter != nil && s.Diverter.On(s.Scope) }

// Waits reports whether the user may still answer something.
func (s *StandIn) Waits() bool { return slices.ContainsFunc(s.asks, (*Ruled).Waits) }

// Awaits reports whether the tree waits for the answer to a blocker.
func (s *StandIn) Awaits(blockerID string) bool {
	return slices.ContainsFunc(s.asks, func(r *Ruled) bool { return r.Ruling.BlockerID == blockerID && !r.done })
}

func (s *StandIn) find(id string) int {
	return slices.IndexFunc(s.asks, func(r *Ruled) bool { return r.ID == id })
}

func among(asks []Ask, id string) bool {
	return slices.ContainsFunc(asks, func(a Ask) bool { return a.ID == id })
}

// Next is when there is something to do about what is asked, perhaps long since; zero: not before that changes.
func (s *StandIn) Next(pending []Ask, now time.Time) (at time.Time) {
	if slices.ContainsFunc(pending, func(a Ask) bool { return s.find(a.ID) < 0 }) {
		return now
	}
	for _, r := range s.asks {
		if !among(pending, r.ID) {
			return now
		}
		if !r.again.IsZero() && (at.IsZero() || r.again.Before(at)) {
			at = r.again
		}
	}
	return at
}

// Round has ruled on what is new, looks again at what waits, and replies to what is due. An ask of which no event told
// yet is found: its tree should hear of it. An error is of Tell, of the server, or ctx's.
func (s *StandIn) Round(ctx context.Context, pending []Ask) (found []Ask, err error) {
	s.asks = slices.DeleteFunc(s.asks, func(r *Ruled) bool {
		settled := !among(pending, r.ID) // by another client of the server, or by an abort
		if settled && !r.done {
			s.Gone(ctx, r.Ruling.BlockerID)
		}
		return settled
	})
	if err := s.ruleOn(ctx, pending); err != nil {
		return nil, err
	}
	if found = s.unheard(ctx, replies(s.asks)); len(found) > 0 {
		if err := s.ruleOn(ctx, found); err != nil {
			return found, err
		}
	}
	for _, r := range replies(s.asks) {
		if s.Now().Before(r.again) {
			continue
		}
		if err := s.reply(ctx, r); err != nil {
			r.again = s.Now().Add(answerLook)
			return found, err
		}
	}
	return found, nil
}

// replies are the asks to reply to now, in the order in which to do it. A refused permission sweeps away whatever else its
// session asks for, without a word to the agent. So what is allowed comes first; and as long as something else that the
// session asks for may still be allowed, what it is refused waits as well: its model goes on no sooner than all calls of
// its message have ended. Of the refused the newest comes first: rejecting one left over from an aborted turn rejects the
// others with it.
func replies(asks []*Ruled) (now []*Ruled) {
	var refused []*Ruled
	open := map[string]bool{}
	for _, r := range asks {
		switch {
		case r.done:
		case !r.decided():
			open[r.Session] = open[r.Session] || r.Question == nil
		case r.Question != nil || r.Ruling.Reply == boulder.ReplyAllowed:
			now = append(now, r)
		default:
			refused = append(refused, r)
		}
	}
	for _, r := range slices.Backward(refused) {
		if !open[r.Session] {
			now = append(now, r)
		}
	}
	return now
}

// unheard are the permissions of which no event told yet and that a refusal would sweep away. What cannot be known holds
// no reply up.
func (s *StandIn) unheard(ctx context.Context, due []*Ruled) (found []Ask) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for _, r := range due {
		if r.Permission == nil || r.Ruling.Reply == boulder.ReplyAllowed {
			continue
		}
		dir := s.In(r.Session)
		listed, err := dir.Permissions(ctx)
		if err != nil {
			s.Log.Warn("what else is asked is not known", "error", err)
			return found
		}
		for _, p := range listed {
			other := permission(p)
			if other.Session != r.Session || s.find(other.ID) >= 0 || among(found, other.ID) {
				continue
			}
			if _, waits, err := other.Call(ctx, dir); err == nil && waits {
				found = append(found, other)
			}
		}
	}
	return found
}

// ruleOn has asks ruled on that are new or wait, all at once: together they take no longer than one may.
func (s *StandIn) ruleOn(ctx context.Context, asks []Ask) error {
	now := s.Now()
	before := map[*Ruled]boulder.AskReply{}
	var work sync.WaitGroup
	for _, a := range asks {
		i := s.find(a.ID)
		if i < 0 {
			i = len(s.asks)
			s.asks = append(s.asks, &Ruled{Ask: a})
		}
		r := s.asks[i]
		if r.done || r.decided() || now.Before(r.again) {
			continue
		}
		before[r] = r.Ruling.Reply
		work.Go(func() { s.rule(ctx, r, now) })
	}
	work.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx) // nothing is refused: whoever takes the session up asks again
	}
	slices.SortFunc(s.asks, func(a, b *Ruled) int { return strings.Compare(a.ID, b.ID) })
	var news []*Ruled
	for _, r := range s.asks {
		if reply, has := before[r]; has && r.Ruling.Reply != reply {
			news = append(news, r)
		}
	}
	if len(news) == 0 {
		return nil
	}
	return s.Tell(ctx, news)
}

func (s *StandIn) rule(ctx context.Context, r *Ruled, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, rulingTimeout)
	defer cancel()
	r.again = time.Time{}
	switch {
	case r.Waits():
		s.ruleAgain(ctx, r, now)
	case s.Diverter != nil && r.Permission != nil && r.Permission.Permission == s.Diverter.ToolName():
		r.Ruling.Reply = boulder.ReplyAllowed // to report a blocker needs a permission, too (seen)
	case !s.Diverted() && s.Policy == nil, s.dead(ctx, r):
	case s.Diverted():
		s.divert(ctx, r)
	default:
		r.Ruling = s.Policy(r.Ask)
	}
	switch {
	case r.Waits():
		r.again = now.Add(answerLook)
	case !r.done && !r.decided():
		r.again = now.Add(switchLook)
	}
}

// dead finds out about the call that asks, and whether it waits no more. An ask is not held up for it.
func (s *StandIn) dead(ctx context.Context, r *Ruled) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	call, waits, err := r.Call(ctx, s.In(r.Session))
	if err != nil {
		s.Log.Warn("the arguments of a call that asks are not known", "session", r.Session, "error", err)
	}
	r.blocker = r.Blocker()
	if call.Tool != "" { // for people to read
		r.blocker.Ask.Tool, r.blocker.Ask.Arguments = call.Tool, string(call.Input)
	}
	r.done = err == nil && !waits
	return r.done
}

func (s *StandIn) divert(ctx context.Context, r *Ruled) {
	b := &r.blocker
	b.BlockerScope = s.Scope
	if s.About != nil {
		b.Context = s.About(r.Ask)
	}
	r.Ruling, r.Failed = s.Diverter.Divert(ctx, *b)
	if r.Failed == nil {
		return
	}
	if errors.Is(r.Failed, context.DeadlineExceeded) {
		r.Failed = fmt.Errorf("it took more than %s: %w", rulingTimeout, r.Failed)
	}
	r.Ruling = boulder.Ruling{Reply: boulder.ReplyDiverted}
	if IsDoomLoop(r.Ask) {
		r.Ruling.Reply = boulder.ReplyAllowed
	}
}

// IsDoomLoop reports whether it is the permission to make the same call again, which must not be refused.
func IsDoomLoop(a Ask) bool { return a.Permission != nil && a.Permission.Permission == doomLoop }

// ruleAgain looks whether the user has answered, or had their time.
func (s *StandIn) ruleAgain(ctx context.Context, r *Ruled, now time.Time) {
	ruling, err := s.Diverter.Ruling(ctx, r.Ruling.BlockerID)
	switch {
	case err == nil && ruling.Reply != boulder.ReplyWaiting:
		ruling.BlockerID = r.Ruling.BlockerID
		r.Ruling = ruling
	case now.After(r.Ruling.Until.Add(overdue)):
		r.Failed, r.Ruling.Reply, r.Ruling.Message = err, boulder.ReplyDiverted, ""
	case err == nil:
		r.Ruling.Until = ruling.Until
	default: // another process may have the database; the user has time left
		s.Log.Warn("it is not known whether the user answered", "blocker", r.Ruling.BlockerID, "error", err)
	}
}

func (s *StandIn) reply(ctx context.Context, r *Ruled) error {
	message := r.Ruling.Message
	if s.Diverter != nil && r.blocker.Ask != nil {
		message = cmp.Or(message, s.Diverter.Instruction(r.blocker))
	}
	err := r.Reply(ctx, s.In(r.Session), r.Ruling.Reply, message)
	if err != nil && !errors.Is(err, opencode.ErrNotFound) {
		return err
	}
	r.done, r.again = true, time.Time{}
	if err != nil && r.Ruling.Reply != boulder.ReplyAllowed {
		s.Gone(ctx, r.Ruling.BlockerID) // nobody reads the refusal
	}
	return nil
}

// Gone marks a blocker that nobody waits for; none for an empty id. It is best effort: it is about what people read.
func (s *StandIn) Gone(ctx context.Context, blockerID string) {
	if blockerID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rulingTimeout)
	defer cancel()
	if err := s.Diverter.Gone(ctx, blockerID); err != nil {
		s.Log.Warn("a blocker that nobody waits for is not marked so", "blocker", blockerID, "error", err)
	}
}

// End marks what is left: nobody waits for it any more.
func (s *StandIn) End(ctx context.Context) {
	for _, r := range s.asks {
		if !r.done {
			s.Gone(ctx, r.Ruling.BlockerID)
		}
	}
	s.asks = nil
}

// Offers remembers which directories of which servers have the blocker tool. It is safe for concurrent use.
type Offers struct {
	mu   sync.Mutex
	made map[place]string // the tool's server by its name in OpenCode
}

// place is a directory as one server sees it. A server that was started anew has a client of its own.
type place struct {
	client *opencode.Client
	path   string
}

// offerTimeout bounds an offer, on which an agent's prompt waits.
const offerTimeout = 5 * time.Second

// Offer sees to it that the agents of a directory have the tool.
func (o *Offers) Offer(ctx context.Context, d Diverter, dir *opencode.Directory) error {
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	at := place{dir.Client(), dir.Path()}
	tool, err := d.Tool(ctx)
	if err != nil {
		return fmt.Errorf("the blocker tool is not served: %w", err)
	}
	if o.made[at] != "" { // the server may have forgotten it, but to add it again would cut off the calls under way
		known, err := dir.MCPServers(ctx)
		if err != nil || known[tool.Name].Status == opencode.MCPConnected {
			return err
		}
	}
	if err := dir.AddMCP(ctx, tool); err != nil {
		return err
	}
	if o.made == nil {
		o.made = map[place]string{}
	}
	o.made[at] = tool.Name
	return nil
}

// Withdraw takes the tool back from the servers it was offered to, which may be somebody else's and outlive this program.
func (o *Offers) Withdraw(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var failed []error
	for at, name := range o.made {
		err := at.client.In(at.path).DisconnectMCP(ctx, name)
		if err != nil && !errors.Is(err, opencode.ErrUnavailable) { // a server that is gone has forgotten it
			failed = append(failed, fmt.Errorf("take the blocker tool back from %s: %w", at.path, err))
		}
	}
	o.made = nil
	return errors.Join(failed...)
}
