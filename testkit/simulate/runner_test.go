package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// call is one call of Run: a turn as in package executor, with the session protocol of executor/session.go.
type call struct {
	*process
	job    boulder.Job
	report func(boulder.Body) error
	at     place
	lane   int
	sess   *session
	slot   *slot // of an isolated boulder
	dice   dice  // for delays
}

// Run implements orchestrator.Runner.
func (p *process) Run(
	ctx context.Context, job boulder.Job, report func(boulder.Body) error,
) (boulder.Evidence, error) {
	c := &call{process: p, job: job, report: report, at: placeOf(job.SubTask, job.Turn)}
	defer c.enter(ctx)()
	e, err := c.turn(ctx)
	if ctx.Err() == nil && !errors.Is(err, errCrash) {
		unreported := c.tellRaised()
		if err == nil && unreported == nil {
			unreported = c.endWaits()
		}
		if unreported != nil {
			err = unreported
		}
	}
	if err != nil && ctx.Err() != nil {
		if c.job.Turn.MessageID != "" {
			c.abort()
		}
		return boulder.Evidence{}, context.Cause(ctx)
	}
	return e, err
}

// enter checks that the turn may run, and records it until leave is called.
func (c *call) enter(ctx context.Context) (leave func()) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.lane = c.w.lane(c.job.Attempt.AttemptRef, 0)
	c.dice = throw(c.w.sc.seed, "delays", c.at, c.job.Attempt.Attempt, c.number, c.w.ids)
	if !c.dead {
		c.w.checkRun(c)
	}
	c.calls = append(c.calls, running{c.job.Attempt.AttemptRef, c.job.Attempt.Model, ctx})
	at := len(c.calls) - 1
	return func() {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.calls[at].ctx = nil
	}
}

func (c *call) step(ctx context.Context, d time.Duration, do func() error) error {
	return c.process.step(ctx, c.lane, d, do)
}

// step waits, then calls do unless the process is dead.
func (p *process) step(ctx context.Context, lane int, d time.Duration, do func() error) error {
	if err := p.w.nap(ctx, lane, d); err != nil {
		return err
	}
	return p.alive(do)
}

// alive calls do unless the process is dead.
func (p *process) alive(do func() error) error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.dead {
		return errCrash
	}
	return do()
}

func (c *call) turn(ctx context.Context) (boulder.Evidence, error) {
	err := c.enterSlot(ctx)
	if err == nil {
		err = c.step(ctx, c.dice.span(time.Millisecond, time.Second), c.connect)
	}
	if err == nil {
		err = c.open(ctx)
	}
	if err != nil {
		return boulder.Evidence{}, err
	}
	ended, err := c.send(ctx)
	if err == nil && !ended {
		err = c.follow(ctx)
	}
	if err != nil {
		return boulder.Evidence{}, err
	}
	return c.gather(ctx)
}

// connect connects to a server, which may fail.
func (c *call) connect() error {
	f := c.w.next("turn", c.at, c.w.sc.turnFaults(c.at))
	if f == nil || !f.early {
		return nil
	}
	c.w.faultMet("turn", c.at)
	return f.err
}

func (c *call) open(ctx context.Context) error {
	if id := c.job.Attempt.SessionID; id != "" {
		return c.alive(func() error { return c.look(id) })
	}
	err := c.alive(func() error {
		if c.job.Recovered {
			c.sess = c.w.find(func(s *session) bool { return s.tag == c.job.Attempt.Tag })
		}
		if c.sess == nil {
			c.sess = c.w.create(c.job)
		}
		return nil
	})
	if err == nil {
		err = c.step(ctx, c.dice.span(time.Millisecond, time.Second), func() error { return nil })
	}
	if err != nil {
		return err
	}
	start := boulder.SubTaskStart{
		AttemptRef: c.job.Attempt.AttemptRef, Description: c.job.SubTask.Subject, Model: c.job.Attempt.Model,
		Effort: c.job.Attempt.Effort, SessionID: c.sess.id, Snapshot: "snapshot",
	}
	if c.slot != nil {
		start.From = c.slot.from
	}
	return c.tell(start)
}

func (c *call) look(id string) error {
	c.sess = c.w.find(func(s *session) bool { return s.id == id })
	if c.sess != nil {
		c.w.advance(c.sess)
	}
	if c.sess == nil || c.sess.gone {
		return fmt.Errorf("session %s: %w", id, boulder.ErrSessionLost)
	}
	return nil
}

// tell reports an event, and checks that it is on disk on return.
func (c *call) tell(b boulder.Body) error {
	if err := c.report(b); err != nil {
		return err
	}
	return c.alive(func() error {
		c.w.checkTold(b)
		return nil
	})
}

// send makes sure that the session has the prompt, and reports whether the turn has already ended.
func (c *call) send(ctx context.Context) (ended bool, err error) {
	turn, a := &c.job.Turn, &c.job.Attempt
	if a.Effort != "" && !a.NoEffort && a.Model == "b/one" { // which has none
		if err := c.tell(boulder.EffortMissing{AttemptRef: a.AttemptRef, Model: a.Model, Effort: a.Effort}); err != nil {
			return false, err
		}
	}
	if turn.MessageID == "" {
		return false, c.prompt(ctx, false)
	}
	err = c.step(ctx, c.dice.span(time.Millisecond, time.Second), func() error { return c.look(c.sess.id) })
	if err != nil {
		return false, err
	}
	if err := c.tellRaised(); err != nil {
		return false, err
	}
	c.w.mu.Lock()
	m := message{state: failed}
	if sent := c.sess.sent(c.last()); sent != nil {
		m = *sent
	}
	c.w.mu.Unlock()
	switch {
	case m.state == working:
		return false, nil
	case m.state == answered, c.job.Awaits(): // no more prompts: judge what is there
		return true, nil
	case m.state == failed:
		return false, c.hand(ctx, c.last(), turn.ResumeID != "")
	case turn.ResumeID == "":
		return false, c.prompt(ctx, true)
	case !m.begun:
		return false, c.hand(ctx, c.last(), true)
	}
	return true, nil // cut off twice: judge what is there
}

func (c *call) last() string {
	if c.job.Turn.ResumeID != "" {
		return c.job.Turn.ResumeID
	}
	return c.job.Turn.MessageID
}

// prompt sends a new prompt after its intent is stored.
func (c *call) prompt(ctx context.Context, resume bool) error {
	var id string
	err := c.alive(func() error {
		c.w.ids++
		id = fmt.Sprintf("msg%d", c.w.ids)
		return nil
	})
	if err != nil {
		return err
	}
	turn := &c.job.Turn
	err = c.tell(boulder.TurnSent{
		AttemptRef: c.job.Attempt.AttemptRef, Turn: turn.Number, Kind: turn.Kind, MessageID: id, Resume: resume,
		ToldUpTo: turn.ToldUpTo,
	})
	if err != nil {
		return err
	}
	if resume {
		turn.ResumeID = id
	} else {
		turn.MessageID = id
	}
	return c.hand(ctx, id, resume)
}

// hand gives the session a prompt whose id is stored.
func (c *call) hand(ctx context.Context, id string, resume bool) error {
	return c.step(ctx, c.dice.span(time.Millisecond, time.Second), func() error {
		if err := c.look(c.sess.id); err != nil {
			return err
		}
		c.w.send(c.sess, id, resume, c.job)
		return nil
	})
}

// follow waits for the end of the turn, and reports progress.
func (c *call) follow(ctx context.Context) error {
	for i := 0; ; i++ {
		var left time.Duration
		var err error
		var state messageState
		var told bool
		check := c.alive(func() error {
			if err := c.look(c.sess.id); err != nil {
				return err
			}
			m := c.sess.newest
			left, state, err = time.Until(m.ends), m.state, m.err
			told = i > 0 && state == working
			return nil
		})
		switch {
		case check != nil:
			return check
		case state == answered:
			return nil
		case state == failed:
			return err
		case state == cutOff:
			return errors.Join(err, fmt.Errorf("%w: the turn was cut off", boulder.ErrTrouble))
		}
		if told {
			if err := errors.Join(c.tellRaised(), c.reply(), c.progress(i)); err != nil {
				return err
			}
		}
		if i == 0 && c.dice.is(0.3) || c.answeredSoon() {
			left /= 2
		}
		if err := c.w.nap(ctx, c.lane, left); err != nil {
			return err
		}
	}
}

// progress reports a nudge, or activity with half of the turn's usage.
func (c *call) progress(i int) error {
	if c.dice.is(0.2) {
		return c.tell(boulder.Nudged{
			AttemptRef: c.job.Attempt.AttemptRef, Turn: c.job.Turn.Number, Rule: boulder.RuleIdle, Prompt: "act",
			MessageID: fmt.Sprintf("nudge%d of %v", i, c.at),
		})
	}
	all := c.w.sc.workOf(c.job.SubTask, c.at).evidence.Usage
	seen := boulder.Usage{Input: all.Input / 2, Output: all.Output / 2, Calls: all.Calls / 2, Cost: all.Cost / 2}
	return c.tell(boulder.SubTaskProgress{
		AttemptRef: c.job.Attempt.AttemptRef, Activity: "edit main.go", Usage: seen,
		Checkpoint: &boulder.Checkpoint{File: "main.go", Line: i, Context: "func main", At: c.now().UTC()},
	})
}

// gather returns the evidence of the ended turn. Gates take time.
func (c *call) gather(ctx context.Context) (e boulder.Evidence, err error) {
	err = c.step(ctx, c.dice.span(time.Millisecond, 10*time.Second), func() error {
		if err := c.look(c.sess.id); err != nil {
			return err
		}
		w := c.w.sc.workOf(c.job.SubTask, c.at)
		e, e.Duration = w.evidence, w.takes
		if c.slot != nil {
			c.collect(&e)
		}
		if m := c.sess.sent(c.last()); m == nil || m.state != answered {
			e.Ended = boulder.Ended{Error: "MessageAbortedError", Message: "aborted"}
			if c.job.Awaits() {
				e.Ended.Truncated = "it was cut off, with a question that has no answer"
			}
		}
		c.w.inexact = c.w.inexact || w.broken != nil
		return w.broken
	})
	return e, err
}

// abort ends the agent's turn. Only the end of the process can interrupt it.
func (c *call) abort() {
	if c.w.nap(c.gone, c.lane, c.dice.span(10*time.Millisecond, 5*time.Second)) != nil {
		return
	}
	_ = c.alive(func() error {
		if c.sess != nil && c.look(c.sess.id) == nil {
			c.w.cut(c.sess, "it is aborted")
		}
		return nil
	})
}
