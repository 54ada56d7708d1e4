package schedule

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// odds are how often, of 100 times, something happens in a world.
type odds struct{ done, trouble, lost, broken, stuck, loop, stopped, errored int }

// world is a scripted run without sessions, goroutines or a clock of its own: what Compute asks for takes a random time
// and ends in a random way. After every event it checks what must hold at every moment.
type world struct {
	t      *rapid.T
	rng    *rand.Rand
	odds   odds
	state  *boulder.State
	limits Limits
	now    time.Time
	due    map[boulder.AttemptRef]job
	turns  map[boulder.AttemptRef]int
	seen   map[string]int // kinds of actions, so that the property can tell what it has seen
}

type job struct {
	at    time.Time
	judge bool
}

// drawLimits draws small limits, so that they bind.
func drawLimits(t *rapid.T) Limits {
	small := func(name string) int { return rapid.IntRange(1, 4).Draw(t, name) }
	l := Limits{
		Global: rapid.IntRange(1, 6).Draw(t, "global"), Models: []ModelLimit{{"p/o*", small("p/o*")}},
		PerModel: small("per model"), Attempts: small("attempts"), Evaluations: small("evaluations"),
		Troubles: rapid.IntRange(0, 3).Draw(t, "troubles"), Backoff: time.Second,
	}
	if rapid.Bool().Draw(t, "limit p") {
		l.Providers = map[string]int{"p": small("p")}
	}
	return l
}

func drawPlan(t *rapid.T, most int) boulder.Plan {
	n := rapid.IntRange(1, most).Draw(t, "sub-tasks")
	specs := make([]boulder.Spec, n)
	for i := range specs {
		specs[i].ID = fmt.Sprintf("t%02d", i)
		specs[i].Priority = rapid.SampledFrom([]boulder.Priority{"", boulder.High, boulder.Low}).Draw(t, "priority")
		specs[i].Model = rapid.SampledFrom([]string{"", "p/one", "p/two", "q/three"}).Draw(t, "model")
		for j := range i {
			if rapid.IntRange(0, i).Draw(t, "edge") < 2 {
				specs[i].DependsOn = append(specs[i].DependsOn, specs[j].ID)
			}
		}
	}
	return boulder.Plan{SubTasks: rapid.Permutation(specs).Draw(t, "order")}
}

// begun is a running boulder with this plan.
func begun(tb rapid.TB, plan boulder.Plan) *boulder.State {
	s := boulder.NewState()
	rev := boulder.PlanRevision{Number: 1, Plan: plan}
	for _, b := range []boulder.Body{
		boulder.Created{Boulder: boulder.Boulder{ID: "b1"}}, boulder.Planned{Plan: rev}, boulder.Decomposed{Plan: rev},
	} {
		if _, err := s.Apply(boulder.Event{Time: epoch, BoulderID: "b1", Body: b}); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

func newWorld(t *rapid.T, seen map[string]int) *world {
	chance := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
	return &world{
		t: t, rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)),
		odds: odds{
			done: chance("done", 100), trouble: chance("trouble", 40), lost: chance("lost", 30),
			broken: chance("broken", 30), stuck: chance("stuck", 30), loop: chance("loop", 30),
			stopped: chance("stopped", 20), errored: chance("errored", 20),
		},
		state: begun(t, drawPlan(t, 40)), limits: drawLimits(t), now: epoch,
		due: map[boulder.AttemptRef]job{}, turns: map[boulder.AttemptRef]int{}, seen: seen,
	}
}

func (w *world) happens(percent int) bool { return w.rng.IntN(100) < percent }

// apply feeds an event and checks the state.
func (w *world) apply(b boulder.Body) {
	if _, err := w.state.Apply(boulder.Event{Time: w.now, BoulderID: "b1", Body: b}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.state.Check(); err != nil {
		w.t.Fatalf("after %s: %v", b.EventType(), err)
	}
	w.checkLimits()
}

// checkLimits counts the slots itself.
func (w *world) checkLimits() {
	models := map[string]int{}
	for _, o := range w.state.Live() {
		models[o.Attempt.Model]++
		for _, id := range o.SubTask.DependsOn {
			if status := w.state.SubTask(id).Status; status != boulder.SubTaskCompleted {
				w.t.Fatalf("%s has a slot while %s, which it depends on, is %s", o.SubTask.ID, id, status)
			}
		}
	}
	if n := len(w.state.Live()); n > w.limits.Global {
		w.t.Fatalf("%d slots are taken of %d", n, w.limits.Global)
	}
	for model, n := range models {
		if limit := w.modelLimit(model); n > limit {
			w.t.Fatalf("%d slots of %q are taken of %d", n, model, limit)
		}
	}
	if limit, ok := w.limits.Providers["p"]; ok && models["p/one"]+models["p/two"] > limit {
		w.t.Fatalf("%v slots of p are taken of %d", models, limit)
	}
}

// modelLimit is the limit that drawLimits gave, without the code under test.
func (w *world) modelLimit(model string) int {
	if model == "p/one" {
		return w.limits.Models[0].Limit
	}
	return w.limits.PerModel
}

// checkFull fails if an attempt waits although there is room for it.
func (w *world) checkFull() {
	used := map[string]int{}
	for _, o := range w.state.Live() {
		used[o.Attempt.Model]++
	}
	if len(w.state.Live()) == w.limits.Global {
		return
	}
	for _, m := range w.state.Models() {
		limit, limited := w.limits.Providers["p"]
		ofP := m == "p/one" || m == "p/two"
		if used[m] < w.modelLimit(m) && (!ofP || !limited || used["p/one"]+used["p/two"] < limit) {
			w.t.Fatalf("%s waits for %q, which has room: %v of %+v",
				w.state.Queued(m, 0).SubTask.ID, m, used, w.limits)
		}
	}
}

// compute asks twice, and fails if the answers differ or, now and then, if the state changed.
func (w *world) compute() []Action {
	var before string
	look := w.happens(10) // it is most of what a step costs
	if look {
		before = snapshot(w.t, w.state)
	}
	first, second := Compute(w.state, w.limits, w.now), Compute(w.state, w.limits, w.now)
	if !slices.Equal(first, second) {
		w.t.Fatalf("two answers for one state:\n%v\n%v", first, second)
	}
	if look {
		if d := cmp.Diff(before, snapshot(w.t, w.state)); d != "" {
			w.t.Fatalf("Compute changed the state:\n%s", d)
		}
	}
	return first
}

func snapshot(t *rapid.T, s *boulder.State) string {
	var open []boulder.OpenRecord
	for _, st := range s.SubTasks {
		if o := s.Open(st.ID); o != nil {
			open = append(open, boulder.OpenRecord{Attempt: *o.Attempt, Turn: o.Turn})
		}
	}
	b, err := json.Marshal([]any{s.Boulder, s.SubTasks, open, len(s.Live()), s.Models()})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// decide turns decisions into events until there are none left, and returns the work and the wake-up call.
func (w *world) decide() (wake time.Time) {
	for {
		decided := false
		for _, action := range w.compute() {
			w.seen[fmt.Sprintf("%T", action)]++
			switch a := action.(type) {
			case Run:
				w.launch(a.Open, false)
				continue
			case Judge:
				w.launch(a.Open, true)
				continue
			case Wake:
				wake = a.At
				continue
			case Start:
				w.checkOrder(a.Open)
			}
			decided = true
			w.apply(event(action))
		}
		if !decided {
			w.checkFull()
			return wake
		}
		if w.state.Boulder.Status != boulder.Running {
			return time.Time{}
		}
	}
}

// event is what a decision becomes.
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
		return boulder.Continuation{AttemptRef: a.Open.Attempt.AttemptRef, Turn: a.Open.Turn.Number + 1}
	case Retry:
		return boulder.Retry{
			AttemptRef: a.Open.Attempt.AttemptRef, Status: a.Status, Uncounted: a.Uncounted,
			Next: a.Open.Attempt.Attempt + 1,
		}
	case Fail:
		return boulder.SubTaskDone{
			AttemptRef: a.Open.Attempt.AttemptRef, Summary: a.Reason,
			Status: boulder.SubTaskFailed, AttemptStatus: a.Status,
		}
	case Finish:
		return boulder.StatusChanged{Status: boulder.Synthesizing, Reason: string(a.Status)}
	}
	return nil
}

// checkOrder fails if somebody who waits for the same model was to go first.
func (w *world) checkOrder(o *boulder.Open) {
	for i := 0; ; i++ {
		other := w.state.Queued(o.Attempt.Model, i)
		switch {
		case other == nil:
			return
		case other == o:
		case other.SubTask.Priority.Rank() < o.SubTask.Priority.Rank():
			w.t.Fatalf("%s starts before %s, which is more urgent", o.SubTask.ID, other.SubTask.ID)
		case other.SubTask.Priority.Rank() == o.SubTask.Priority.Rank() && other.Attempt.QueueSeq < o.Attempt.QueueSeq:
			w.t.Fatalf("%s starts before %s, which was first", o.SubTask.ID, other.SubTask.ID)
		}
	}
}

// launch starts work that is not under way.
func (w *world) launch(o *boulder.Open, judge bool) {
	ref := o.Attempt.AttemptRef
	if _, busy := w.due[ref]; !busy {
		w.due[ref] = job{at: w.now.Add(time.Duration(w.rng.IntN(5000)) * time.Millisecond), judge: judge}
	}
}

// step lets time pass to whatever comes first, and lets that happen.
func (w *world) step(wake time.Time) {
	var next boulder.AttemptRef
	at := wake
	for ref, j := range w.due {
		if at.IsZero() || j.at.Before(at) || (j.at.Equal(at) && ref.SubTaskID < next.SubTaskID) {
			at, next = j.at, ref
		}
	}
	if at.IsZero() {
		w.t.Fatalf("nothing is under way, nothing will wake up, and the boulder is %s", w.state.Boulder.Status)
	}
	w.now = at
	if next.SubTaskID == "" {
		return
	}
	j := w.due[next]
	delete(w.due, next)
	w.finish(w.state.Open(next.SubTaskID), j)
}

// finish ends a piece of work in a random way.
func (w *world) finish(o *boulder.Open, j job) {
	ref := o.Attempt.AttemptRef
	switch {
	case w.happens(w.odds.trouble):
		wait := Backoff(w.limits, o.Attempt.Troubles+1)
		w.apply(boulder.Trouble{AttemptRef: ref, Reason: "no server", NotBefore: w.now.Add(wait)})
	case j.judge:
		w.apply(boulder.Judged{AttemptRef: ref, Turn: o.Turn.Number, Verdict: boulder.Verdict{
			Completed: w.happens(w.odds.done), IsStuck: w.happens(w.odds.stuck), IsInLoop: w.happens(w.odds.loop),
		}})
	case w.happens(w.odds.lost):
		w.apply(event(Lost(o, w.limits, "no such session")))
	case w.happens(w.odds.broken):
		w.apply(event(Broken(o, w.limits, "broken")))
	default:
		if o.Attempt.Status == boulder.AttemptStarting {
			w.apply(boulder.SubTaskStart{AttemptRef: ref, SessionID: "s"})
		}
		w.turns[ref]++
		var e boulder.Evidence
		if w.happens(w.odds.stopped) {
			e.Ended.Stopped = "silence"
		}
		if w.happens(w.odds.errored) {
			e.Ended.Error = "APIError"
		}
		w.apply(boulder.TurnEnded{AttemptRef: ref, Turn: o.Turn.Number, Evidence: e})
	}
}

// bound is the number of steps that no run can need more of: every attempt, counted or lost, with every turn run and
// judged, each after as many faults as are survived, and a wake-up after every fault.
func (w *world) bound() int {
	attempts := w.limits.Attempts + w.limits.Troubles + 1
	return len(w.state.SubTasks) * attempts * w.limits.Evaluations * 2 * 2 * (w.limits.Troubles + 1)
}

// checkEnd compares the end with what must follow from how the sub-tasks ended.
func (w *world) checkEnd() {
	completed := 0
	for _, t := range w.state.SubTasks {
		failedBefore := slices.ContainsFunc(t.DependsOn, func(id string) bool {
			return w.state.SubTask(id).Status != boulder.SubTaskCompleted
		})
		switch t.Status {
		case boulder.SubTaskCompleted:
			completed++
			fallthrough
		case boulder.SubTaskFailed:
			if failedBefore {
				w.t.Fatalf("%s is %s although what it depends on failed", t.ID, t.Status)
			}
		case boulder.SubTaskBlocked:
			if !failedBefore {
				w.t.Fatalf("%s is blocked by nothing", t.ID)
			}
		default:
			w.t.Fatalf("%s ended up %s", t.ID, t.Status)
		}
		if t.Tries > w.limits.Attempts {
			w.t.Fatalf("%s had %d tries of %d", t.ID, t.Tries, w.limits.Attempts)
		}
	}
	for ref, n := range w.turns {
		if n > w.limits.Evaluations {
			w.t.Fatalf("%v had %d turns of %d", ref, n, w.limits.Evaluations)
		}
	}
	want := boulder.Partial
	switch completed {
	case 0:
		want = boulder.Failed
	case len(w.state.SubTasks):
		want = boulder.Completed
	}
	if got := boulder.Status(w.state.Boulder.Reason); got != want {
		w.t.Fatalf("%d of %d sub-tasks completed, and the boulder is %s", completed, len(w.state.SubTasks), got)
	}
}

// TestEveryRunEnds drives random plans through random worlds to their end. What is checked on the way is in world.
func TestEveryRunEnds(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, seen)
		for steps := 0; ; steps++ {
			wake := w.decide()
			if w.state.Boulder.Status != boulder.Running {
				break
			}
			if steps > w.bound() {
				t.Fatalf("no end after %d steps", steps)
			}
			w.step(wake)
		}
		w.checkEnd()
	})
	// A property that never saw an action says nothing about it.
	for _, a := range []Action{Start{}, Complete{}, Continue{}, Retry{}, Fail{}, Run{}, Judge{}, Finish{}, Wake{}} {
		if kind := fmt.Sprintf("%T", a); seen[kind] == 0 {
			t.Errorf("no world ever saw %s", kind)
		}
	}
}
