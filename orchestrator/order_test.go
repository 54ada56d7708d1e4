package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// held is an agent whose turns block until the test lets each attempt's continue.
type held struct {
	mu   sync.Mutex
	gate map[boulder.AttemptRef]chan struct{}
	jobs map[boulder.AttemptRef]boulder.Job // the newest of each attempt
}

func newHeld() *held {
	return &held{gate: map[boulder.AttemptRef]chan struct{}{}, jobs: map[boulder.AttemptRef]boulder.Job{}}
}

func (h *held) at(ref boulder.AttemptRef) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate[ref] == nil {
		h.gate[ref] = make(chan struct{})
	}
	return h.gate[ref]
}

func (h *held) turn(ctx context.Context, job boulder.Job) (boulder.Evidence, error) {
	gate := h.at(job.Attempt.AttemptRef)
	h.mu.Lock()
	h.jobs[job.Attempt.AttemptRef] = job
	h.mu.Unlock()
	return until(gate)(ctx, job)
}

func (h *held) job(ref boulder.AttemptRef) boulder.Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.jobs[ref]
}

// ordered runs a plan in a synctest bubble while do gives orders. prepare may change the rig. In do, [synctest.Wait]
// returns when nothing more happens by itself.
func ordered(
	t *testing.T, plan *boulder.Plan, do func(r *rig, o *orchestrator.Orchestrator, h *held), prepare ...func(*rig),
) (events []boulder.Event, r *rig, err error) {
	t.Helper()
	r, h := newRig(t), newHeld()
	r.server.turn = h.turn
	for _, change := range prepare {
		change(r)
	}
	o, over := r.orchestrator(), make(chan struct{})
	go func() {
		defer close(over)
		events, err = r.collect(o.Run(t.Context(), orchestrator.Request{Plan: plan}))
	}()
	synctest.Wait()
	do(r, o, h)
	<-over
	return events, r, err
}

func obey(t *testing.T, o *orchestrator.Orchestrator, what boulder.Order) {
	t.Helper()
	if err := o.Order(t.Context(), "b1", what); err != nil {
		t.Fatalf("%+v: %v", what, err)
	}
	synctest.Wait()
}

func at(id string, attempt int) boulder.AttemptRef {
	return boulder.AttemptRef{SubTaskID: id, Attempt: attempt}
}

// TestOrderPause: running work may finish, nothing new starts, and the run waits for a resume.
func TestOrderPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, r, err := ordered(t, planOf(spec("a"), spec("b", "a")), func(r *rig, o *orchestrator.Orchestrator, h *held) {
			obey(t, o, boulder.Order{Do: boulder.OrderPause})
			if err := o.Order(t.Context(), "b1", boulder.Order{Do: boulder.OrderPause}); !errors.Is(err, boulder.ErrRefused) {
				t.Errorf("a second pause: %v", err)
			}
			close(h.at(at("a", 1)))
			synctest.Wait()
			head, subTasks := r.store.load(t)
			if head.Status != boulder.Paused || subTasks["a"].Status != boulder.SubTaskInProgress || r.server.sent() != 1 {
				t.Errorf("while paused: boulder %s, a %s, %d prompts", head.Status, subTasks["a"].Status, r.server.sent())
			}
			obey(t, o, boulder.Order{Do: boulder.OrderResume})
			close(h.at(at("b", 1)))
		})
		head, _ := r.store.load(t)
		if err != nil || head.Status != boulder.Completed || r.server.sent() != 2 {
			t.Errorf("%v: boulder %s, %d prompts", err, head.Status, r.server.sent())
		}
	})
}

// Running work stops, and continues without a second prompt. The pause is neither working time nor a used-up attempt.
func TestOrderPauseNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, r, err := ordered(t, planOf(spec("a")), func(r *rig, o *orchestrator.Orchestrator, h *held) {
			obey(t, o, boulder.Order{Do: boulder.OrderPause})
			obey(t, o, boulder.Order{Do: boulder.OrderPause, Now: true})
			if h.job(at("a", 1)).Recovered || r.server.running > 0 {
				t.Errorf("a is still at work after pause --now")
			}
			<-time.After(time.Hour)
			obey(t, o, boulder.Order{Do: boulder.OrderResume})
			if !h.job(at("a", 1)).Recovered {
				t.Error("the turn was not taken up as one that was broken off")
			}
			close(h.at(at("a", 1)))
		})
		head, subTasks := r.store.load(t)
		if a := subTasks["a"]; err != nil || head.Status != boulder.Completed || a.Attempts != 1 || a.Tries != 1 ||
			a.Worked > time.Minute || head.Worked > time.Minute || r.server.sent() != 1 {
			t.Errorf("%v: %s, %+v, %d prompts, worked %s", err, head.Status, a, r.server.sent(), head.Worked)
		}
	})
}

// TestOrderCancel: all work ends, the boulder is cancelled for good, and the run says so.
func TestOrderCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, r, err := ordered(t, planOf(spec("a"), spec("b", "a"), spec("c")), func(_ *rig, o *orchestrator.Orchestrator, h *held) {
			close(h.at(at("c", 1)))
			synctest.Wait()
			obey(t, o, boulder.Order{Do: boulder.OrderCancel})
			if err := o.Order(t.Context(), "b1", boulder.Order{Do: boulder.OrderPause}); !errors.Is(err, boulder.ErrFinished) {
				t.Errorf("an order after the end: %v", err)
			}
		})
		head, subTasks := r.store.load(t)
		if !errors.Is(err, orchestrator.ErrCancelled) || head.Status != boulder.Cancelled ||
			subTasks["a"].Status != boulder.SubTaskCancelled || subTasks["b"].Status != boulder.SubTaskCancelled ||
			subTasks["c"].Status != boulder.SubTaskCompleted {
			t.Errorf("%v: boulder %s, %v", err, head.Status, subTasks)
		}
		if last := events[len(events)-1].Body; boulder.TypeOf(last) != "task-complete" ||
			!strings.Contains(last.(boulder.TaskComplete).Summary, "1 of 3") {
			t.Errorf("the last event is %+v", last)
		}
		r.leftAndStopped(head)
	})
}

// leftAndStopped checks that the session of an attempt ended by an order is stored as left behind, in case the process
// is killed before the agent stops, and cleared once the runner has stopped it.
func (r *rig) leftAndStopped(head boulder.Boulder) {
	r.t.Helper()
	left := r.store.stored(func(b boulder.Body) bool {
		l, ok := b.(boulder.SessionLeft)
		return ok && l.SubTaskID == "a" && l.SessionID != "" && !l.Stopped
	})
	if !left || len(head.LeftSessions) > 0 {
		r.t.Errorf("noted as left: %v, still left in the end: %v", left, head.LeftSessions)
	}
}

// TestOrderSubTask: skip, cancel and retry stop a sub-task's running turn. Its result is refused, and the sub-task does
// not start again before that turn has ended.
func TestOrderSubTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, r, err := ordered(t, planOf(spec("a"), spec("b", "a"), spec("c"), spec("d", "c")),
			func(_ *rig, o *orchestrator.Orchestrator, h *held) {
				obey(t, o, boulder.Order{Do: boulder.OrderRetry, SubTaskID: "a"})
				if h.job(at("a", 2)).Turn.Number != 1 {
					t.Error("a was not tried again")
				}
				obey(t, o, boulder.Order{Do: boulder.OrderSkip, SubTaskID: "a"})
				obey(t, o, boulder.Order{Do: boulder.OrderCancel, SubTaskID: "c"})
				for _, refused := range []boulder.Order{
					{Do: boulder.OrderSkip, SubTaskID: "a"}, {Do: boulder.OrderRetry, SubTaskID: "d"},
					{Do: boulder.OrderRetry, SubTaskID: "x"}, {Do: boulder.OrderRetry, SubTaskID: "a"},
				} {
					if err := o.Order(t.Context(), "b1", refused); !errors.Is(err, boulder.ErrRefused) {
						t.Errorf("%+v: %v", refused, err)
					}
				}
				obey(t, o, boulder.Order{Do: boulder.OrderRetry, SubTaskID: "c"})
				close(h.at(at("b", 1)))
				close(h.at(at("c", 2)))
				close(h.at(at("d", 1)))
			})
		head, subTasks := r.store.load(t)
		r.leftAndStopped(head)
		if err != nil || head.Status != boulder.Completed || subTasks["a"].Status != boulder.SubTaskSkipped ||
			subTasks["c"].Tries != 1 || subTasks["c"].Attempts != 2 || subTasks["d"].Status != boulder.SubTaskCompleted {
			t.Errorf("%v: boulder %s, %v", err, head.Status, subTasks)
		}
	})
}

// TestOrderWhilePlanning: a pause ends the planning call, and a resume makes another. A cancel ends it for good.
func TestOrderWhilePlanning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		calls := 0
		r.cfg.Planner = plannerFunc(func(ctx context.Context, _ boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
			calls++
			<-ctx.Done()
			return nil, boulder.Usage{Calls: 1}, context.Cause(ctx)
		})
		o := r.orchestrator()
		over := r.begin(o, orchestrator.Request{Task: "the task"})
		synctest.Wait()
		obey(t, o, boulder.Order{Do: boulder.OrderPause})
		if head, _ := r.store.load(t); head.Status != boulder.Paused || calls != 1 {
			t.Errorf("paused while planning: %s after %d calls", head.Status, calls)
		}
		obey(t, o, boulder.Order{Do: boulder.OrderResume})
		if head, _ := r.store.load(t); head.Status != boulder.Planning || calls != 2 {
			t.Errorf("resumed: %s after %d calls", head.Status, calls)
		}
		obey(t, o, boulder.Order{Do: boulder.OrderCancel})
		if err := <-over; !errors.Is(err, orchestrator.ErrCancelled) {
			t.Errorf("the run ended with %v", err)
		}
		if head, _ := r.store.load(t); head.Status != boulder.Cancelled || head.Usage.Calls != 1 {
			t.Errorf("cancelled: %s with %d calls on the books", head.Status, head.Usage.Calls)
		}
	})
}

// TestObey: orders for a boulder that is not running change its stored state.
func TestObey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.turn = until(nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.onSent = cancel
	_, _ = r.collect(r.orchestrator().Run(ctx, orchestrator.Request{Plan: planOf(spec("a"), spec("b", "a"))}))
	do := func(what boulder.Order) error {
		return orchestrator.Obey(t.Context(), r.store, "b1", what, time.Now())
	}
	for _, what := range []boulder.Order{
		{Do: boulder.OrderNote, Text: "x"}, {Do: boulder.OrderSkip, SubTaskID: "a"}, {Do: boulder.OrderCancel, SubTaskID: "b"},
		{Do: boulder.OrderRetry, SubTaskID: "b"},
	} {
		if err := do(what); err != nil {
			t.Fatalf("%+v: %v", what, err)
		}
	}
	for _, what := range []boulder.Order{{Do: boulder.OrderPause}, {Do: boulder.OrderResume}, {Do: "dance"}} {
		if err := do(what); !errors.Is(err, boulder.ErrRefused) {
			t.Errorf("%+v: %v", what, err)
		}
	}
	r.server.turn = nil
	r.completes(r.resume())
	if err := do(boulder.Order{Do: boulder.OrderNote, Text: "late"}); !errors.Is(err, boulder.ErrFinished) {
		t.Errorf("a note after the end: %v", err)
	}
}

// TestSharedLimits: boulders of one orchestrator share its limits; the longest wait goes first.
func TestSharedLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var mu sync.Mutex
		now, most := map[string]int{}, map[string]int{} // running turns, by model
		var begun []string                              // boulders, in order of their turns
		enter := func(job boulder.Job, n int) {
			mu.Lock()
			defer mu.Unlock()
			for _, key := range []string{job.Attempt.Model, "all"} {
				now[key] += n
				most[key] = max(most[key], now[key])
			}
			if n > 0 {
				begun = append(begun, job.BoulderID)
			}
		}
		r.server.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
			enter(job, 1)
			defer enter(job, -1)
			<-time.After(time.Minute)
			return boulder.Evidence{}, nil
		}
		limits := orchestrator.DefaultLimits()
		limits.Global, limits.Models = 3, []orchestrator.ModelLimit{{Pattern: "p/one", Limit: 2}}
		r.cfg.Limits = &limits
		ids := make(chan string, 2)
		r.cfg.NewID = func() string { return <-ids }
		o := r.orchestrator()
		var done sync.WaitGroup
		start := func(id string, plan *boulder.Plan) {
			ids <- id
			done.Go(func() {
				for _, err := range o.Run(t.Context(), orchestrator.Request{Plan: plan}) {
					if err != nil {
						t.Errorf("%s: %v", id, err)
					}
				}
			})
			synctest.Wait()
			<-time.After(time.Second)
		}
		many := func(model boulder.Models, n int) *boulder.Plan {
			var specs []boulder.Spec
			for i := range n {
				s := spec(fmt.Sprint("t", i))
				s.Model = model
				specs = append(specs, s)
			}
			return planOf(specs...)
		}
		start("first", many("p/one", 6))
		start("second", many("p/one", 2))
		start("third", many("p/two", 4))
		done.Wait()
		if most["p/one"] != 2 || most["all"] != 3 {
			t.Errorf("at once: %v, want 2 of p/one and 3 in all", most)
		}
		// Four turns of the first boulder queued before the second boulder came.
		last := slices.Index(begun, "second")
		if n := len(slices.DeleteFunc(slices.Clone(begun[:last]), func(id string) bool { return id != "first" })); n != 6 {
			t.Errorf("the second boulder began after %d of the first: %v", n, begun)
		}
		if third := slices.Index(begun, "third"); third > 2 {
			t.Errorf("the third boulder waited for a model that it does not use: %v", begun)
		}
	})
}

// TestOrderIsAnsweredBeforeTheTurnsHaveEnded: the order that ends a boulder is answered once it is on disk, even if
// turns end late. Twenty runs: the wrong order would be a race.
func TestOrderIsAnsweredBeforeTheTurnsHaveEnded(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.server.turn = func(ctx context.Context, _ boulder.Job) (boulder.Evidence, error) {
				<-ctx.Done()
				<-time.After(time.Hour)
				return boulder.Evidence{}, context.Cause(ctx)
			}
			o, plan := r.orchestrator(), planOf(spec("a"))
			over := r.begin(o, orchestrator.Request{Plan: plan})
			synctest.Wait()
			before := time.Now()
			obey(t, o, boulder.Order{Do: boulder.OrderCancel})
			if took := time.Since(before); took != 0 {
				t.Errorf("the answer took %s", took)
			}
			<-over
		})
	}
}
