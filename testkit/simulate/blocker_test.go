package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/prompts"
)

// question is a blocker in the register, which outlives processes and servers, as a disk of its own would.
type question struct {
	boulder.Blocker

	ref       boulder.AttemptRef
	at        place
	nth       int  // of its turn
	delivered bool // the boulder has the answer
}

// ask is a question that an agent meets in a turn.
type ask struct {
	hard bool
	fast bool // answered before the runner reports it
}

// asksAt returns the asks of a turn. A parked sub-task returns to the same place, and has the answers by then.
func (sc *scenario) asksAt(at place) []ask {
	d := throw(sc.seed, "asks", at)
	var all []ask
	for len(all) < 3 && d.is(sc.asks) {
		all = append(all, ask{hard: d.is(0.5), fast: d.is(0.15)})
	}
	return all
}

// raise plays the agent's tool calls: it records the asks of this place that have no answer yet. The caller holds mu.
func (w *world) raise(s *session, at place) {
	for nth, a := range w.sc.asksAt(at) {
		if slices.ContainsFunc(w.register, func(q *question) bool {
			return q.at == at && q.nth == nth && (q.Status.Settled() || q.ref == s.ref)
		}) {
			continue
		}
		q := &question{ref: s.ref, at: at, nth: nth, Blocker: boulder.Blocker{
			ID:           fmt.Sprintf("B%d", len(w.register)+1),
			BlockerScope: boulder.BlockerScope{SubTaskID: s.ref.SubTaskID, Attempt: s.ref.Attempt, SessionID: s.id},
			Category:     boulder.BlockerOther, Question: fmt.Sprintf("question %d of %v", nth, at), Hard: a.hard,
			Status: boulder.BlockerPending,
		}}
		w.register = append(w.register, q)
		w.note("session %s asks %s, hard %v", s.id, q.ID, q.Hard)
		w.seen["asked"]++
		if a.fast {
			w.seen["answered before the report"]++
			w.decide(q)
			q.delivered = true // the report has it
		}
	}
}

// RaiseBlocker records what a verdict needs of the user: see orchestrator.Config. The user may answer before the
// boulder has the blocker, and the process may die in between.
func (p *process) RaiseBlocker(ctx context.Context, b boulder.Blocker, turn int) (boulder.Blocker, error) {
	ref := boulder.AttemptRef{SubTaskID: b.SubTaskID, Attempt: b.Attempt}
	d := throw(p.w.sc.seed, "raised", ref, turn)
	p.w.mu.Lock()
	lane := p.w.lane(ref, 1)
	p.w.mu.Unlock()
	err := p.alive(func() error {
		at := placeOf(*p.w.disk.SubTask(b.SubTaskID), boulder.Turn{Number: turn})
		same := func(q *question) bool { return q.ref == ref && q.at == at && q.nth == ofVerdict }
		i := slices.IndexFunc(p.w.register, same)
		if i < 0 {
			b.ID, b.Status = fmt.Sprintf("B%d", len(p.w.register)+1), boulder.BlockerPending
			p.w.register, i = append(p.w.register, &question{ref: ref, at: at, nth: ofVerdict, Blocker: b}), len(p.w.register)
			p.w.note("the verdict on turn %d of %v asks %s", turn, ref, b.ID)
			p.w.seen["the user was needed for: "+string(b.Category)]++
		}
		b = p.w.register[i].Blocker
		p.w.register[i].delivered = b.Status.Settled() // the report has it
		return nil
	})
	if err == nil {
		err = p.delay(ctx, lane, d.span(time.Millisecond, time.Second), time.Millisecond)
	}
	return b, err
}

// ofVerdict is the nth of a question raised by a verdict, not by an agent.
const ofVerdict = -1

// decide writes the user's answer to the register. The caller holds mu.
func (w *world) decide(q *question) {
	d := throw(w.sc.seed, "word", q.at, q.nth)
	q.Status = boulder.BlockerAnswered
	switch x := d.Float64(); {
	case x < 0.2:
		q.Status = boulder.BlockerSkipped
	case x < 0.3:
		q.Allowed = true
	default:
		q.Answer, q.Allowed = fmt.Sprintf("answer %s to %v", q.ID, q.at), x < 0.4
	}
	w.note("register: %s is %s", q.ID, q.Status)
}

func (q *question) order() boulder.Order {
	return boulder.Order{
		Do: boulder.OrderSettle, SubTaskID: q.SubTaskID, BlockerID: q.ID, Text: q.Answer, Allowed: q.Allowed,
	}
}

// waitsFor reports whether the question's sub-task is parked for its answer. The caller holds mu.
func (w *world) waitsFor(q *question) bool {
	t := w.disk.SubTask(q.SubTaskID)
	return t != nil && t.Parked && q.isIn(t.AwaitedBy(t.Attempts))
}

func (q *question) isIn(blockers []boulder.RaisedBlocker) bool {
	return slices.ContainsFunc(blockers, func(b boulder.RaisedBlocker) bool { return b.ID == q.ID })
}

// tellRaised reports the agent's questions that the job does not know.
func (c *call) tellRaised() error {
	for {
		q := c.unknown()
		if q == nil {
			return nil
		}
		if err := c.tell(boulder.BlockerRaised{AttemptRef: q.ref, Blocker: q.Blocker}); err != nil {
			return err
		}
		known := boulder.RaisedBlocker{ID: q.ID, Attempt: q.Attempt, Hard: q.Hard, Question: q.Question, Status: q.Status}
		c.job.SubTask.Blockers = append(slices.Clip(c.job.SubTask.Blockers), known)
	}
}

// unknown returns a copy of the first question that the job does not know, or nil.
func (c *call) unknown() *question {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for _, q := range c.w.register {
		if q.ref == c.job.Attempt.AttemptRef && !q.isIn(c.job.SubTask.Blockers) {
			return new(*q)
		}
	}
	return nil
}

// answers plays the user who answers while the process runs, sometimes a second time.
func (p *process) answers() {
	for i := range 40 {
		d := throw(p.w.sc.seed, "answer", p.number, i)
		if p.w.nap(p.gone, laneAnswer, d.span(time.Second, 2*time.Hour)) != nil {
			return
		}
		p.w.mu.Lock()
		q := p.w.pickQuestion(d)
		if q != nil && !q.Status.Settled() {
			p.w.decide(q)
		}
		crash := q != nil && d.is(0.05)
		if crash {
			p.w.seen["answer lost between register and boulder"]++
			p.die() // the answer is in the register, but not handed over
		}
		p.w.mu.Unlock()
		if crash {
			return
		}
		if q != nil {
			p.handOver(q)
		}
	}
}

// pickQuestion draws a question to answer, or returns nil. If the end must be as without crashes, its sub-task must be
// parked for it: a turn's result must not depend on when the answer came. The caller holds mu.
func (w *world) pickQuestion(d dice) *question {
	var can []*question
	for _, q := range w.register {
		if !w.sc.class.same() || w.waitsFor(q) {
			can = append(can, q)
		}
	}
	if len(can) == 0 {
		return nil
	}
	return can[d.IntN(len(can))]
}

// handOver gives an answer to the process, as an order.
func (p *process) handOver(q *question) {
	p.w.mu.Lock()
	o, again := q.order(), q.delivered
	p.w.mu.Unlock()
	p.order(o, laneAnswer, func(err error) {
		switch {
		case err == nil && again:
			p.w.violate("each answer counts once", "%s was handed over, and is taken again", q.ID)
		case err != nil && again:
			p.w.seen["answered twice"]++
		case err != nil && !errors.Is(err, boulder.ErrRefused) && !errors.Is(err, boulder.ErrFinished) &&
			!errors.Is(err, errDiskFull):
			p.w.violate("orders are carried out", "%+v: %v", o, err)
		}
		q.delivered = q.delivered || err == nil
	})
}

// pending reports whether the boulder has the question, and could still use an answer. The caller holds mu.
func (w *world) pending(q *question) bool {
	t := w.disk.SubTask(q.SubTaskID)
	return t != nil && !t.Status.Terminal() && slices.ContainsFunc(t.Blockers, func(b boulder.RaisedBlocker) bool {
		return b.ID == q.ID && !b.Status.Settled()
	})
}

// deliver hands over answers that were lost, as a resume does before it starts.
func (p *process) deliver() {
	p.w.mu.Lock()
	var all []*question
	for _, q := range p.w.register {
		if q.Status.Settled() && p.w.pending(q) {
			all = append(all, q)
		}
	}
	p.w.mu.Unlock()
	for _, q := range all {
		p.w.mu.Lock()
		p.w.seen["delivered later"]++
		p.w.mu.Unlock()
		p.handOver(q)
	}
}

// answerBetween plays the user who answers while no process runs: every question that the run waits for, and some
// others. In a serial world, an early answer would change the order of the work.
func (w *world) answerBetween(dir string, number int, ended error) {
	waits := errors.Is(ended, orchestrator.ErrWaiting)
	d := throw(w.sc.seed, "answers between", number)
	var all []*question
	for _, t := range w.disk.SubTasks {
		for _, q := range w.register {
			if q.SubTaskID != t.ID || q.Status.Settled() {
				continue
			}
			parked := w.waitsFor(q)
			now := waits && parked
			if w.sc.class != serial && !w.sc.calm && (parked || !w.sc.class.same()) {
				now = now || d.is(0.3) || number > maxDisturbed
			}
			if now {
				all = append(all, q)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	p, err := w.start(dir, -1_000-number, false)
	if err != nil {
		w.violate("a crash leaves a database that opens", "%v", err)
		return
	}
	for _, q := range all {
		w.mu.Lock()
		w.decide(q)
		w.mu.Unlock()
		p.handOver(q)
	}
	p.close(context.Canceled)
}

// checkAnswers: a prompt has all that the user settled since an event, and does not repeat what the session was told.
func (w *world) checkAnswers(id string, after uint64, prompt string) {
	t := w.disk.SubTask(id)
	for _, b := range t.Blockers {
		if !b.Status.Settled() {
			continue
		}
		about := prompts.Answers([]boulder.RaisedBlocker{b})[0]
		if told := strings.Contains(prompt, about); told != (b.Seq > after) {
			w.violate("each answer reaches the next prompt", "%q is in the prompt of %s: %v:\n%s", about, id, told, prompt)
		}
	}
}

// awaiting returns an unanswered hard question of a session, or nil.
func (w *world) awaiting(s *session) *question {
	for _, q := range w.register {
		if q.ref == s.ref && q.Hard && !q.Status.Settled() {
			return q
		}
	}
	return nil
}

// checkStartsAnswered: after an attempt that asked, the next one starts only with the answer, or on the user's order.
func (w *world) checkStartsAnswered(ref boulder.AttemptRef) {
	t := w.disk.SubTask(ref.SubTaskID)
	if open := t.AwaitedBy(ref.Attempt - 1); len(open) > 0 && !w.retried[ref] {
		w.violate("what is blocked is not continued", "%v begins, and %s has no answer", ref, open[0].ID)
	}
}

// noteRetried remembers an attempt started by the user's order.
func (w *world) noteRetried(b boulder.Body) {
	id := ""
	switch b := b.(type) {
	case boulder.Reopened:
		id = b.SubTaskID
	case boulder.Retry:
		if b.Status == boulder.AttemptCancelled {
			id = b.SubTaskID
		}
	}
	if t := w.disk.SubTask(id); t != nil {
		w.retried[boulder.AttemptRef{SubTaskID: id, Attempt: t.Attempts}] = true
	}
}
