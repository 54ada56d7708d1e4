package simulate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

const boulderID = "b1"

// world is what outlives processes: sessions, agents, the disk, observations. mu guards it; no holder of mu waits.
type world struct {
	sc    scenario
	epoch time.Time

	mu        sync.Mutex
	sessions  []*session
	questions []*question    // what agents asked
	met       map[string]int // faults that happened, by place
	ids       int            // of messages, so far
	wishes    int            // for another plan, so far
	lanes     map[string]int // by sub-task, see lane
	process   *process       // the living one
	repo      repo
	lookouts  map[string]*lookout // by tag

	disk   *boulder.State // expected on disk: the fold of the committed events
	events []boulder.Event
	record

	broken  []string       // violated invariants, with details
	seen    map[string]int // see census
	logging bool
	log     strings.Builder
}

// record is the memory of the checks.
type record struct {
	commits    int
	since      uint64               // number of the first event of the newest commit
	together   []boulder.AttemptRef // attempts started by the newest commit
	stands     bool                 // the newest started attempt has its result already
	attempts   map[boulder.AttemptRef]boulder.AttemptStatus
	subTasks   map[string]boulder.SubTaskStatus
	aside      map[string]bool // questions that a session was told to leave aside
	done       map[string]bool // completed sub-tasks
	batch      []stacked       // results that came onto the tip since a tree was tested, and the sub-task of that tree
	untested   string
	replans    int
	extensions int
	slots      int                         // most that were in use or kept at once
	prompts    map[promptRef]string        // ids of prompts that sessions accepted
	judged     map[string]int              // turns, by the root of a chain of replans
	retried    map[boulder.AttemptRef]bool // attempts started by the user's order
	answered   map[string]bool             // ids of blockers whose answer was taken
	spent      int64                       // tokens plus calls
	worked     time.Duration
	inexact    bool // a turn ended without evidence: its usage is known only as far as reported
	cancelled  bool // the user wanted the boulder cancelled
	edits
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
		seen: map[string]int{}, logging: logging, repo: newRepo(), lookouts: map[string]*lookout{},
	}
	w.record = record{
		attempts: map[boulder.AttemptRef]boulder.AttemptStatus{}, aside: map[string]bool{}, subTasks: map[string]boulder.SubTaskStatus{},
		done: map[string]bool{}, prompts: map[promptRef]string{}, judged: map[string]int{}, retried: map[boulder.AttemptRef]bool{}, answered: map[string]bool{},
		edits: edits{forms: map[string]*boulder.Spec{}, models: map[string]boulder.Models{}},
	}
	for i, s := range sc.plan.SubTasks {
		w.lanes[s.ID] = i
	}
	return w
}

// violate records a violated invariant, and ends the process: later findings would only confuse. The caller holds mu.
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

// next returns the place's next fault, or nil. The caller holds mu.
func (w *world) next(what string, at place, faults []fault) *fault {
	if n := w.met[what+fmt.Sprint(at)]; n < len(faults) {
		return &faults[n]
	}
	return nil
}

// faultMet records that a fault happened.
func (w *world) faultMet(what string, at place) { w.met[what+fmt.Sprint(at)]++ }

// session is a session of an OpenCode server. It continues to work while no process watches.
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

type message struct {
	id           string
	resume       bool
	at           place
	model        string
	work         work
	begins, ends time.Time
	state        messageState
	begun        bool
	reached      int // times that the model got it
	err          error
}

// advance brings a session up to the present. The caller holds mu.
func (w *world) advance(s *session) {
	m := s.newest
	if m == nil || m.state != working {
		return
	}
	now := time.Now()
	if out := w.sc.refusal(m.model, m.begins.Sub(w.epoch)); out != nil && !m.begun && !now.Before(m.begins) {
		m.state, m.err = failed, out
		w.seen["a model was out"]++
		w.note("session %s: %s meets an outage of %s", s.id, m.id, m.model)
		return
	}
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
	if out := w.sc.refusal(m.model, m.ends.Sub(w.epoch)); out != nil {
		m.state, m.err = failed, out
		m.reached--
		w.seen["a model went out"]++
		w.note("session %s: %s is ended by an outage of %s", s.id, m.id, m.model)
		return
	}
	f := w.next("turn", m.at, w.sc.turnFaults(m.at))
	if f != nil && f.early { // early faults are met by the runner instead
		f = nil
	}
	if f != nil {
		w.faultMet("turn", m.at)
	}
	switch {
	case f == nil, f.cut && w.sc.class.same() && (m.resume || w.awaiting(s) != nil):
		m.state = answered // where the end must be the same, no turn is cut off twice, or with a question: see cut
	case f.err == nil:
		s.gone, w.inexact = true, true
	case f.cut:
		m.state, m.err = cutOff, f.err
	default:
		m.state, m.err = failed, f.err
		m.reached-- // refused by the provider
	}
	w.note("session %s: %s is %s (%v, gone %v)", s.id, m.id, m.state, m.err, s.gone)
}

// cut interrupts the session's current turn. The caller holds mu.
func (w *world) cut(s *session, why string) {
	w.advance(s)
	m := s.newest
	if m == nil || m.state != working || s.gone {
		return
	}
	// A turn that waits for an answer is not resumed: the next attempt would meet its remaining events.
	if w.sc.class.same() && (m.resume || w.awaiting(s) != nil) {
		m.ends = time.Now() // it just finished, so it had begun
		m.begins = m.ends
		w.advance(s)
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

// create makes a session for a starting attempt without one. The caller holds mu.
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

// again separates a prompt's id from the number of the repetition by package opencode, in a message id.
const again = "again"

func promptOf(messageID string) string {
	id, _, _ := strings.Cut(messageID, again)
	return id
}

// sent returns the newest message of a prompt, or nil if it was never sent.
func (s *session) sent(id string) *message {
	m := s.byID[id]
	for n := 1; m != nil && s.byID[fmt.Sprint(id, again, n)] != nil; n++ {
		m = s.byID[fmt.Sprint(id, again, n)]
	}
	return m
}

// send gives a session a prompt as package opencode does: one without any effect runs again. OpenCode 2 never runs an
// id twice, so it gets another id there. The caller holds mu.
func (w *world) send(s *session, id string, resume bool, job boulder.Job) {
	w.advance(s)
	messageID := id
	if w.sc.generation == 2 {
		for n := 1; s.byID[messageID] != nil && s.byID[messageID].idle(); n++ {
			messageID = fmt.Sprint(id, again, n)
		}
	}
	w.prompt(s, messageID, resume, job)
}

// idle reports whether a message had no effect.
func (m *message) idle() bool { return m.state == failed || m.state == cutOff && !m.begun }

// prompt gives a session a message. A known one runs again only on OpenCode 1, if it had no effect. The caller holds
// mu.
func (w *world) prompt(s *session, id string, resume bool, job boulder.Job) {
	w.checkPrompt(s, id, resume, job)
	if q := w.awaiting(s, job.Turn.Aside...); q != nil {
		w.violate("what is blocked is not continued", "session %s is prompted, and %s has no answer", s.id, q.text())
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
	m.state, m.begun, m.err, m.model = working, false, nil, job.Attempt.Model
	m.begins = time.Now().Add(m.work.takes / 8)
	m.ends = time.Now().Add(m.work.takes)
	s.newest = m
	w.note("session %s: prompted with %s (resume %v) at %v, until %s", s.id, id, resume, m.at, m.ends.Sub(w.epoch))
}

// nap waits for at least d, until a moment that belongs to the lane. No two things then happen at the same instant,
// which makes runs repeatable. If ctx ends first, nap returns its cause.
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

// lane returns the lane of an attempt's work (judging 0) or judgement (1). The caller holds mu.
func (w *world) lane(ref boulder.AttemptRef, judging int) int {
	return (w.lanes[ref.SubTaskID]*100+ref.Attempt%100)*2 + judging
}
