package simulate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// boulderID of the one boulder of a world.
const boulderID = "b1"

// world is what outlives the processes: the sessions with their agents, what is on disk, and what was seen. All of it
// is guarded by mu, which nobody holds while he waits.
type world struct {
	sc    scenario
	epoch time.Time

	mu       sync.Mutex
	sessions []*session
	register []*question    // what agents asked
	met      map[string]int // faults that have happened, by where
	ids      int            // of messages, given out
	lanes    map[string]int // by sub-task, see lane
	process  *process       // the one that is alive
	repo     repo

	disk   *boulder.State // what the disk has, by the events that were committed
	events []boulder.Event
	record

	broken  []string       // invariants, with what broke them
	seen    map[string]int // see census
	logging bool
	log     strings.Builder
}

// record is what the checks remember.
type record struct {
	commits   int
	since     uint64               // number of the first event of the newest commit
	together  []boulder.AttemptRef // attempts that the newest commit starts
	stands    bool                 // the newest attempt that starts has its result already
	attempts  map[boulder.AttemptRef]boulder.AttemptStatus
	subTasks  map[string]boulder.SubTaskStatus
	done      map[string]bool // sub-tasks that were completed
	replans   int
	slots     int                         // as many as were at work, or kept, at once
	prompts   map[promptRef]string        // accepted by sessions: their ids
	judged    map[string]int              // turns, by the first sub-task of a line
	retried   map[boulder.AttemptRef]bool // attempts that the user asked for
	spent     int64                       // tokens and calls together
	worked    time.Duration
	inexact   bool // a turn ended without evidence: of what it used, only that is known which was seen in time
	cancelled bool // the user wanted the boulder cancelled
}

// promptRef names the prompt of a turn, or the one that resumes it.
type promptRef struct {
	boulder.AttemptRef
	turn   int
	resume bool
}

func newWorld(sc scenario, logging bool) *world {
	w := &world{
		sc: sc, epoch: time.Now(), met: map[string]int{}, lanes: map[string]int{}, disk: boulder.NewState(),
		seen: map[string]int{}, logging: logging, repo: newRepo(),
	}
	w.record = record{
		attempts: map[boulder.AttemptRef]boulder.AttemptStatus{}, subTasks: map[string]boulder.SubTaskStatus{},
		done: map[string]bool{}, prompts: map[promptRef]string{}, judged: map[string]int{}, retried: map[boulder.AttemptRef]bool{},
	}
	for i, s := range sc.plan.SubTasks {
		w.lanes[s.ID] = i
	}
	return w
}

// violate notes that an invariant does not hold, and ends the process: what follows would only confuse. The caller
// holds mu.
func (w *world) violate(invariant, format string, args ...any) {
	w.broken = append(w.broken, invariant+": "+fmt.Sprintf(format, args...))
	w.note("VIOLATED %s", w.broken[len(w.broken)-1])
	if w.process != nil {
		w.process.die()
	}
}

// note writes a line of the log. The caller holds mu.
func (w *world) note(format string, args ...any) {
	if w.logging {
		fmt.Fprintf(&w.log, "%16s %s\n", time.Since(w.epoch), fmt.Sprintf(format, args...))
	}
}

// next is the fault that comes now, of those that a place has. The caller holds mu.
func (w *world) next(what string, at place, faults []fault) *fault {
	if n := w.met[what+fmt.Sprint(at)]; n < len(faults) {
		return &faults[n]
	}
	return nil
}

// over says that a fault has happened.
func (w *world) over(what string, at place) { w.met[what+fmt.Sprint(at)]++ }

// session is one of the sessions of an OpenCode server. It works on while no process looks.
type session struct {
	id, tag string
	ref     boulder.AttemptRef
	gone    bool
	byID    map[string]*message
	newest  *message
}

type messageState string

const (
	working  messageState = "working"
	answered messageState = "answered"
	failed   messageState = "failed"
	cutOff   messageState = "cut off"
)

// message is a prompt in a session, and how far the agent is with it.
type message struct {
	id           string
	resume       bool
	at           place
	work         work
	begins, ends time.Time
	state        messageState
	begun        bool
	reached      int // how often the model got it
	err          error
}

// settle brings a session to the present. The caller holds mu.
func (w *world) settle(s *session) {
	m := s.newest
	if m == nil || m.state != working {
		return
	}
	now := time.Now()
	if !m.begun && !now.Before(m.begins) {
		m.begun = true
		if m.reached++; m.reached > 1 {
			w.violate("each prompt reaches the model once", "%s of %v reached it %d times", m.id, m.at, m.reached)
		}
		w.raise(s, m.at)
	}
	if now.Before(m.ends) {
		return
	}
	f := w.next("turn", m.at, w.sc.turnFaults(m.at))
	if f != nil && f.early { // that is met by whoever looks for the session
		f = nil
	}
	if f != nil {
		w.over("turn", m.at)
	}
	switch {
	case f == nil, f.cut && m.resume && w.sc.class.same():
		m.state = answered // worlds in which nothing is lost are kind: no turn is cut off twice
	case f.err == nil:
		s.gone, w.inexact = true, true
	case f.cut:
		m.state, m.err = cutOff, f.err
	default:
		m.state, m.err = failed, f.err
		m.reached-- // the provider turned it away
	}
	w.note("session %s: %s is %s (%v, gone %v)", s.id, m.id, m.state, m.err, s.gone)
}

// cut ends the turn that a session is at. The caller holds mu.
func (w *world) cut(s *session, why string) {
	w.settle(s)
	m := s.newest
	if m == nil || m.state != working || s.gone {
		return
	}
	// Of a turn that waits for an answer nothing is resumed: what else it would meet, the next attempt would.
	if w.sc.class.same() && (m.resume || w.awaiting(s) != nil) {
		m.ends = time.Now() // it had just finished, and so begun
		m.begins = m.ends
		w.settle(s)
		return
	}
	m.state, m.err = cutOff, nil
	w.note("session %s: %s is cut off: %s", s.id, m.id, why)
}

func (w *world) find(match func(*session) bool) *session {
	for _, s := range w.sessions {
		if match(s) && !s.gone {
			return s
		}
	}
	return nil
}

// create makes a session. The caller holds mu.
func (w *world) create(job boulder.Job) *session {
	tag := job.Attempt.Tag
	if s := w.find(func(s *session) bool { return s.tag == tag }); s != nil {
		w.violate("intent before effect", "%s has session %s and gets another one", tag, s.id)
	}
	if o := w.disk.Open(job.SubTask.ID); o == nil || o.Attempt.Tag != tag || o.Attempt.Status != boulder.AttemptStarting {
		w.violate("intent before effect", "a session for %s is created, of which the disk knows nothing", tag)
	}
	s := &session{
		id: fmt.Sprintf("ses%d", len(w.sessions)+1), tag: tag, ref: job.Attempt.AttemptRef, byID: map[string]*message{},
	}
	w.sessions = append(w.sessions, s)
	w.note("session %s is created for %s", s.id, tag)
	return s
}

// again stands between the id of a prompt and how often package opencode sent it again, in the id of a message.
const again = "again"

// promptOf is the id of the prompt that a message is.
func promptOf(messageID string) string {
	id, _, _ := strings.Cut(messageID, again)
	return id
}

// sent is what came of a prompt when it was sent last; nil: it never was.
func (s *session) sent(id string) *message {
	m := s.byID[id]
	for n := 1; m != nil && s.byID[fmt.Sprint(id, again, n)] != nil; n++ {
		m = s.byID[fmt.Sprint(id, again, n)]
	}
	return m
}

// send gives a session a prompt as package opencode does: one of which nothing came runs again. OpenCode 2 never runs an id
// twice, so that it gets another one there. The caller holds mu.
func (w *world) send(s *session, id string, resume bool, job boulder.Job) {
	w.settle(s)
	messageID := id
	if w.sc.generation == 2 {
		for n := 1; s.byID[messageID] != nil && s.byID[messageID].idle(); n++ {
			messageID = fmt.Sprint(id, again, n)
		}
	}
	w.prompt(s, messageID, resume, job)
}

// idle reports whether nothing came of a message.
func (m *message) idle() bool { return m.state == failed || m.state == cutOff && !m.begun }

// prompt gives a session a message. One that it has already changes nothing, unless the turn has failed by then and it is an
// OpenCode 1. The caller holds mu.
func (w *world) prompt(s *session, id string, resume bool, job boulder.Job) {
	w.checkPrompt(s, id, resume, job)
	if q := w.awaiting(s); q != nil {
		w.violate("what is blocked is not continued", "session %s is prompted, and %s has no answer", s.id, q.ID)
	}
	m := s.byID[id]
	runsAgain := fmt.Sprintf("a prompt runs again on OpenCode %d", w.sc.generation)
	switch {
	case m == nil:
		at := placeOf(job.SubTask, job.Turn)
		m = &message{id: id, resume: resume, at: at, work: w.sc.workOf(job.SubTask, at)}
		if id != promptOf(id) {
			m.reached = s.newest.reached
			w.seen[runsAgain]++
		}
		s.byID[id] = m
		w.count(job, promptOf(id), resume)
	case w.sc.generation == 1 && m.idle():
		w.seen[runsAgain]++
	default:
		return
	}
	m.state, m.begun, m.err = working, false, nil
	m.begins = time.Now().Add(m.work.takes / 8)
	m.ends = time.Now().Add(m.work.takes)
	s.newest = m
	w.note("session %s: prompted with %s (resume %v) at %v, until %s", s.id, id, resume, m.at, m.ends.Sub(w.epoch))
}

// nap waits until a moment of the lane's own, at least d from now: so no two things ever happen at the same instant,
// and the run is the same whenever it is run. It ends early with ctx, and returns its cause.
func (w *world) nap(ctx context.Context, lane int, d time.Duration) error {
	const grid = time.Millisecond
	at := (time.Since(w.epoch) + d).Truncate(grid) + grid + time.Duration(lane)
	t := time.NewTimer(at - time.Since(w.epoch))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lane is that of an attempt's work, and of its judgement. The caller holds mu.
func (w *world) lane(ref boulder.AttemptRef, judging int) int {
	return (w.lanes[ref.SubTaskID]*100+ref.Attempt%100)*2 + judging
}
