package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
	"github.com/bouldermgr/manager/session"
)

// observation is what was seen of a running turn. Began moves forward by the time spent waiting for the user.
type observation struct {
	enforcer.Seen // asSeen fills in the rest

	ended        time.Time
	touched      map[string]bool // files, relative to the project
	usage        boulder.Usage
	counted      map[string]bool // ids of the answers in usage
	activity     string          // the newest reported one
	failed       *opencode.TurnError
	cutOff       bool                // ended from outside, and not to be resumed
	stopped      string              // why the manager ended the turn
	rule         boulder.Rule        // by which the manager did
	looks        int                 // how often the prompt was resent because no turn began
	nudged       bool                // in this call of Run
	nudgeLost    bool                // the turn ended with a nudge under way, which may begin another
	recheck      time.Time           // when to read the state again; zero: events suffice
	recheckDelay time.Duration       // before the newest recheck
	endSeen      bool                // an event reported the turn's end
	idleSeen     bool                // the session was found idle during the turn
	waitingSince time.Time           // newest look at an ask that the user may still answer; zero: none
	offered      map[string][]string // tools by directory
	lacks        []string            // tools that the agents do not have, in words
}

// recheckSoon schedules another read of the session's state, each time after twice the delay. OpenCode sends the idle
// event before its statuses change (1.18.33, SessionStatus.set): after a read in between, no further event would come,
// and the turn would time out as silent.
func (t *turn) recheckSoon() {
	t.seen.recheckDelay = max(time.Second, 2*t.seen.recheckDelay)
	t.seen.recheck = t.cfg.Now().Add(t.seen.recheckDelay)
}

const maxLooks = 3 // resends of a prompt that began no turn

// follow handles events until the turn has ended. It stops the turn if the enforcer says so.
func (t *turn) follow(ctx context.Context) error {
	now := t.cfg.Now()
	t.seen.LastEvent, t.seen.Began = now, cmp.Or(t.seen.Began, now)
	for ended := false; !ended; {
		if at := t.seen.recheck; !at.IsZero() && !t.cfg.Now().Before(at) {
			p, err := t.position(ctx)
			if err == nil {
				ended, err = t.over(p)
			}
			if ended || err != nil {
				return err
			}
		}
		answers, err := t.answerAsks(ctx)
		if err != nil {
			return err
		}
		retries := t.tree.Retries()
		if i := slices.IndexFunc(retries, func(r enforcer.Retry) bool { return waitsInVain(r.Message, r.Next.Sub(t.cfg.Now())) }); i >= 0 {
			return t.giveUp(ctx, retries[i], "")
		}
		if m := t.tree.Unreached; m != nil { // OpenCode goes on asking, without a pause
			if err := t.stopSession(ctx, t.dir, t.job.Attempt.SessionID); err != nil {
				return err
			}
			return turnFault(session.NotReached, t.modelName(m.Model))
		}
		d := enforcer.Decide(t.asSeen(), *t.cfg.Rules, t.cfg.Now())
		switch d.Kind {
		case enforcer.Stop:
			t.seen.stopped, t.seen.rule = d.Reason, d.Rule
			return t.stopSession(ctx, t.dir, t.job.Attempt.SessionID)
		case enforcer.Yield:
			return t.giveUp(ctx, retries[0], d.Reason)
		case enforcer.Lose:
			return fmt.Errorf("%w: %s", boulder.ErrTrouble, d.Reason)
		case enforcer.Nudge:
			if t.oneNudge && len(t.tree.Nudges) > 0 {
				t.seen.stopped, t.seen.rule = d.Reason, d.Rule
				return t.stopSession(ctx, t.dir, t.job.Attempt.SessionID)
			}
			err = t.nudge(ctx, d)
		case enforcer.Look:
			ended, err = t.look(ctx)
		default:
			ended, err = t.next(ctx, session.Earliest(d.At, answers, t.seen.recheck))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sawEnd takes in an event that reports the turn's end, and reports whether it can be believed. A failed or aborted
// turn sends its last idle event late, which a turn resumed right after it would take for its own (observed). A nudge
// that arrives after the end begins another turn.
func (t *turn) sawEnd() bool {
	t.seen.endSeen, t.seen.recheck = true, t.cfg.Now()
	return !t.job.Recovered && !t.seen.nudged
}

// over reports whether the turn has ended by a state that was read. A complete answer ends it, whatever events said. A
// turn that was at work and is found idle twice without an end is an error: its server was restarted. Once proves
// nothing: a message gets its error up to a second after its session is idle (observed).
func (t *turn) over(p session.Position) (ended bool, err error) {
	t.seen.recheck = time.Time{}
	switch {
	case p.Busy:
		t.seen.idleSeen, t.seen.endSeen = false, false
		t.recheckSoon()
	case p.Unanswered && t.seen.nudged && !t.seen.nudgeLost:
		t.seen.nudgeLost, t.seen.Busy, t.seen.Prompted = true, false, t.cfg.Now()
	case p.Answered, t.seen.endSeen:
		return true, nil
	case !t.seen.Busy:
	case t.seen.idleSeen:
		return false, fmt.Errorf("%w: OpenCode does not work on the turn any more: was it restarted?", boulder.ErrTrouble)
	default:
		t.seen.idleSeen = true
		t.recheckSoon()
	}
	return false, nil
}

func (t *turn) asSeen() enforcer.Seen {
	s := t.seen.Seen
	if !t.job.PerTurn {
		s.Worked = t.job.Attempt.Worked
	}
	if all := t.tree.Retries(); len(all) > 0 {
		s.Retry = &all[0] // OpenCode ignores when a limit ends, and retries within seconds
		if end := t.cfg.Now().Add(ocprovider.ClassifyRetry(s.Retry.Message, s.Retry.Next.Sub(t.cfg.Now())).RetryAfter); end.After(s.Retry.Next) {
			s.Retry.Next = end
		}
	}
	s.ToolsRunning, s.TimeLeft = t.tree.ToolsRunning(), t.job.TimeLeft
	s.Findings, s.Nudged = t.tree.Stuck(), t.tree.Nudges
	return s
}

func (t *turn) next(ctx context.Context, until time.Time) (ended bool, err error) {
	select {
	case e, ok := <-t.sub.C():
		if !ok {
			return false, fmt.Errorf("%w: the event stream was closed", boulder.ErrTrouble)
		}
		return t.event(ctx, e)
	case <-t.cfg.After(until.Sub(t.cfg.Now())):
		return false, nil
	case <-t.conn.Down:
		return false, fmt.Errorf("%w: the OpenCode server died", boulder.ErrTrouble)
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// event handles one event, and reports whether the turn has ended with it.
func (t *turn) event(ctx context.Context, e opencode.Event) (ended bool, err error) {
	own := e.SessionID == t.job.Attempt.SessionID
	if e.SessionID != "" {
		t.seen.LastEvent, t.seen.Looked = t.cfg.Now(), false
	}
	if p, ok := e.Payload.(opencode.PartUpdated); ok {
		if err := t.blockerPart(ctx, p.Part); err != nil {
			return false, err
		}
		p.Part.Tool = redacted(t.Executor, p.Part.Tool)
		e.Payload = p
	}
	told := t.tree.Take(e, t.cfg.Now())
	switch p := e.Payload.(type) {
	case opencode.Resync:
		t.seen.OfflineSince = time.Time{}
		return t.resync(ctx)
	case opencode.Disconnected:
		t.seen.OfflineSince = t.cfg.Now()
	case opencode.SessionCreated, opencode.SessionUpdated:
		// A sub-agent may begin to work in another directory.
		path := t.tree.Member(e.SessionID).Directory
		if path != "" && path != t.path && t.seen.offered[path] == nil {
			return false, t.offerTools(ctx)
		}
	case opencode.StatusChanged:
		t.seen.Busy = t.seen.Busy || own && p.Status.Type != opencode.Idle
		if p.Status.Type == opencode.Retry && !waitsInVain(p.Status.Message, p.Status.Next.Sub(t.cfg.Now())) {
			return false, t.notice(whyWaits(p.Status.Next, t.cfg.Now(), p.Status.Attempt, t.cfg.Redact.Text(p.Status.Message)))
		}
		return own && p.Status.Type == opencode.Idle && t.seen.Busy && t.sawEnd(), nil
	case opencode.SessionFailed:
		if own {
			t.seen.failed = p.Err
			return !t.seen.Busy && t.sawEnd(), nil // a turn that could not begin sends no other end
		}
	case opencode.MessageUpdated:
		// Report all answers at once: budgets need it, and a sub-agent can make many calls in one of its parent's.
		if t.tree.Has(p.Message.SessionID) && t.count(p.Message) {
			return false, t.used("the model answered")
		}
	case opencode.PartUpdated:
		return false, t.reportToolCall(e.SessionID, told)
	case opencode.TodosUpdated:
		if !own {
			break
		}
		said := boulder.SubTaskProgress{Activity: "todo list", TodosTotal: len(p.Todos)}
		for _, x := range p.Todos {
			if x.Status == "completed" || x.Status == "cancelled" {
				said.TodosDone++
			}
		}
		return false, t.say(said)
	}
	return false, nil
}

func (t *turn) resync(ctx context.Context) (ended bool, err error) {
	p, err := t.position(ctx)
	if err != nil {
		return false, err
	}
	if _, err := t.answerAsks(ctx); err != nil {
		return false, err
	}
	if err := t.blockersMissed(ctx); err != nil {
		return false, err
	}
	t.seen.Busy = t.seen.Busy || p.Busy
	if p.Busy {
		return false, t.recount(ctx)
	}
	return t.over(p)
}

// look finds out why a turn is silent. If it is at work, it may wait for a permission, a question or a provider, or an
// event was missed. If it never began, its prompt is resent.
func (t *turn) look(ctx context.Context) (ended bool, err error) {
	t.seen.Looked = true // answerAsks clears it if there is an ask
	ended, err = t.resync(ctx)
	if ended || err != nil || t.seen.Busy {
		return ended, err
	}
	if t.seen.nudgeLost {
		return true, nil // the turn had ended, and the nudge began none
	}
	if t.job.Awaits() {
		t.seen.cutOff = true // as in pickUp
		return true, nil
	}
	if t.seen.looks++; t.seen.looks > maxLooks {
		return false, fmt.Errorf("%w: OpenCode accepted the prompt but began no turn", boulder.ErrTrouble)
	}
	t.seen.Prompted = t.cfg.Now()
	return false, t.prompt(ctx)
}
