package schedule

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const ledgerModel = "q/ledger"

// odds are how often, of 100 times, something happens in a world.
type odds struct {
	done, progress, stuck, loop, wrongPlan, needReplan, goal, noJudge int // of a judgement
	trouble, limited, lost, broken, stopped, errored, idle, red       int // of a turn
	ledgerLimited, newPlan, crash, resume                             int
	asks, answered                                                    int // a turn raises a blocker; a person is quick
}

// world is a scripted run without sessions, goroutines or a clock of its own: what Compute asks for takes a random time
// and ends in a random way. It applies decisions as the orchestrator does: all of one answer, one after the other.
// After every event it checks what must hold at every moment.
type world struct {
	t       *rapid.T
	rng     *rand.Rand
	odds    odds
	state   *boulder.State
	limits  Limits
	now     time.Time
	due     map[boulder.AttemptRef]job
	turns   map[boulder.AttemptRef]int
	seen    map[string]int // kinds of actions and ends, so that the property can tell what it has seen
	ended   string         // why the run ended although the boulder did not
	resumes int
	fresh   bool           // a person has just taken the run up again
	own     map[string]int // attempts that the budget of a sub-task allowed before a person changed it
	asked   int            // blockers
}

type job struct {
	at     time.Time
	kind   string // run | judge | replan
	signs  int    // of life, that are still to come
	parked string // why it was told to stop
}

// replanRef is under what a replan is at work.
var replanRef = boulder.AttemptRef{}

// drawLimits draws small limits, so that they bind.
func drawLimits(rng *rand.Rand) Limits {
	small := func() int { return 1 + rng.IntN(4) }
	l := Limits{
		Global: 1 + rng.IntN(6), Models: []ModelLimit{{"p/o*", small()}}, PerModel: small(),
		Attempts: small(), Evaluations: small(), Troubles: rng.IntN(4), Backoff: time.Second,
		Stalls: small(), Replans: rng.IntN(4), IdleTurns: small(),
		Cooldowns: rng.IntN(4), CoolBase: time.Second, CoolMax: 10 * time.Second, Warn: float64(rng.IntN(6)) / 5,
	}
	if rng.IntN(2) == 0 {
		l.Providers = map[string]int{"p": small()}
	}
	return l
}

func drawPlan(rng *rand.Rand, n int) boulder.Plan {
	specs := make([]boulder.Spec, n)
	for i := range specs {
		s := &specs[i]
		s.ID = fmt.Sprintf("t%02d", i)
		s.Priority = oneOf(rng, "", boulder.High, boulder.Low)
		s.Model = oneOf(rng, "", "p/one", "p/two", "q/three")
		if rng.IntN(20) == 0 {
			s.Gates = []string{"make"}
		}
		if rng.IntN(10) == 0 {
			s.Budget = drawBudget(rng, 10)
		}
		for j := range i {
			if rng.IntN(i+1) < 2 {
				s.DependsOn = append(s.DependsOn, specs[j].ID)
			}
		}
	}
	rng.Shuffle(n, func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
	return boulder.Plan{SubTasks: specs}
}

func oneOf[T any](rng *rand.Rand, all ...T) T { return all[rng.IntN(len(all))] }

// drawBudget draws one limit of about as many turns.
func drawBudget(rng *rand.Rand, most int) *boulder.Budget {
	n := 1 + rng.IntN(most)
	return oneOf(rng,
		&boulder.Budget{Tokens: int64(n) * 100}, &boulder.Budget{Calls: int64(n) * 2}, &boulder.Budget{Cost: float64(n) / 8},
		&boulder.Budget{Attempts: n}, &boulder.Budget{Time: boulder.Duration(time.Duration(n) * 3 * time.Second)})
}

// begun is a running boulder with this plan.
func begun(tb rapid.TB, plan boulder.Plan) *boulder.State {
	s := boulder.NewState()
	rev := boulder.PlanRevision{Number: 1, Plan: plan}
	for _, b := range []boulder.Body{
		boulder.Created{Boulder: boulder.Boulder{ID: "b1", LedgerModel: ledgerModel}}, boulder.Planned{Plan: rev},
		boulder.Decomposed{Plan: rev, GatesApproved: true},
	} {
		if _, err := s.Apply(boulder.Event{Time: epoch, BoulderID: "b1", Body: b}); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

// newWorld draws a world. What rapid draws by itself is nearly always small, and a world of one sub-task in which
// nothing goes wrong shows nothing; so all of it comes from a seed.
func newWorld(t *rapid.T, rng *rand.Rand, seen map[string]int) *world {
	chance := func(most int) int { // in every other world this never happens
		return rng.IntN(2) * rng.IntN(most+1)
	}
	w := &world{
		t: t, rng: rng,
		odds: odds{
			done: rng.IntN(101), progress: rng.IntN(101), stuck: chance(30), loop: chance(30), wrongPlan: chance(10),
			needReplan: chance(40), goal: chance(30), noJudge: chance(20),
			trouble: chance(40), limited: oneOf(rng, 0, 0, 5, 20, 100), lost: chance(30), broken: chance(30),
			stopped: chance(20), errored: chance(20), idle: chance(60), red: chance(60),
			ledgerLimited: oneOf(rng, 0, 0, 0, 5, 20, 100),
			newPlan:       30 + rng.IntN(71), crash: chance(5), resume: rng.IntN(101),
			asks: chance(30), answered: rng.IntN(101),
		},
		state: begun(t, drawPlan(rng, 1+rng.IntN(oneOf(rng, 3, 12, 40)))), limits: drawLimits(rng), now: epoch,
		due: map[boulder.AttemptRef]job{}, turns: map[boulder.AttemptRef]int{}, seen: seen, own: map[string]int{},
	}
	if rng.IntN(2) == 0 {
		w.apply(boulder.BudgetSet{Budget: *drawBudget(rng, 100)})
	}
	return w
}

func (w *world) happens(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) after(most time.Duration) time.Time {
	return w.now.Add(time.Duration(w.rng.Int64N(int64(most/time.Millisecond))) * time.Millisecond)
}

// apply feeds an event and checks the state.
func (w *world) apply(b boulder.Body) {
	w.checkAllowed(b)
	if _, err := w.state.Apply(boulder.Event{Time: w.now, BoulderID: "b1", Body: b}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.state.Check(); err != nil {
		w.t.Fatalf("after %s: %v", boulder.TypeOf(b), err)
	}
	w.checkLimits()
}

// compute asks twice, and fails if the answers differ or, now and then, if the state changed.
func (w *world) compute() []Action {
	var before string
	look := w.happens(10) // it is most of what a step costs
	if look {
		before = snapshot(w.t, w.state)
	}
	first, second := Compute(w.state, w.limits, w.now), Compute(w.state, w.limits, w.now)
	if d := cmp.Diff(kindsOf(first), kindsOf(second)); d != "" {
		w.t.Fatalf("two answers for one state:\n%s", d)
	}
	if len(first) == 0 {
		w.t.Fatalf("nothing to do, and no end: %s", snapshot(w.t, w.state))
	}
	if look {
		if d := cmp.Diff(before, snapshot(w.t, w.state)); d != "" {
			w.t.Fatalf("Compute changed the state:\n%s", d)
		}
	}
	return first
}

func snapshot(t *rapid.T, s *boulder.State) string {
	b, err := json.Marshal([]any{s.Snapshot(), len(s.Live()), len(s.Queues())})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// decide turns decisions into events until there are none left, and returns the wake-up call. Work is started then, as
// the orchestrator does after it has stored the decisions.
func (w *world) decide() (wake time.Time) {
	for {
		decided := false
		actions := w.compute()
		for _, action := range actions {
			w.seen[kindOf(action)]++
			bodies := w.decision(action)
			for _, b := range bodies {
				w.apply(b)
			}
			decided = decided || len(bodies) > 0
			switch a := action.(type) {
			case Finish:
				return time.Time{}
			case Stop:
				w.checkStop(a)
				w.ended = a.Reason
				return time.Time{}
			case Wake:
				wake = a.At
			}
		}
		if !decided {
			w.launch(actions)
			w.checkFull()
			return wake
		}
		wake = time.Time{}
	}
}

// decision is what a decision becomes; nothing for work.
func (w *world) decision(action Action) []boulder.Body {
	switch a := action.(type) {
	case Start:
		w.checkOrder(a.Open)
	case Complete:
		return w.complete(a)
	case Park:
		ref := a.Open.Attempt.AttemptRef
		if j, busy := w.due[ref]; busy {
			j.parked = a.Reason // its end parks it
			w.due[ref] = j
			return nil
		}
		return w.park(a.Open, a.Reason)
	case Replan:
		return []boulder.Body{boulder.ReplanStarted{
			AttemptRef: a.Ref, Number: w.state.Boulder.Replans + 1, Reason: a.Reason, Replaces: a.Replaces,
		}}
	case RefuseReplan:
		return w.refuse()
	}
	if b := event(action); b != nil {
		return []boulder.Body{b}
	}
	return nil
}

// event is what a decision about one attempt, or about the run, becomes.
func event(action Action) boulder.Body {
	switch a := action.(type) {
	case Start:
		return boulder.Starting{AttemptRef: a.Open.Attempt.AttemptRef}
	case Complete:
		return boulder.SubTaskDone{
			AttemptRef: a.Open.Attempt.AttemptRef, Completed: true,
			Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted,
		}
	case Continue:
		return boulder.Continuation{
			AttemptRef: a.Open.Attempt.AttemptRef, Turn: a.Open.Turn.Number + 1, Prompt: "go on", Reason: a.Reason,
			Track: a.Track, NotBefore: a.NotBefore,
		}
	case Retry:
		return boulder.Retry{
			AttemptRef: a.Open.Attempt.AttemptRef, Status: a.Status, Uncounted: a.Uncounted,
			Next: a.Open.Attempt.Attempt + 1, Reason: a.Reason, Track: a.Track,
		}
	case Fail:
		return boulder.SubTaskDone{
			AttemptRef: a.Open.Attempt.AttemptRef, Summary: a.Reason,
			Status: boulder.SubTaskFailed, AttemptStatus: a.Status,
		}
	case Warn:
		return a.Warning
	case Finish:
		return boulder.StatusChanged{Status: boulder.Synthesizing, Reason: string(a.Status)}
	}
	return nil
}

func (w *world) complete(a Complete) []boulder.Body {
	bodies := []boulder.Body{event(a)}
	if len(a.Skip) > 0 {
		w.seen["skip"]++
		if !a.Open.Turn.Verdict.GoalAchieved || len(w.state.Live()) > 1 {
			w.t.Fatalf("%d sub-tasks are skipped", len(a.Skip))
		}
	}
	for _, t := range a.Skip {
		if len(t.Gates) > 0 || t.Status != boulder.SubTaskPending {
			w.t.Fatalf("%s is %s, with gates %v, and is skipped", t.ID, t.Status, t.Gates)
		}
		bodies = append(bodies, boulder.SubTaskDone{
			AttemptRef: boulder.AttemptRef{SubTaskID: t.ID},
			Status:     boulder.SubTaskSkipped, AttemptStatus: boulder.AttemptCancelled,
		})
	}
	return bodies
}

// park books what the turn was seen to use, and parks its sub-task.
func (w *world) park(o *boulder.Open, reason string) []boulder.Body {
	return append(w.brokenOff(o), boulder.Parked{AttemptRef: o.Attempt.AttemptRef, Reason: reason})
}

func (w *world) brokenOff(o *boulder.Open) []boulder.Body {
	if o.Running() == (boulder.Usage{}) {
		return nil
	}
	return []boulder.Body{w.usage(o, boulder.UsageAttempt, o.Running())}
}

func (w *world) usage(o *boulder.Open, source string, u boulder.Usage) boulder.Body {
	ref := o.Attempt.AttemptRef
	return boulder.UsageReport{SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Source: source, Usage: u}
}

// refuse ends a replan without a new plan.
func (w *world) refuse() []boulder.Body {
	w.seen["replan refused"]++
	ref := w.state.Boulder.Replan.AttemptRef
	bodies := []boulder.Body{boulder.ReplanRefused{AttemptRef: ref}}
	if ref.Attempt == 0 {
		return bodies
	}
	return append(bodies, boulder.SubTaskDone{
		AttemptRef: ref, Status: boulder.SubTaskFailed, AttemptStatus: boulder.AttemptFailed,
	})
}

// launch starts work that is not under way.
func (w *world) launch(actions []Action) {
	for _, action := range actions {
		switch a := action.(type) {
		case Run:
			w.start(a.Open.Attempt.AttemptRef, "run", a.Open)
		case Judge:
			w.start(a.Open.Attempt.AttemptRef, "judge", a.Open)
		case AskReplan:
			w.start(replanRef, "replan", nil)
		}
	}
}

func (w *world) start(ref boulder.AttemptRef, kind string, o *boulder.Open) {
	if _, busy := w.due[ref]; busy {
		return
	}
	w.checkLaunch(kind, o)
	w.due[ref] = job{at: w.after(5 * time.Second), kind: kind, signs: w.rng.IntN(3)}
}

// step lets time pass to whatever comes first, and lets that happen.
func (w *world) step(wake time.Time) {
	var next boulder.AttemptRef
	at, found := wake, false
	for _, ref := range slices.SortedFunc(maps.Keys(w.due), byRef) {
		if j := w.due[ref]; at.IsZero() || j.at.Before(at) {
			at, next, found = j.at, ref, true
		}
	}
	if at.IsZero() {
		w.t.Fatalf("nothing is under way, nothing will wake up, and the boulder is %s", w.state.Boulder.Status)
	}
	w.now = at
	switch {
	case w.happens(w.odds.crash):
		w.seen["crash"]++
		w.restore()
	case found:
		w.finish(next)
	}
}

func byRef(a, b boulder.AttemptRef) int {
	switch {
	case a.SubTaskID < b.SubTaskID:
		return -1
	case a.SubTaskID > b.SubTaskID:
		return 1
	}
	return a.Attempt - b.Attempt
}

// restore is what a crash and the resume after it do: work is lost, records are not.
func (w *world) restore() {
	b, err := json.Marshal(w.state.Snapshot())
	if err != nil {
		w.t.Fatal(err)
	}
	var stored boulder.Snapshot
	if err := json.Unmarshal(b, &stored); err != nil {
		w.t.Fatal(err)
	}
	if w.state, err = boulder.Restore(stored); err != nil {
		w.t.Fatal(err)
	}
	clear(w.due)
	w.now = w.after(time.Hour)
	w.apply(boulder.TakenUp{})
	w.unpark()
}

func (w *world) unpark() {
	for _, t := range w.state.SubTasks {
		if t.Parked && Affordable(w.state, t) && len(t.AwaitedBy(t.Attempts)) == 0 {
			w.apply(boulder.Unparked{SubTaskID: t.ID})
		}
	}
}

// resumed reports whether a person takes the run up again, with other budgets.
func (w *world) resumed() bool {
	if w.resumes == 3 || !w.happens(w.odds.resume) {
		return false
	}
	w.resumes++
	w.ended, w.fresh = "", true
	w.apply(boulder.StatusChanged{Status: boulder.Paused})
	w.restore()
	w.apply(boulder.StatusChanged{Status: boulder.Running})
	if w.state.Boulder.Budget != nil {
		w.apply(boulder.BudgetSet{})
	}
	for _, t := range w.state.SubTasks {
		if t.Parked {
			w.own[t.ID] = w.attempts(t)
			w.apply(boulder.BudgetSet{SubTaskID: t.ID})
		}
	}
	for _, t := range w.state.SubTasks {
		w.answer(t)
	}
	w.unpark()
	return true
}

// enough is a number of steps that no run comes near to. Worlds in which nothing but rate limits and overloads come
// back must be ended by the scheduler; the others end by themselves.
const enough = 50_000

// live runs a world to its end.
func (w *world) live() {
	for steps := 0; ; steps++ {
		wake := w.decide()
		if w.state.Boulder.Status != boulder.Running || w.ended != "" && !w.resumed() {
			break
		}
		if steps > enough {
			w.t.Fatalf("no end after %d steps", steps)
		}
		if !wake.IsZero() || len(w.due) > 0 || !w.fresh {
			w.step(wake)
		}
		w.fresh = false
	}
	w.checkEnd()
}

// TestEveryRunEnds drives random plans through random worlds to their end. What is checked on the way is in world and
// in its rules.
func TestEveryRunEnds(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 10 {
			newWorld(t, rng, seen).live()
		}
	})
	// A property that never saw something says nothing about it.
	for _, kind := range []string{
		"start", "complete", "continue", "retry failed", "retry timeout", "replan", "park", "warn", "fail failed", "run",
		"judge", "askreplan", "refusereplan", "finish", "stop", "wake", "stop for a person",
		"skip", "crash", "replan refused", "new plan", "after completion", "cool-down", "retry uncounted cancelled",
		"hard blocker", "soft blocker", "answered at work", "answered while parked",
	} {
		if seen[kind] == 0 {
			t.Errorf("no world ever saw %q", kind)
		}
	}
}
