package simulate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// place is where in a boulder something happens. The outcome of a turn depends on it alone, not on time or on the
// number of the attempt, which a lost session raises.
type place struct {
	subTask                string
	tries, turn, conflicts int
}

func placeOf(t boulder.SubTask, turn boulder.Turn) place {
	return place{t.ID, t.Tries, turn.Number, len(t.Conflicts)}
}

// fault hits a turn or a judgement once.
type fault struct {
	err   error // nil: the session is lost
	cut   bool  // it also cuts off the turn
	early bool  // it comes before the session is opened
}

// turnFaults returns the faults of a turn, in order.
func (sc *scenario) turnFaults(at place) []fault {
	d := throw(sc.seed, "faults", at)
	var all []fault
	if d.is(sc.trouble / 4) { // first, because a mild world may skip those that follow
		all = append(all, fault{})
	}
	most := len(all) + 5
	if sc.class.same() {
		// Otherwise it would depend on crashes, which erase earlier faults, whether the sub-task is parked.
		most = len(all) + sc.limits.Troubles - 1
	}
	for len(all) < most && d.is(sc.trouble) {
		f := fault{err: drawTrouble(d, "the turn met trouble"), cut: d.is(0.25)}
		f.early = !f.cut && d.is(0.3)
		if f.cut || f.early {
			f.err = fmt.Errorf("%w: the server is gone", boulder.ErrTrouble)
		}
		all = append(all, f)
	}
	return sc.fatal(d, all)
}

func (sc *scenario) judgeFaults(at place) []fault {
	d := throw(sc.seed, "judge faults", at)
	var all []fault
	most := 5
	if sc.class == parallel {
		most = sc.limits.Troubles - 1 // otherwise the run ends, and cuts off the others
	}
	for len(all) < most && d.is(sc.trouble) {
		all = append(all, fault{err: drawTrouble(d, "the judge met trouble")})
	}
	return sc.fatal(d, all)
}

// fatal sometimes adds a fault that ends the run.
func (sc *scenario) fatal(d dice, all []fault) []fault {
	if sc.class != parallel && d.is(sc.trouble/8) {
		all = append(all, fault{err: fmt.Errorf("%w: the key is wrong", boulder.ErrFatal)})
	}
	return all
}

func drawTrouble(d dice, text string) error {
	if d.is(0.2) {
		return fmt.Errorf("%w: %s", boulder.ErrTrouble, text)
	}
	t := &boulder.TroubleError{
		Kind: pick(d, boulder.TroubleServer, boulder.TroubleNetwork, boulder.TroubleRateLimit, boulder.TroubleRateLimit,
			boulder.TroubleOverloaded, boulder.TroubleJudge),
		Err: errors.New(text),
	}
	if d.is(0.5) {
		t.RetryAfter = d.span(time.Second, time.Hour).Truncate(time.Millisecond) + 560_029
	}
	if d.is(0.2) {
		t.Model = pick(d, models[1:]...)
	}
	return t
}

// outage is a time in which a model refuses.
type outage struct {
	model       string
	kind        error         // without a known end; nil: a limit
	from, until time.Duration // since the beginning of the world
	says        time.Duration // that the limit holds; -1: the truth
}

var outageKinds = []error{nil, nil, nil, boulder.ErrNoCredit, boulder.ErrKey, boulder.ErrUnknownModel, errOverloaded}

var errOverloaded = errors.New("overloaded")

// refused is in the texts of all refusals by a model that is out.
const refused = "the model is out"

// refusal returns how a model refuses at a time since the beginning of the world, or nil.
func (sc *scenario) refusal(model string, at time.Duration) error {
	for _, o := range sc.outages {
		if o.model != model || at < o.from || at >= o.until {
			continue
		}
		said := errors.New(refused)
		limited := &boulder.TroubleError{Kind: boulder.TroubleRateLimit, RetryAfter: o.says, Err: said}
		if o.says < 0 {
			limited.RetryAfter = o.until - at
		}
		switch o.kind {
		case nil:
			return limited
		case errOverloaded: //nolint:errorlint // that very one
			return &boulder.TroubleError{Kind: boulder.TroubleOverloaded, Err: said}
		}
		return fmt.Errorf("%w: %w", o.kind, said)
	}
	return nil
}

// work is what an agent does in an undisturbed turn.
type work struct {
	takes    time.Duration
	broken   error // permanent error of the runner
	evidence boulder.Evidence
}

func (sc *scenario) workOf(t boulder.SubTask, at place) work {
	d := throw(sc.seed, "work", at)
	w := work{takes: d.span(time.Second, 20*time.Minute)}
	if d.is(sc.brittle) {
		w.broken = errors.New("the diff could not be taken")
	}
	e := boulder.Evidence{
		Ended: boulder.Ended{Finish: "stop"}, FinalMessage: fmt.Sprintf("did %v", at), ToolCount: d.IntN(7),
		Diff: boulder.Diff{Hash: fmt.Sprintf("diff %d of %s", d.IntN(3), at.subTask)},
		Usage: boulder.Usage{
			Input: int64(d.from(100, 2_000)), Output: int64(d.from(10, 500)), Calls: int64(d.from(1, 9)),
			Cost: float64(d.IntN(64)) / 64,
		},
	}
	if d.is(0.03) {
		e.Usage.Unpriced, e.Usage.Cost = 1, 0
	}
	switch x := d.Float64(); {
	case x < 0.05:
		e.Ended = boulder.Ended{Finish: "length", Truncated: "it was cut at the output limit"}
	case x < 0.08:
		e.Ended = boulder.Ended{Error: "APIError", Message: "bad request"}
	case x < 0.12:
		rule := pick(d, boulder.RuleRepeat, boulder.RuleErrors, boulder.RuleSilence, boulder.RuleWallClock)
		e.Ended = boulder.Ended{Stopped: "stopped for " + string(rule), Rule: rule}
		if rule == boulder.RuleWallClock {
			w.takes = 30 * time.Minute
		}
	}
	e.Marked = throw(sc.seed, "marked", at).is(0.3)
	for _, command := range t.Gates {
		g := boulder.Gate{Command: command, Duration: time.Second}
		if d.is(0.2) {
			g.ExitCode, g.Output = 1, "red"
		}
		e.Gates = append(e.Gates, g)
	}
	w.evidence = e
	return w
}

// verdict returns a normalised verdict: a turn with a red gate or a truncated one is never complete.
func (sc *scenario) verdict(req boulder.JudgeRequest) (boulder.Verdict, error) {
	at := placeOf(req.SubTask, req.Turn)
	d := throw(sc.seed, "verdict", at)
	evidence := req.Turn.Evidence
	if d.is(0.02) {
		return boulder.Verdict{}, errors.New("the judge failed for good")
	}
	v := boulder.Verdict{Summary: fmt.Sprintf("judged %v", at), IsProgress: d.is(0.7), Remaining: []string{"the rest"}}
	v.ContinuationPrompt = pick(d, "go on", fmt.Sprintf("go on with %v", at))
	if d.is(0.1) {
		v.NewFacts = []string{fmt.Sprintf("a fact from %v", at)}
	}
	whole := len(evidence.Red()) == 0 && evidence.Ended.Truncated == ""
	switch {
	case d.is(0.06):
		v.JudgeUnavailable, v.IsProgress = true, false
		v.Completed = whole && len(evidence.Gates) > 0
	case d.is(sc.good):
		v.Completed = whole
	case d.is(0.25):
		v.IsStuck, v.StuckReason = true, "stuck"
	case d.is(0.1):
		v.IsInLoop = true
	case d.is(0.2):
		v.ReplanReason = "it cannot be done like that"
		if v.NeedReplan = d.is(0.5); !v.NeedReplan {
			v.BlockedBy = "wrong_plan"
		}
	}
	if text := fmt.Sprintf("the user is needed at %v", at); !v.Completed && throw(sc.seed, "needs the user", at).is(sc.asks) &&
		!slices.ContainsFunc(req.SubTask.Blockers, func(b boulder.Blocker) bool { return b.Question == text && b.Status.Settled() }) {
		v.BlockedBy, v.StuckReason = "external", text
	}
	if v.Completed {
		v.Remaining, v.ContinuationPrompt, v.OutputData = nil, "", fmt.Sprintf("output of %v", at)
		v.NeedReplan = d.is(0.1)
		// A replan is made beside the work: where the end must be the same, its order among verdicts may not count.
		v.GoalAchieved = (sc.class == anything || sc.class == serial && sc.limits.Replans == 0) && d.is(0.05)
	}
	return v, nil
}

// checkOf is where in a boulder the request is checked.
func checkOf(req boulder.CheckRequest) place {
	at := place{subTask: "the request", turn: len(req.SubTasks)}
	if req.Extended {
		at.tries = 1
	}
	return at
}

// requestCheck says whether the request is met.
func (sc *scenario) requestCheck(req boulder.CheckRequest) boulder.RequestCheck {
	at := checkOf(req)
	d := throw(sc.seed, "request check", at)
	switch x := d.Float64(); {
	case x < 0.1:
		return boulder.RequestCheck{Unchecked: "no usable answer"}
	case x < 0.4:
		return boulder.RequestCheck{
			Rows:    []boulder.RequestRow{{Request: "this", Evidence: "a file", Met: true}, {Request: "that"}},
			Missing: []string{fmt.Sprintf("that, at %v", at)},
		}
	}
	return boulder.RequestCheck{Rows: []boulder.RequestRow{{Request: "this", Evidence: "a file", Met: true}}, Answer: "it is there"}
}

// prepared returns what is known before the plan, and in a world with a look what that has to find out.
func (sc *scenario) prepared(req boulder.PlanRequest) boulder.Prepared {
	known := sc.plan.Clone()
	known.Task, known.SubTasks = req.Task, known.SubTasks[:1]
	p := boulder.Prepared{Known: &known}
	if sc.looks {
		p.Find = []string{"where is it?"}
	}
	return p
}

// looksFirst reports whether a look comes before a replan.
func (sc *scenario) looksFirst(req boulder.ReplanRequest) bool {
	return sc.looks && req.Look != boulder.LookNever && throw(sc.seed, "looks first", req.Failed.ID, req.Failed.Tries).is(0.7)
}

// looked returns the end of a look.
func (sc *scenario) looked(tag string) boulder.Looked {
	if throw(sc.seed, "looked", tag).is(0.2) {
		return boulder.Looked{Void: "files changed"}
	}
	return boulder.Looked{Findings: []boulder.Finding{{ID: "f1", Statement: "it is here", File: "main.go", Line: 1, Sure: boulder.Certain}}}
}
