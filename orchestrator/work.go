package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/prompts"
)

// workKind is what a worker does for an attempt.
type workKind string

const (
	workRun    workKind = "run"
	workJudge  workKind = "judge"
	workReplan workKind = "replan"
	workVerify workKind = "verify"
)

// message is what a worker sends: any number of reports, then exactly one result.
type message struct {
	ref    boulder.AttemptRef
	report boulder.Body // nil in a result
	ack    chan<- error // for a report
	result *result
}

// result is how a worker's job ended.
type result struct {
	kind     workKind
	turn     int
	evidence boulder.Evidence // of a run
	verdict  boulder.Verdict  // of a judgement
	replan   *replacement     // of a replan
	asked    bool             // a person was asked about it
	usage    boulder.Usage    // of a judgement or a replan
	err      error
}

// launch starts the work that should be under way and is not. Nothing has changed since it was decided on but what is
// stored.
func (r *run) launch() {
	r.shareFlags()
	for _, action := range r.todo {
		switch a := action.(type) {
		case schedule.Run:
			r.start(a.Open, workRun)
		case schedule.Judge:
			r.start(a.Open, workJudge)
		case schedule.AskReplan:
			r.startReplan()
		case schedule.Finish:
			r.startVerify(a)
		case schedule.Wake:
			r.wake = a.At
		}
	}
}

// shareFlags mirrors [boulder.SubTask.Shared] of what is at work, for workers that ask when their turn has ended.
func (r *run) shareFlags() {
	flags := make(map[string]*atomic.Bool, len(r.shared))
	for _, o := range r.state.Live() {
		flag := r.shared[o.SubTask.ID]
		if flag == nil {
			flag = &atomic.Bool{}
		}
		flag.Store(o.SubTask.Shared)
		flags[o.SubTask.ID] = flag
	}
	r.shared = flags
}

func (r *run) start(o *boulder.Open, kind workKind) {
	ref := o.Attempt.AttemptRef
	if r.inflight[ref] || kind == workRun && len(r.leftover) > 0 {
		return // what an order ended gives its slot back when its work has ended
	}
	if _, has := r.slots[ref]; kind == workRun && !has {
		return // other boulders hold them all: their next change nudges this one
	}
	if kind == workRun {
		r.launchWork(ref, kind, r.runTurn(o))
	} else {
		r.launchWork(ref, kind, r.judgeTurn(o))
	}
}

func (r *run) launchWork(ref boulder.AttemptRef, kind workKind, work func(context.Context) *result) {
	ctx, cancel := context.WithCancelCause(r.workCtx)
	r.inflight[ref], r.cancels[ref] = true, cancel
	r.workers.Go(func() error {
		r.work(ctx, ref, kind, work)
		return nil
	})
}

// work runs on a worker goroutine. It hands in exactly one result, also if the work panics or ends its goroutine.
func (r *run) work(
	ctx context.Context, ref boulder.AttemptRef, kind workKind, work func(context.Context) *result,
) {
	var res *result
	defer func() {
		if p := recover(); p != nil {
			r.o.cfg.Logger.Error("worker panicked",
				"sub_task", ref.SubTaskID, "attempt", ref.Attempt, "panic", p, "stack", string(debug.Stack()))
			res = &result{kind: kind, err: fmt.Errorf("internal error: %v", p)}
		}
		if res == nil {
			res = &result{kind: kind, err: errors.New("internal error: the worker ended without a result")}
		}
		select {
		case r.msgs <- message{ref: ref, result: res}:
		case <-r.done:
		}
	}()
	res = work(ctx)
}

// runTurn prepares a turn on the loop goroutine; what it returns runs on the worker's.
func (r *run) runTurn(o *boulder.Open) func(context.Context) *result {
	shared := r.shared[o.SubTask.ID]
	job := boulder.Job{
		BoulderID: r.state.Boulder.ID, Project: r.state.Boulder.Project,
		SubTask: *o.SubTask, Attempt: *o.Attempt, Turn: *o.Turn,
		Recovered: r.restored[o.Attempt.AttemptRef] || o.Attempt.Troubles > 0,
		Alone:     func() bool { return !shared.Load() },
		PerTurn:   r.state.Boulder.Loop != nil, Diverted: r.state.Boulder.Diverted,
	}
	if job.Recovered || o.Turn.MessageID != "" {
		job.Resume = r.resumePrompt(o)
	}
	// It may have waited for long since it was written; or it was lost in a crash with what was added to it then.
	job.Turn.Prompt += prompts.News(r.state.Boulder.NotesFor(o.SubTask.ID, o.Turn.Seq), r.answers(o.SubTask, o.Turn.Seq))
	job.Turn.ToldUpTo = r.state.Boulder.Seq
	if b := o.SubTask.Budget; b != nil && b.Time > 0 {
		job.TimeLeft = max(time.Duration(b.Time)-o.SubTask.Worked, time.Nanosecond)
	}
	if o.Turn.Kind == boulder.TurnBrief && o.Turn.MessageID == "" {
		job.Files = r.takeFiles(o)
	}
	return func(ctx context.Context) *result {
		evidence, err := r.o.cfg.Runner.Run(ctx, job, r.reporter(ctx, job.Attempt.AttemptRef))
		return &result{kind: workRun, turn: job.Turn.Number, evidence: evidence, err: err}
	}
}

// takeFiles gives the files that the stored brief of an attempt refers to. After a fault or a crash the brief is built
// again; then there may be more of them than it names.
func (r *run) takeFiles(o *boulder.Open) []boulder.File {
	files, known := r.files[o.Attempt.AttemptRef]
	if !known {
		return r.brief(o).Files
	}
	delete(r.files, o.Attempt.AttemptRef)
	return files
}

func (r *run) judgeTurn(o *boulder.Open) func(context.Context) *result {
	req := boulder.JudgeRequest{
		Goal: r.state.Boulder.Goal, Constraints: r.state.Revision.Plan.Constraints,
		SubTask: *o.SubTask, Attempt: *o.Attempt, Turn: *o.Turn, Rest: r.rest(o),
		Notes: r.said(o.SubTask), RulesFirst: r.state.Boulder.Loop != nil,
	}
	return func(ctx context.Context) *result {
		verdict, usage, err := r.o.cfg.Judge.Judge(ctx, req)
		return &result{kind: workJudge, turn: req.Turn.Number, verdict: verdict, usage: usage, err: err}
	}
}

// rest are the subjects of what the plan still has beside this sub-task.
func (r *run) rest(o *boulder.Open) []string {
	rest := r.state.Unfinished()
	rest = rest[:min(len(rest), maxListed+1)]
	subjects := make([]string, 0, len(rest))
	for _, t := range rest {
		if t != o.SubTask && len(subjects) < maxListed {
			subjects = append(subjects, t.Subject)
		}
	}
	return subjects
}

// reporter gives a worker the function with which it reports: it returns when the report is stored.
func (r *run) reporter(ctx context.Context, ref boulder.AttemptRef) func(boulder.Body) error {
	return func(b boulder.Body) error {
		reply := make(chan error, 1)
		select {
		case r.msgs <- message{ref: ref, report: b, ack: reply}:
		case <-r.done:
			return context.Cause(ctx)
		}
		select {
		case err := <-reply:
			return err
		case <-r.done:
			return errors.Join(errRunOver, context.Cause(ctx))
		}
	}
}

// receive takes in one message on the loop goroutine.
func (r *run) receive(m message) error {
	if m.result != nil {
		return r.takeResult(m.ref, m.result)
	}
	refused := r.admissible(m)
	if refused == nil {
		refused = r.apply(m.report)
	}
	if refused == nil {
		r.acks = append(r.acks, m.ack)
	} else {
		m.ack <- refused // nothing changed; that is the worker's trouble, not the loop's
	}
	return nil
}

// admissible refuses reports that the contract of [Runner] does not have: a runner must not decide, nor speak for
// another attempt.
func (r *run) admissible(m message) error {
	var ref boulder.AttemptRef
	switch b := m.report.(type) {
	case boulder.SubTaskStart:
		ref = b.AttemptRef
	case boulder.TurnSent:
		ref = b.AttemptRef
	case boulder.Nudged:
		ref = b.AttemptRef
	case boulder.SubTaskProgress:
		ref = b.AttemptRef
	case boulder.BlockerRaised:
		ref = b.AttemptRef
	case boulder.GateRun:
		if m.ref == verifyRef && b.Final {
			return nil
		}
		return fmt.Errorf("a runner cannot report a gate: it belongs to the evidence: %w", boulder.ErrRefused)
	default:
		return fmt.Errorf("a runner cannot report a %T: %w", m.report, boulder.ErrRefused)
	}
	if ref != m.ref || !r.inflight[ref] {
		return fmt.Errorf("attempt %d of %q reports for attempt %d of %q, or after its end: %w",
			m.ref.Attempt, m.ref.SubTaskID, ref.Attempt, ref.SubTaskID, boulder.ErrRefused)
	}
	return nil
}

// takeResult turns a worker's result into events.
func (r *run) takeResult(ref boulder.AttemptRef, res *result) error {
	if err := r.noteClock(); err != nil {
		return err
	}
	delete(r.inflight, ref)
	if cancel := r.cancels[ref]; cancel != nil {
		cancel(nil)
		delete(r.cancels, ref)
	}
	if res.kind == workReplan {
		return r.takeReplan(res)
	}
	if res.kind == workVerify {
		r.takeVerification(res)
		return nil
	}
	if r.leftover[ref] {
		delete(r.leftover, ref)
		bodies := r.judgeUsage(ref, res) // what an order ended stays ended
		for _, left := range r.state.Boulder.Left {
			if left.AttemptRef == ref { // [Runner.Run] has stopped its turn
				bodies = append(bodies, boulder.SessionLeft{AttemptRef: ref, SessionID: left.SessionID, Stopped: true})
			}
		}
		return r.applyAll(bodies)
	}
	open := r.state.Open(ref.SubTaskID)
	if open == nil || open.Attempt.AttemptRef != ref {
		return fmt.Errorf("a worker handed in a result for attempt %d of %q, which is over", ref.Attempt, ref.SubTaskID)
	}
	bodies := r.judgeUsage(ref, res)
	switch {
	case res.err == nil && res.kind == workRun && missingGate(open.SubTask, &res.evidence) != nil:
		bodies = append(bodies, r.failure(open, missingGate(open.SubTask, &res.evidence))...)
	case res.err == nil && res.kind == workRun:
		bodies = append(bodies, r.turnEvents(open, res)...)
	case res.err == nil:
		bodies = append(bodies, schedule.Judged(r.state, open, res.turn, res.verdict, r.now()))
	default:
		bodies = append(bodies, r.failure(open, res.err)...)
	}
	return r.applyAll(bodies)
}

func (r *run) applyAll(bodies []boulder.Body) error {
	for _, b := range bodies {
		if err := r.apply(b); err != nil {
			return fmt.Errorf("a worker's result: %w", err)
		}
	}
	return nil
}

func (r *run) judgeUsage(ref boulder.AttemptRef, res *result) []boulder.Body {
	if res.usage == (boulder.Usage{}) {
		return nil
	}
	return []boulder.Body{boulder.UsageReport{
		SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Source: boulder.UsageJudge, Model: r.state.Boulder.LedgerModel,
		Usage: res.usage,
	}}
}

// brokenOff books what a turn used that will not be taken up again.
func brokenOff(o *boulder.Open) []boulder.Body {
	if o == nil || o.Running() == (boulder.Usage{}) {
		return nil
	}
	return []boulder.Body{boulder.UsageReport{
		SubTaskID: o.SubTask.ID, Attempt: o.Attempt.Attempt, Source: boulder.UsageAttempt, Model: o.Attempt.Model,
		Usage: o.Running(),
	}}
}

// turnEvents is what an ended turn tells.
func (r *run) turnEvents(o *boulder.Open, res *result) []boulder.Body {
	ref := o.Attempt.AttemptRef
	e := res.evidence
	bodies := one(schedule.TurnEnded(r.state, o, res.turn, e, r.now()))
	for _, g := range e.Gates {
		bodies = append(bodies, boulder.NewGateRun(o.SubTask, ref.Attempt, g))
	}
	if e.Usage != (boulder.Usage{}) || o.Running() != (boulder.Usage{}) {
		bodies = append(bodies, boulder.UsageReport{
			SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Source: boulder.UsageAttempt, Model: o.Attempt.Model,
			Usage: e.Usage,
		})
	}
	return bodies
}

// failure is what follows from an error of a worker. A run that is ending needs no event: the attempt stays where it
// is, and a resume takes it up.
func (r *run) failure(o *boulder.Open, err error) []boulder.Body {
	reason := err.Error()
	park, parking := errors.AsType[*parkError](err)
	switch {
	case r.ended != nil:
		return nil
	case parking:
		return append(brokenOff(o), parked(park.Park))
	case errors.Is(err, errSuspended):
		r.restored[o.Attempt.AttemptRef] = true
		return one(boulder.Trouble{
			AttemptRef: o.Attempt.AttemptRef, Kind: boulder.TroublePaused, Reason: pausedByPerson, NotBefore: r.now(), Uncounted: true,
		})
	case errors.Is(err, boulder.ErrFatal):
		r.end(err)
		return nil
	case errors.Is(err, boulder.ErrTrouble):
		return schedule.Trouble(r.state, r.o.limits, r.now(), o, err)
	case errors.Is(err, boulder.ErrSessionLost):
		return r.brokenOff(o, schedule.Lost(o, r.o.limits, reason))
	}
	action := schedule.Broken(r.state, o, r.o.limits, reason)
	if _, waits := action.(schedule.Park); !waits && r.state.Boulder.Loop != nil {
		return schedule.Trouble(r.state, r.o.limits, r.now(), o, err) // it has no tries that such faults could use up over a night
	}
	return r.brokenOff(o, action)
}

// brokenOff carries out what follows from a turn that will not be taken up again, and books what it used.
func (r *run) brokenOff(o *boulder.Open, action schedule.Action) []boulder.Body {
	if _, parks := action.(schedule.Park); parks {
		return r.decision(action) // which books it
	}
	return append(brokenOff(o), r.decision(action)...)
}

// parkError stops a turn whose sub-task needs a person.
type parkError struct{ schedule.Park }

func (e *parkError) Error() string { return e.Why() }

func parked(p schedule.Park) boulder.Body {
	o := p.Open
	b := boulder.Parked{AttemptRef: o.Attempt.AttemptRef, Reason: p.Why(), AtLimit: p.AtLimit, Program: p.Program}
	for _, awaited := range p.Awaits {
		b.Awaits = append(b.Awaits, awaited.ID)
	}
	b.Digest = "The attempt was stopped: " + b.Reason
	if o.Turn.Evidence != nil && len(p.Awaits) > 0 {
		b.Digest = prompts.WaitDigest("needed "+p.Needs(), *o.Turn.Evidence)
	}
	return b
}
