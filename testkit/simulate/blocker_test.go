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

// question is what an agent asks at a place. Sessions remember it, whatever becomes of the processes.
type question struct {
	ask
	session string
	ref     boulder.AttemptRef
	at      place
	nth     int // of its turn
	replies int // how often its waiting session got the answer
}

type ask struct {
	hard  bool
	waits bool // its session waits for the answer, for a while
}

func (q *question) key() string  { return fmt.Sprintf("%v, question %d of %v", q.ref, q.nth, q.at) }
func (q *question) text() string { return fmt.Sprintf("question %d of %v", q.nth, q.at) }

// asksAt returns the asks of a turn. A parked sub-task returns to the same place, and has the answers by then.
func (sc *scenario) asksAt(at place) []ask {
	d := throw(sc.seed, "asks", at)
	var all []ask
	for len(all) < 3 && d.is(sc.asks) {
		a := ask{hard: d.is(0.5)}
		a.waits = !a.hard && d.is(0.4)
		all = append(all, a)
	}
	return all
}

// blockers returns all that the disk has, those of the plan first. The caller holds mu.
func (w *world) blockers() []boulder.Blocker {
	return boulder.Raised(w.disk.Boulder, w.disk.SubTasks)
}

// raise plays the agent's asks at a place that have no answer yet. The caller holds mu.
func (w *world) raise(s *session, at place) {
	for nth, a := range w.sc.asksAt(at) {
		q := &question{ask: a, session: s.id, ref: s.ref, at: at, nth: nth}
		known := slices.ContainsFunc(w.questions, func(old *question) bool { return old.key() == q.key() })
		answered := slices.ContainsFunc(w.blockers(), func(b boulder.Blocker) bool {
			return b.SubTaskID == s.ref.SubTaskID && b.Question == q.text() && b.Status.Settled()
		})
		if !known && !answered {
			w.questions = append(w.questions, q)
			w.note("session %s asks: %s, %+v", s.id, q.text(), a)
			w.seen["asked"]++
		}
	}
}

// recorded returns the question's blocker, or nil before it is on disk. The caller holds mu.
func (w *world) recorded(q *question) *boulder.Blocker {
	if t := w.disk.SubTask(q.ref.SubTaskID); t != nil {
		for i := range t.Blockers {
			if t.Blockers[i].Key == q.key() {
				return &t.Blockers[i]
			}
		}
	}
	return nil
}

// answerTo is the user's answer to a blocker, as an order.
func (w *world) answerTo(b *boulder.Blocker) boulder.Order {
	d := throw(w.sc.seed, "word", b.Question)
	o := boulder.Order{Do: boulder.OrderSettle, SubTaskID: b.SubTaskID, BlockerID: b.ID}
	switch x := d.Float64(); {
	case b.PlanQuestion != "":
		o.Text = pick(d, "", b.ChosenOption, "answer to "+b.Question, "answer to "+b.Question)
	case x < 0.2: // skipped
	case x < 0.3:
		o.Allowed = true
	default:
		o.Text, o.Allowed = "answer to "+b.Question, x < 0.4
	}
	return o
}

// waitsFor reports whether the blocker's sub-task is parked for its answer. The caller holds mu.
func (w *world) waitsFor(b *boulder.Blocker) bool {
	t := w.disk.SubTask(b.SubTaskID)
	same := func(other boulder.Blocker) bool { return other.ID == b.ID }
	return t != nil && t.Parked && slices.ContainsFunc(t.AwaitedBy(t.Attempts), same)
}

// tellRaised reports the agent's questions that are not recorded, as package blockers does.
func (c *call) tellRaised() error {
	for {
		all, err := c.job.Raised(context.Background())
		if err != nil {
			return err
		}
		q := c.unknown(all)
		if c.job.SubTask.Blockers = all; q == nil {
			return nil
		}
		b := boulder.Blocker{
			BlockerScope: boulder.BlockerScope{SessionID: q.session}, Category: boulder.BlockerOther, Question: q.text(), Hard: q.hard,
			Key: q.key(), Status: boulder.BlockerPending, CreatedAt: c.now().UTC(),
		}
		if q.waits {
			b.Until = b.CreatedAt.Add(10 * time.Minute)
		}
		if err := c.tell(boulder.BlockerRaised{AttemptRef: q.ref, Blocker: b}); err != nil {
			return err
		}
	}
}

// unknown returns the first question of the attempt that is not among those recorded, or nil.
func (c *call) unknown(recorded []boulder.Blocker) *question {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for _, q := range c.w.questions {
		known := func(b boulder.Blocker) bool { return b.Key == q.key() }
		if q.ref == c.job.Attempt.AttemptRef && !slices.ContainsFunc(recorded, known) {
			return q
		}
	}
	return nil
}

// reply gives the session the answers for which it waits. A crash before that is stored leaves it with the answer.
func (c *call) reply() error {
	for _, b := range c.job.SubTask.Blockers {
		got := false
		err := c.alive(func() error {
			for _, q := range c.w.questions {
				waits := q.waits && q.replies == 0 && c.sess.newest.state == working && q.at == c.sess.newest.at
				if got = q.key() == b.Key && waits && b.Status.Settled(); got {
					q.replies++
					c.w.seen["a waiting session got its answer"]++
					break
				}
			}
			return nil
		})
		if err == nil && got {
			err = c.tell(boulder.WaitEnded{AttemptRef: c.job.Attempt.AttemptRef, BlockerID: b.ID, Replied: true})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answeredSoon reports whether the session waits for an answer that the user gives at once.
func (c *call) answeredSoon() bool {
	if c.w.sc.class.same() || c.w.sc.calm {
		return false
	}
	for _, b := range c.job.SubTask.Blockers {
		if d := throw(c.w.sc.seed, "soon", b.Question, c.number); b.Attempt == c.job.Attempt.Attempt && b.Waiting(c.now()) && d.is(0.7) {
			c.others.Go(func() { c.answer(&b) })
			return true
		}
	}
	return false
}

// endWaits says of each wait of the ended turn that it is over.
func (c *call) endWaits() error {
	for _, b := range c.job.SubTask.Blockers {
		if b.Attempt != c.job.Attempt.Attempt || !b.Waiting(c.now()) {
			continue
		}
		if err := c.tell(boulder.WaitEnded{AttemptRef: c.job.Attempt.AttemptRef, BlockerID: b.ID}); err != nil {
			return err
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
		b := p.w.pickBlocker(d)
		p.w.mu.Unlock()
		if b != nil {
			p.answer(b)
		}
	}
}

// pickBlocker draws a blocker to answer, or returns nil. If the end must be as without crashes, its sub-task must be
// parked for it: a turn's result must not depend on when the answer came. The caller holds mu.
func (w *world) pickBlocker(d dice) *boulder.Blocker {
	var can []boulder.Blocker
	for _, b := range w.blockers() {
		if !w.sc.class.same() || w.waitsFor(&b) {
			can = append(can, b)
		}
	}
	if len(can) == 0 {
		return nil
	}
	return &can[d.IntN(len(can))]
}

// answer gives an answer to the process.
func (p *process) answer(b *boulder.Blocker) {
	p.w.mu.Lock()
	o, again := p.w.answerTo(b), p.w.answered[b.ID]
	p.w.mu.Unlock()
	p.order(o, laneAnswer, func(err error) {
		switch {
		case err == nil && again:
			p.w.violate("each answer counts once", "%s was answered, and is answered again", b.ID)
		case err != nil && again:
			p.w.seen["answered twice"]++
		case err != nil && !errors.Is(err, boulder.ErrRefused) && !errors.Is(err, boulder.ErrFinished) &&
			!errors.Is(err, errDiskFull):
			p.w.violate("orders are carried out", "%+v: %v", o, err)
		}
		p.w.answered[b.ID] = again || err == nil
	})
}

// answerBetween plays the user who answers while no process runs: every question that the run waits for, and some
// others. In a serial world, an early answer would change the order of the work.
func (w *world) answerBetween(dir string, number int, ended error) {
	waits := errors.Is(ended, orchestrator.ErrWaiting)
	d := throw(w.sc.seed, "answers between", number)
	var all []boulder.Blocker
	for _, b := range w.blockers() {
		if b.Status.Settled() {
			continue
		}
		parked := w.waitsFor(&b)
		now := waits && parked
		if w.sc.class != serial && !w.sc.calm && (parked || !w.sc.class.same()) {
			now = now || d.is(0.3) || number > maxDisturbed
		}
		if now {
			all = append(all, b)
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
	for i := range all {
		p.answer(&all[i])
	}
	p.close(context.Canceled)
}

// checkRaised: nothing is asked twice, in all that the disk has, and no two questions have one id.
func (w *world) checkRaised(raised boulder.Blocker) {
	same := 0
	for _, b := range w.blockers() {
		if b.ID == raised.ID || b.Key != "" && b.Key == raised.Key || b.PlanQuestion != "" && b.PlanQuestion == raised.PlanQuestion {
			same++
		}
	}
	if same != 1 {
		w.violate("each question is asked once", "%s, %q, is there %d times", raised.ID, raised.Question, same)
	}
	if raised.PlanQuestion != "" {
		w.seen["a default was taken"]++
	} else if raised.Key == "" {
		w.seen["the user was needed for: "+string(raised.Category)]++
	}
}

// checkAnswers: a prompt has all that the user settled since an event, and does not repeat what the session was told, or
// got as the reply to its ask.
func (w *world) checkAnswers(id string, after uint64, prompt string) {
	t := w.disk.SubTask(id)
	for _, q := range w.disk.Questions(t) {
		about := "By default: " + q.Answer
		if q.By == boulder.ByUser {
			about = prompts.PlanAnswers([]boulder.Question{q})[0]
		}
		if after == 0 && !strings.Contains(prompt, about) {
			w.violate("each answer reaches the next prompt", "%q is not in the brief of %s:\n%s", about, id, prompt)
		}
	}
	for _, b := range w.disk.Boulder.Blockers {
		rests := slices.Contains(t.Questions, b.PlanQuestion) && b.Status == boulder.BlockerAnswered && b.Answer != b.ChosenOption
		if told := strings.Contains(prompt, "About "+b.ID+","); told != (rests && after > 0 && b.Seq > after) {
			w.violate("each answer reaches the next prompt", "the answer to %s is in the prompt of %s: %v:\n%s", b.ID, id, told, prompt)
		} else if told {
			w.seen["a session at work was told of an answer to the plan"]++
		}
	}
	for _, b := range t.Blockers {
		if !b.Status.Settled() {
			continue
		}
		about, replied := prompts.Answers([]boulder.Blocker{b})[0], after > 0 && b.Replied && b.Attempt == t.Attempts
		if told := strings.Contains(prompt, about); told != (b.Seq > after && !replied) {
			w.violate("each answer reaches the next prompt", "%q is in the prompt of %s: %v:\n%s", about, id, told, prompt)
		}
	}
}

// awaiting returns an unanswered hard question of a session, other than the blockers aside, or nil.
func (w *world) awaiting(s *session, aside ...string) *question {
	for _, q := range w.questions {
		b := w.recorded(q)
		if q.ref == s.ref && q.hard && (b == nil || !b.Status.Settled() && !slices.Contains(aside, b.ID)) {
			return q
		}
	}
	return nil
}

// checkAside: a session is told of each question once to leave it aside, and goes on without the answer only while its turns
// bring something.
func (w *world) checkAside(b boulder.Continuation) {
	o, news := w.disk.Open(b.SubTaskID), false
	for _, asked := range o.SubTask.Blockers {
		if asked.Attempt != b.Attempt {
			continue
		}
		says := strings.Contains(b.Prompt, prompts.Questions([]boulder.Blocker{asked})[0])
		is := slices.Contains(b.Aside, asked.ID)
		if says != (is && !w.aside[asked.ID]) {
			w.violate("a session is told once to do the rest", "of %s, in turn %d of %v: %v\n%s", asked.ID, b.Turn, b.AttemptRef, says, b.Prompt)
		}
		if says {
			w.aside[asked.ID], news = true, true
			w.seen["a question was left aside"]++
		}
		news = news || asked.Status.Settled() && asked.Seq > o.Turn.Seq
	}
	switch e := o.Turn.Evidence; {
	case len(b.Aside) == 0 || news:
	case e.ToolCount == 0 || e.Marked:
		w.violate("what is blocked is not continued", "turn %d of %v follows one that brought nothing (%d calls, marked %v)",
			b.Turn, b.AttemptRef, e.ToolCount, e.Marked)
	default:
		w.seen["it went on around a question"]++
	}
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
