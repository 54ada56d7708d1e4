package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
	"github.com/bouldermgr/manager/prompts"
)

// workKey names work that can be under way: that of an attempt, a turn or the verdict on one, or one of the kinds below.
type workKey struct {
	kind    string
	attempt boulder.AttemptRef // zero, but for the work of an attempt
}

var (
	planWork      = workKey{kind: "plan"} // a plan, a look before it, then its approval
	replanWork    = workKey{kind: "replan"}
	tryWork       = workKey{kind: "try"}       // the trial of the gates before the first attempt
	integrateWork = workKey{kind: "integrate"} // the integration of a result
	verifyWork    = workKey{kind: "verify"}    // the gates at the end
	checkWork     = workKey{kind: "check"}     // the check of the request at the end
)

func workOf(attempt boulder.AttemptRef) workKey { return workKey{kind: "attempt", attempt: attempt} }

// message is what a worker sends: any number of reports, then exactly one end.
type message struct {
	from   workKey
	report boulder.Body // nil: the work has ended
	ack    Inbox        // of a report
	finish func() error // of an end; runs on the loop goroutine
}

// launch starts the work in todo that is not under way. Since it was decided, only the commit has happened.
func (r *run) launch() {
	if i := r.state.Boulder.Trunk.Integrating; i == nil || i != r.integrates {
		if stop := r.work[integrateWork]; stop != nil { // an order has ended the attempt
			stop(errSuspended)
		}
	}
	for _, o := range r.state.Live() {
		r.shared.Store(o.SubTask.ID, o.SubTask.Shared)
	}
	start := func(key workKey, work func()) {
		if !r.busy(key) {
			work()
		}
	}
	if r.state.Boulder.Status == boulder.AwaitingApproval {
		start(planWork, r.startApproval)
	}
	for _, action := range r.todo {
		switch a := action.(type) {
		case schedule.Run:
			start(workOf(a.Open.Attempt.AttemptRef), func() { r.startTurn(a.Open) })
		case schedule.Judge:
			start(workOf(a.Open.Attempt.AttemptRef), func() { r.startJudge(a.Open) })
		case schedule.Integrate:
			start(integrateWork, r.startIntegrate)
		case schedule.Try:
			start(tryWork, r.startTry)
		case schedule.AskPlan:
			start(planWork, r.startPlan)
		case schedule.Look:
			start(planWork, r.startLook)
		case schedule.AskReplan:
			start(replanWork, r.startReplan)
		case schedule.Finish:
			switch {
			case r.toVerify(a):
				start(verifyWork, func() { r.startVerify(a) })
			case a.Check:
				start(checkWork, r.startCheck)
			}
		case schedule.Wake:
			r.wake = a.At
		}
	}
}

// busy reports whether launched work has not ended.
func (r *run) busy(key workKey) bool { return r.work[key] != nil }

func (r *run) atWork(attempt boulder.AttemptRef) bool { return r.busy(workOf(attempt)) }

// underWay returns the keys of launched work in a fixed order.
func (r *run) underWay() []workKey {
	return slices.SortedFunc(maps.Keys(r.work), func(a, b workKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.attempt.SubTaskID, b.attempt.SubTaskID),
			cmp.Compare(a.attempt.Attempt, b.attempt.Attempt))
	})
}

// launchWork runs work on its own coroutine, then finish with its error on the loop goroutine.
func (r *run) launchWork(key workKey, work func(context.Context) error, finish func(error) error) {
	r.work[key] = r.o.cfg.Coroutines.Go(context.WithoutCancel(r.ctx), func(ctx context.Context) {
		err := errors.New("internal error: the worker ended without a result") // also after runtime.Goexit
		defer func() {
			if p := recover(); p != nil {
				r.o.cfg.Logger.Error("worker panicked",
					"work", key.kind, "sub_task", key.attempt.SubTaskID, "attempt", key.attempt.Attempt, "panic", p, "stack", string(debug.Stack()))
				err = fmt.Errorf("internal error: %v", p)
			}
			r.inbox.Put(message{from: key, finish: func() error { return finish(err) }})
		}()
		err = work(ctx)
	})
	if r.aborted != nil {
		r.work[key](r.aborted)
	}
}

// launchUntilStop is launchWork for work without an attempt. A stop aborts it without loss: a resume repeats it.
func (r *run) launchUntilStop(key workKey, work func(context.Context) error, finish func(error) error) {
	r.launchWork(key, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(r.o.stop, func() { cancel(ErrStopped) })()
		err := work(ctx)
		if err != nil && ctx.Err() != nil && !errors.Is(err, ErrDeclined) {
			err = context.Cause(ctx)
		}
		return err
	}, finish)
}

// cutShort reports whether work failed only because it was stopped. Such work is repeated on resume.
func (r *run) cutShort(err error) bool {
	return r.ended != nil || errors.Is(err, ErrStopped) && r.o.stop.Err() != nil || errors.Is(err, errSuspended)
}

// launchFor is launchWork for an attempt. events returns what follows success; usage is that of the ledger's model.
func (r *run) launchFor(
	ref boulder.AttemptRef, work func(context.Context) error, events func(*boulder.Open) []boulder.Body, usage *boulder.Usage,
) {
	ledger := r.state.Boulder.Ledger()
	r.launchWork(workOf(ref), work, func(err error) error {
		bodies := ledgerUsage(ref, boulder.UsageJudge, ledger, *usage)
		switch open := r.state.Open(ref.SubTaskID); {
		case r.attemptOver(workOf(ref)): // an order ended it: the result is ignored
			bodies = append(bodies, stopped(r.state, ref)...) // [Runner.Run] has stopped its turn
		case err != nil:
			bodies = append(bodies, r.failure(open, err)...)
		default:
			bodies = append(bodies, events(open)...)
		}
		if err := r.apply(bodies...); err != nil {
			return fmt.Errorf("a worker's result: %w", err)
		}
		return nil
	})
}

// startTurn runs the newest turn of an attempt, if it has a slot. What holds it up is work and slots of this process, which no
// record has: so it is decided here, and not in package schedule.
func (r *run) startTurn(o *boulder.Open) {
	ref := o.Attempt.AttemptRef
	if slices.ContainsFunc(r.underWay(), r.attemptOver) {
		return // an attempt that an order ended holds its slot until its work has ended
	}
	if r.busy(integrateWork) && slices.Contains(r.integratesSlots, o.SubTask.Slot) {
		return // the loop learns of a conflict before the files of both sides are in the slot
	}
	if _, has := r.slots[ref]; !has {
		return // other boulders hold all slots; their next change wakes this run
	}
	job := boulder.Job{
		BoulderID: r.state.Boulder.ID, Project: r.state.Boulder.Project,
		SubTask: *o.SubTask, Attempt: *o.Attempt, Turn: *o.Turn,
		Recovered: r.interrupted[ref] || o.Attempt.Troubles > 0,
		Alone:     func() bool { shared, _ := r.shared.Load(ref.SubTaskID); return shared == false },
		Raised: func(context.Context) ([]boulder.Blocker, error) {
			raised, _ := r.raised.Load(ref.SubTaskID)
			all, _ := raised.([]boulder.Blocker)
			return all, nil
		},
		Trunk:    r.state.Boulder.Trunk,
		PerTurn:  r.state.Boulder.Loop != nil || len(o.Turn.Aside) > 0, // no fresh session can take over
		Diverted: r.state.Boulder.Diverted, Checks: r.state.Boulder.Checks,
	}
	since := news(r.state, o.SubTask, o.Turn.Seq)
	if job.Recovered || o.Turn.MessageID != "" {
		job.Resume = prompts.Resume(prompts.ResumeInput{
			Boulder: r.state.Boulder, SubTask: *o.SubTask, News: since,
			Completed: r.state.Boulder.Tally.Completed, Total: len(r.state.SubTasks),
		})
	}
	// The stored prompt may be old, and what was added to it before a crash is lost.
	job.Turn.Prompt += since.Addition()
	job.Turn.ToldUpTo = r.state.Boulder.Seq
	if b := o.SubTask.Budget; b != nil && b.Time > 0 {
		job.TimeLeft = max(time.Duration(b.Time)-o.SubTask.Worked, time.Nanosecond)
	}
	if o.Turn.Kind == boulder.TurnBrief && o.Turn.MessageID == "" {
		job.Files = r.brief(o).Files // after a fault or a crash there may be more of them than the stored brief names
	}
	var evidence boulder.Evidence
	r.launchFor(ref, func(ctx context.Context) (err error) {
		evidence, err = r.o.cfg.Runner.Run(ctx, job, r.reporter(ctx, workOf(ref)))
		return err
	}, func(o *boulder.Open) []boulder.Body {
		if err := missingGate(o.SubTask, &evidence); err != nil { // not of the job: its baseline may have said what is no gate
			r.end(err)
			return nil
		}
		bodies := []boulder.Body{schedule.TurnEnded(r.state, o, job.Turn.Number, evidence, r.now)}
		for _, g := range evidence.Gates {
			bodies = append(bodies, boulder.NewGateRun(o.SubTask, ref.Attempt, g))
		}
		if evidence.Usage != (boulder.Usage{}) || o.Attempt.Running() != (boulder.Usage{}) {
			bodies = append(bodies, boulder.UsageReport{
				SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Source: boulder.UsageAttempt, Model: o.Attempt.Model,
				Usage: evidence.Usage,
			})
		}
		return bodies
	}, &boulder.Usage{})
}

func (r *run) startJudge(o *boulder.Open) {
	ref := o.Attempt.AttemptRef
	req := judgeRequest(r.state, o)
	var verdict boulder.Verdict
	var usage boulder.Usage
	r.launchFor(ref, func(ctx context.Context) (err error) {
		verdict, usage, err = r.o.cfg.Judge.Judge(ctx, req)
		return err
	}, func(o *boulder.Open) []boulder.Body {
		return []boulder.Body{schedule.Judged(r.state, o, req.Turn.Number, verdict, r.now)}
	}, &usage)
}

// judgeRequest returns what the judge is told about an ended turn, from stored records only.
func judgeRequest(s *boulder.State, o *boulder.Open) boulder.JudgeRequest {
	req := boulder.JudgeRequest{
		Model: s.Boulder.Ledger(), Goal: s.Boulder.Goal, Constraints: s.Revision.Plan.Constraints,
		SubTask: *o.SubTask, Attempt: *o.Attempt, Turn: *o.Turn,
		Notes: notesAndAnswers(s, o.SubTask), Questions: s.Questions(o.SubTask), Scope: s.Boulder.Scope, RulesFirst: schedule.RulesFirst(s, o),
	}
	if s.Boulder.Tally.Planned == 1 {
		req.Whole = s.Boulder.Task
	}
	for _, t := range s.SubTasks {
		if t != o.SubTask && t.Unfinished() && len(req.Rest) < maxListed {
			req.Rest = append(req.Rest, t.Subject)
		}
	}
	return req
}

// reporter returns the function with which a worker reports. It blocks until the report is stored or refused.
func (r *run) reporter(ctx context.Context, from workKey) func(boulder.Body) error {
	return func(b boulder.Body) error {
		reply := r.o.cfg.Coroutines.NewInbox()
		if !r.inbox.Put(message{from: from, report: b, ack: reply}) {
			return errRunOver // the work has ended, and should not report
		}
		answer, _ := reply.Take(context.WithoutCancel(ctx), Forever)
		err, _ := answer.(error)
		if errors.Is(err, errRunOver) {
			err = errors.Join(err, context.Cause(ctx))
		}
		return err
	}
}

func (r *run) release(key workKey) {
	r.work[key](nil)
	delete(r.work, key)
}

func (r *run) receive(m message) error {
	if m.finish != nil {
		r.release(m.from)
		return m.finish()
	}
	bodies := []boulder.Body{m.report}
	if done, ok := m.report.(boulder.Integrated); ok {
		bodies = done.Events()
	}
	refused := r.admissible(m)
	before := r.state.Boulder.Seq
	if refused == nil {
		refused = r.apply(bodies...)
	}
	if refused == nil {
		r.acks = append(r.acks, m.ack)
	} else {
		m.ack.Put(refused)
		if r.state.Boulder.Seq != before {
			return fmt.Errorf("a report was taken by half: %w", refused) // nothing of it is on disk
		}
	}
	return nil // if it was refused, the error concerns the worker only
}

// admissible refuses reports outside the contract of [Runner], such as decisions and reports for another attempt.
func (r *run) admissible(m message) error {
	may := false
	switch b := m.report.(type) {
	case boulder.SubTaskStart, boulder.TurnSent, boulder.EffortMissing, boulder.Nudged, boulder.SubTaskProgress, boulder.BlockerRaised, boulder.WaitEnded:
		if ref := boulder.AttemptOf(b); workOf(ref) != m.from || !r.busy(m.from) {
			return fmt.Errorf("attempt %d of %q reports for attempt %d of %q, or after its end: %w",
				m.from.attempt.Attempt, m.from.attempt.SubTaskID, ref.Attempt, ref.SubTaskID, boulder.ErrRefused)
		}
		may = true
	case boulder.LookSession:
		may = m.from == planWork
	case boulder.Isolated:
		may = m.from == tryWork
	case boulder.Integrated, boulder.Conflict:
		may = m.from == integrateWork && r.integrates == r.state.Boulder.Trunk.Integrating // else an order has stopped it
	case boulder.GateRun: // gate runs of a turn belong to its evidence
		may = m.from == verifyWork && b.Final || m.from == integrateWork && b.Tree != ""
	}
	if !may {
		return fmt.Errorf("a runner cannot report a %T there, see orchestrator.Runner: %w", m.report, boulder.ErrRefused)
	}
	return nil
}

// ledgerUsage returns the usage event of a call of the ledger's model, or none if it used nothing.
func ledgerUsage(ref boulder.AttemptRef, source, model string, used boulder.Usage) []boulder.Body {
	if used == (boulder.Usage{}) {
		return nil
	}
	return []boulder.Body{boulder.UsageReport{
		SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Source: source, Model: model, Usage: used,
	}}
}

// failure returns what follows from a worker's error; nothing if the run is ending: a resume continues the attempt.
func (r *run) failure(o *boulder.Open, err error) []boulder.Body {
	park, parking := errors.AsType[*parkError](err)
	switch {
	case r.ended != nil:
		return nil
	case parking:
		return []boulder.Body{park.Parked}
	case errors.Is(err, errSuspended):
		r.interrupted[o.Attempt.AttemptRef] = true
		return []boulder.Body{boulder.Trouble{
			AttemptRef: o.Attempt.AttemptRef, Kind: boulder.TroublePaused, Reason: pausedByUser, NotBefore: r.now, Uncounted: true,
		}}
	case errors.Is(err, boulder.ErrFatal):
		out := schedule.Outage(r.state, r.o.limits, r.now, o, err)
		if out != nil {
			return out
		}
		refused := schedule.Refused(r.state, r.o.limits, r.now, r.state.ModelFor(o), err)
		if o.Attempt.Status == boulder.AttemptMonitoring {
			err = fmt.Errorf("%w: %w", ErrWaiting, err) // only the user can choose another judge, or give it a key
		}
		r.end(err)
		return refused
	}
	return schedule.Failed(r.state, r.o.limits, r.now, o, err)
}
