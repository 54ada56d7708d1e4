package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/prompts"
	"github.com/bouldermgr/manager/session"
)

// Diverter stands in for a person who is away: it takes down what only they can answer, and says how the agent goes on
// without. Its methods may be called from any goroutine, and may block for as long as a database takes.
type Diverter interface {
	// Offer makes the tool known to the server with which agents report blockers, and Withdraw takes it back.
	Offer(ctx context.Context, dir *opencode.Directory) error
	Withdraw(ctx context.Context, dir *opencode.Directory) error
	// ToolName is the name that the tool has for agents.
	ToolName() string
	// On reports whether a session is diverted at this moment.
	On(scope boulder.BlockerScope) bool
	// Called says which session makes a call of the tool. The call itself does not say it.
	Called(call boulder.BlockerCall)
	// Divert takes an ask down and rules on it; about the same request it rules once.
	Divert(ctx context.Context, ask boulder.Blocker) (boulder.Ruling, error)
	// Ruling says what has become of a ruling to wait.
	Ruling(ctx context.Context, blockerID string) (boulder.Ruling, error)
	// Instruction is what an agent is told about an ask that nobody took down.
	Instruction(ask boulder.Blocker) string
	// Gone takes down that nobody waits for the answer to an ask any longer. Of a blocker that the user has settled it
	// changes nothing.
	Gone(ctx context.Context, blockerID string) error
	// Of lists what was recorded for a session, oldest first.
	Of(ctx context.Context, sessionID string) ([]boulder.Blocker, error)
}

const (
	// blockerLook is how often it is looked whether a blocker was answered that a session waits for.
	blockerLook = 5 * time.Second
	// askLimit bounds one ruling: an agent waits for it.
	askLimit = 5 * time.Second
)

// offerEarly makes the tool known before there is a session, where every one is diverted.
func (w *Watch) offerEarly(ctx context.Context) {
	w.offered = false // the server has forgotten it if it was started anew
	if w.cfg.Diverter == nil || w.cfg.DryRun {
		return
	}
	div := w.cfg.Diverter
	w.background(ctx, func() func() {
		on := div.On(boulder.BlockerScope{})
		return func() {
			if on && !w.offered {
				w.offer(ctx)
			}
		}
	})
}

// offer makes the tool known to the server.
func (w *Watch) offer(ctx context.Context) {
	div, dir := w.cfg.Diverter, w.dir
	w.offered = true
	w.background(ctx, func() func() {
		err := div.Offer(ctx, dir)
		return func() {
			if err != nil {
				w.cfg.Note("Agents cannot report blockers with a tool; what they ask is diverted all the same.")
				w.log.Warn("the blocker tool could not be added to OpenCode", "error", err)
				return
			}
			w.cfg.Note("Blockers are taken down; agents report them with the tool " + div.ToolName() + ".")
		}
	})
}

// withdraw takes the tool back when the watch ends.
func (w *Watch) withdraw(ctx context.Context) {
	if !w.offered {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
	defer cancel()
	if err := w.cfg.Diverter.Withdraw(ctx, w.dir); err != nil {
		w.log.Warn("the blocker tool could not be taken back", "error", err)
	}
}

// away is what stands in for the person in one session.
type away struct {
	ruled    map[string]ruledOn // asks, by request id
	on       bool               // the session is diverted
	blockers []boulder.Blocker  // of the session and its sub-agents
	looked   time.Time          // when these two were read last
	reading  bool
}

// ruledOn is an ask that was given to the diverter.
type ruledOn struct {
	at     time.Time // when to look again; zero: it is being ruled on, or replied to
	ruling boulder.Ruling
	// The reply is due, on its way, or made.
	due, replying, done bool
	late                bool // it was held back for what no event had told of
}

// diverts reports whether there is somebody who could stand in for the person in a session.
func (w *Watch) diverts(s *watched) bool {
	return w.cfg.Diverter != nil && s.notOwned == "" && !w.cfg.DryRun
}

// divert gives the asks of a session to the diverter, and looks again at those that wait.
func (w *Watch) divert(ctx context.Context, s *watched, now time.Time) {
	if !w.diverts(s) {
		return
	}
	pending := s.tree.Pending()
	for id, known := range s.away.ruled {
		if !slices.ContainsFunc(pending, func(a session.Ask) bool { return a.ID() == id }) {
			delete(s.away.ruled, id)
			if !known.replying && !known.done && known.ruling.BlockerID != "" {
				w.gone(ctx, known.ruling.BlockerID)
			}
		}
	}
	for _, a := range pending {
		known, has := s.away.ruled[a.ID()]
		if has && (known.at.IsZero() || now.Before(known.at)) {
			s.due = earlier(s.due, known.at)
			continue
		}
		w.rule(ctx, s, a, known.ruling)
	}
	w.replyToAsks(ctx, s, slices.DeleteFunc(pending, func(a session.Ask) bool { return s.away.ruled[a.ID()].done }))
}

// replyToAsks replies to what is ruled on, as far as it is due.
func (w *Watch) replyToAsks(ctx context.Context, s *watched, asks []session.Ask) {
	var ruled []session.Ruled
	for _, a := range asks {
		known := s.away.ruled[a.ID()]
		r := session.Ruled{Session: a.SessionID(), Question: a.Question != nil}
		if known.due && (!known.late || !s.reading) {
			r.Reply = known.ruling.Reply
		}
		ruled = append(ruled, r)
	}
	due := session.Replies(ruled)
	if len(due) == 0 {
		return
	}
	dirs := make([]*opencode.Directory, len(asks))
	rulings := make([]boulder.Ruling, len(asks))
	late := make([]bool, len(asks))
	for _, i := range due {
		id := asks[i].ID()
		dirs[i], rulings[i], late[i] = w.directoryOf(s, asks[i]), s.away.ruled[id].ruling, s.away.ruled[id].late
		s.away.set(id, ruledOn{ruling: rulings[i], replying: true})
	}
	w.background(ctx, func() func() {
		failed := make([]error, len(asks))
		for _, i := range due {
			if !late[i] && asks[i].Permission != nil && rulings[i].Reply != boulder.ReplyAllowed && alsoAsks(ctx, asks[i], dirs[i], asks) {
				failed[i] = errLate
				continue
			}
			failed[i] = asks[i].Reply(ctx, dirs[i], rulings[i].Reply, rulings[i].Message)
		}
		return func() {
			s.news = true
			for _, i := range due {
				known := ruledOn{ruling: rulings[i], done: true}
				switch err := failed[i]; {
				case errors.Is(err, errLate): // the state has it
					known.done, known.due, known.late = false, true, true
					w.read(ctx, s)
				case errors.Is(err, opencode.ErrNotFound):
					if rulings[i].Reply != boulder.ReplyAllowed && rulings[i].BlockerID != "" {
						w.gone(ctx, rulings[i].BlockerID) // nobody reads the refusal
					}
				case err != nil:
					w.failed(err)
					known.done, known.at = false, w.cfg.Now().Add(reconnect)
				}
				s.away.set(asks[i].ID(), known)
			}
		}
	})
}

// errLate holds a refusal back, once.
var errLate = errors.New("the session asks for something of which no event told yet")

// alsoAsks reports whether the session that asks for a permission waits for another one, which is not among the known: a
// refusal would sweep that away. What cannot be known holds no reply up.
func alsoAsks(ctx context.Context, a session.Ask, dir *opencode.Directory, known []session.Ask) bool {
	ctx, cancel := context.WithTimeout(ctx, session.AnswerLook)
	defer cancel()
	listed, err := dir.Permissions(ctx)
	if err != nil {
		return false
	}
	for _, other := range session.Asks(listed, nil) {
		same := func(k session.Ask) bool { return k.ID() == other.ID() }
		if other.SessionID() != a.SessionID() || slices.ContainsFunc(known, same) {
			continue
		}
		if _, waits, err := other.Call(ctx, dir); err == nil && waits {
			return true
		}
	}
	return false
}

// gone is best effort: it is about what people read.
func (w *Watch) gone(ctx context.Context, blockerID string) {
	div := w.cfg.Diverter
	w.background(ctx, func() func() {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		err := div.Gone(ctx, blockerID)
		return func() {
			if err != nil {
				w.log.Warn("a blocker that nobody waits for is not marked so", "blocker", blockerID, "error", err)
			}
		}
	})
}

// rule has an ask ruled on, the first time or after a wait.
func (w *Watch) rule(ctx context.Context, s *watched, a session.Ask, before boulder.Ruling) {
	s.away.set(a.ID(), ruledOn{})
	own := a.Permission != nil && a.Permission.Permission == w.cfg.Diverter.ToolName() // to call the tool needs one, too (seen)
	div, dir, main := w.cfg.Diverter, w.directoryOf(s, a), s.rec.SessionID
	w.background(ctx, func() func() {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		var r boulder.Ruling
		var err error
		b := a.Blocker()
		b.SessionID = main // a sub-agent's is known by its request
		switch {
		case before.BlockerID == "" && !div.On(boulder.BlockerScope{SessionID: main}):
			return func() { s.away.set(a.ID(), ruledOn{at: w.cfg.Now().Add(blockerLook)}); s.news = true } // the person is asked
		case own:
			r.Reply = boulder.ReplyAllowed
		case before.BlockerID == "":
			call, waits, callErr := a.Call(ctx, dir)
			if callErr == nil && !waits {
				return func() { s.away.set(a.ID(), ruledOn{done: true}) } // of a turn that was aborted
			}
			if call.Tool != "" { // for people to read
				b.Ask.Tool, b.Ask.Arguments = call.Tool, string(call.Input)
			}
			r, err = div.Divert(ctx, b)
		default:
			r, err = div.Ruling(ctx, before.BlockerID)
			if err != nil && w.cfg.Now().Before(before.Until) { // somebody may have the database; the person has time left
				w.log.Warn("it is not known whether a person answered", "blocker", before.BlockerID, "error", err)
				r, err = before, nil
			}
		}
		if err != nil { // it must not hang for that
			w.log.Warn("a blocker could not be taken down", "session", main, "ask", a.String(), "error", err)
			r = boulder.Ruling{Reply: boulder.ReplyDiverted, Message: div.Instruction(b)}
		}
		return func() {
			known := ruledOn{ruling: r, due: r.Reply != boulder.ReplyWaiting}
			if !known.due {
				known.at = w.cfg.Now().Add(session.AnswerLook)
			}
			s.away.set(a.ID(), known)
			s.away.looked, s.news = time.Time{}, true
			if note := told(text.Short(w.cfg.Redact(a.String()), 200), r, before); note != "" {
				w.cfg.Note(note)
			}
		}
	})
}

// told says in a sentence what became of an ask; nothing, if that is not new.
func told(a string, r, before boulder.Ruling) string {
	switch {
	case r.BlockerID == "" || r.Reply == before.Reply:
		return ""
	case r.Reply == boulder.ReplyWaiting:
		return fmt.Sprintf("%s waits for you until %s: manager blockers answer %s …", a, r.Until.Local().Format(time.TimeOnly),
			r.BlockerID)
	case r.Reply == boulder.ReplyAllowed:
		return fmt.Sprintf("%s is answered, as %s.", a, r.BlockerID)
	}
	return fmt.Sprintf("%s was refused, and is taken down as %s.", a, r.BlockerID)
}

func (x *away) set(id string, r ruledOn) {
	if x.ruled == nil {
		x.ruled = map[string]ruledOn{}
	}
	x.ruled[id] = r
}

// directoryOf is where an ask has to be answered.
func (w *Watch) directoryOf(s *watched, a session.Ask) *opencode.Directory {
	if path := s.tree.Member(a.SessionID()).Directory; path != "" {
		return w.client.In(path)
	}
	return w.dir
}

// called tells the diverter of a call of the tool that reports blockers.
func (w *Watch) called(s *watched, e opencode.Event) {
	p, ok := e.Payload.(opencode.PartUpdated)
	if !ok || w.cfg.Diverter == nil || p.Part.Tool == nil || p.Part.Tool.Tool != w.cfg.Diverter.ToolName() ||
		s.notOwned != "" {
		return
	}
	switch p.Part.Tool.State {
	case opencode.ToolRunning:
		w.cfg.Diverter.Called(boulder.BlockerCall{
			BlockerScope: boulder.BlockerScope{SessionID: s.rec.SessionID}, CallID: p.Part.ID, // of any session of the tree
			Input: p.Part.Tool.Input,
		})
	case opencode.ToolCompleted, opencode.ToolError:
		s.away.looked = time.Time{}
	}
}

// lookAtBlockers reads what was recorded for a session, if that was not done a moment ago, or since a call of the tool. It
// reports whether that is under way, so that nothing can be decided yet.
func (w *Watch) lookAtBlockers(ctx context.Context, s *watched, now time.Time) bool {
	x := &s.away
	switch {
	case !w.diverts(s):
		return false
	case x.reading:
		return true
	case now.Sub(x.looked) < blockerLook:
		return false
	}
	x.reading = true
	div, id := w.cfg.Diverter, s.rec.SessionID
	w.background(ctx, func() func() {
		on := div.On(boulder.BlockerScope{SessionID: id})
		all, err := div.Of(ctx, id)
		return func() {
			x.reading, s.news = false, true
			x.looked, x.on = w.cfg.Now(), on
			if on && !w.offered {
				w.offer(ctx)
			}
			if err != nil {
				w.log.Warn("the blockers of a session could not be read", "session", id, "error", err)
				return
			}
			x.blockers = all
			answers, _ := s.answers()
			if awaits := len(s.awaited())+len(answers) > 0; awaits != s.rec.Awaits {
				s.rec.Awaits, s.changed = awaits, true
			}
		}
	})
	return true
}

// awaited are the hard blockers of a session that nobody has settled. It is not told to go on before.
func (s *watched) awaited() []string {
	var texts []string
	for _, b := range s.away.blockers {
		if b.Hard && !b.Status.Settled() {
			texts = append(texts, "an answer to "+b.ID+": "+text.Short(b.Question, 200))
		}
	}
	return texts
}

// answers are what a person said about blockers of the session, and its agent has not been told.
func (s *watched) answers() (texts, ids []string) {
	var news []boulder.RaisedBlocker
	for _, b := range s.away.blockers {
		if b.Status.Settled() && !slices.Contains(s.rec.Answered, b.ID) && !replied(b) {
			news = append(news, boulder.RaisedBlocker{
				ID: b.ID, Question: b.Question, Status: b.Status, Answer: b.Answer, Allowed: b.Allowed,
			})
			ids = append(ids, b.ID)
		}
	}
	return prompts.Answers(news), ids
}

// replied reports whether what a person said was the reply to an ask that waited for it. One that was settled in time and
// is still waiting had nobody to reply to: its session was aborted, or OpenCode was started anew.
func replied(b boulder.Blocker) bool {
	return b.Ask != nil && !b.SettledAt.After(b.Until) && b.Ask.Reply != boulder.ReplyWaiting && b.Ask.Reply != boulder.ReplyGone
}
