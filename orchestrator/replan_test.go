package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

func stalling(ids ...string) judgeFunc {
	return func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
		if slices.Contains(ids, req.SubTask.ID) {
			return boulder.Verdict{Summary: "nothing was done"}, boulder.Usage{}, nil
		}
		return agrees(ctx, req)
	}
}

// replaces answers each replan with a new sub-task for the failed one and one for its dependents.
func replaces(asked *[]boulder.ReplanRequest) replanner {
	return func(_ context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
		*asked = append(*asked, req)
		specs := planOf(spec("smaller"), spec("rest", "smaller", "done")).SubTasks
		specs[0].Gates = []string{"make check", "rm -rf /"}
		return boulder.Replacement{SubTasks: specs, Replaces: map[string]string{"smaller": "hard"}},
			boulder.Usage{Calls: 1, Input: 7}, nil
	}
}

func hardPlan() *boulder.Plan {
	plan := planOf(spec("done"), spec("hard", "done"), spec("behind", "hard"), spec("beside"))
	plan.SubTasks[1].Gates = []string{"make check"}
	return plan
}

// TestReplan: a sub-task without progress in two turns is replanned with its dependents. Completed and unrelated
// sub-tasks stay. Gates that the user approved stay approved; the model's do not run.
func TestReplan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var asked []boulder.ReplanRequest
	r.cfg.Judge, r.cfg.Planner = stalling("hard"), replaces(&asked)
	plan := hardPlan()
	plan.Request = []boulder.Obligation{
		{ID: "r1", Text: "a gate", Owner: "hard", ShownBy: "make check"}, {ID: "r2", Text: "the rest", Owner: "behind", ShownBy: "Do behind"},
		{ID: "r3", Text: "done", Owner: "done", ShownBy: "Do done"}, {ID: "r4", Text: "not", Kind: boulder.Forbids},
	}
	events, err := r.request(orchestrator.Request{Plan: plan})
	r.completes(events, err)
	says(t, events, "- hard: Do hard (superseded)\n  replaced by plan revision 2: ")

	if len(asked) != 1 {
		t.Fatalf("%d replans", len(asked))
	}
	req := asked[0]
	if req.Failed.ID != "hard" || len(req.Replaced) != 2 || len(req.Done) < 1 || !strings.Contains(req.Reason, "no progress in 2 turns") ||
		len(req.Failed.Failures) != 1 || !strings.Contains(req.Failed.Failures[0], "nothing was done") ||
		!slices.Contains(req.Earlier, boulder.SpecsHash(plan.SubTasks[1:3])) {
		t.Errorf("the Task Ledger was asked with %+v", req)
	}
	var replan boulder.Replanned
	for _, e := range events {
		if b, ok := e.Body.(boulder.Replanned); ok {
			replan = b
		}
	}
	if len(replan.Changed) != 1 || replan.Changed[0].From != "hard" || replan.Changed[0].To.ID != "smaller" ||
		len(replan.Added) != 1 || replan.Added[0].ID != "rest" || !slices.Equal(replan.Removed, []string{"behind"}) {
		t.Errorf("the difference is %+v", replan)
	}
	// What was replaced owns no row of the request: what has the gate that shows it does, else what comes last.
	var owners []string
	for _, row := range replan.Plan.Plan.Request {
		owners = append(owners, row.Owner+": "+row.ShownBy)
	}
	if want := []string{"smaller: make check", "rest: ", "done: Do done", ": "}; !slices.Equal(owners, want) {
		t.Errorf("the rows are owned by %q, want %q", owners, want)
	}
	head, subTasks := r.store.load(t)
	statuses := map[string]boulder.SubTaskStatus{}
	for id, st := range subTasks {
		statuses[id] = st.Status
	}
	want := map[string]boulder.SubTaskStatus{
		"done": boulder.SubTaskCompleted, "beside": boulder.SubTaskCompleted, "hard": boulder.SubTaskSuperseded,
		"behind": boulder.SubTaskSuperseded, "smaller": boulder.SubTaskCompleted, "rest": boulder.SubTaskCompleted,
	}
	if d := cmp.Diff(want, statuses); d != "" {
		t.Errorf("statuses (-want +got):\n%s", d)
	}
	small := subTasks["smaller"]
	if !slices.Equal(small.Gates, []string{"make check"}) || !slices.Equal(small.GateHints, []string{"rm -rf /"}) {
		t.Errorf("gates %q, hints %q", small.Gates, small.GateHints)
	}
	if small.Replaces != "hard" || head.Revision != 2 || head.Replans != 1 || head.Replan != nil || head.Usage.Input < 7 {
		t.Errorf("replaces %q, head %+v", small.Replaces, head)
	}
}

// TestReplanRefused: without another plan the sub-task fails with the reason.
func TestReplanRefused(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func() (boulder.Replacement, error){
		"no other plan": func() (boulder.Replacement, error) {
			return boulder.Replacement{}, fmt.Errorf("%w: the same again", boulder.ErrNoNewPlan)
		},
		"a plan that contradicts itself": func() (boulder.Replacement, error) {
			return boulder.Replacement{SubTasks: planOf(spec("x", "hard")).SubTasks}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.cfg.Judge = stalling("hard")
			r.cfg.Planner = replanner(func(
				context.Context, boulder.ReplanRequest,
			) (boulder.Replacement, boulder.Usage, error) {
				replacement, err := answer()
				return replacement, boulder.Usage{}, err
			})
			if _, err := r.run(hardPlan()); err != nil {
				t.Fatal(err)
			}
			head, subTasks := r.store.load(t)
			if head.Status != boulder.Partial || subTasks["hard"].Status != boulder.SubTaskFailed ||
				!strings.Contains(subTasks["hard"].Reason, "(the Task Ledger ") ||
				subTasks["behind"].Status != boulder.SubTaskBlocked {
				t.Errorf("%s: %+v", head.Status, subTasks["hard"])
			}
		})
	}
}

// A user who wants to be asked is asked. A no fails the sub-task; an interrupt leaves the question for a resume.
func TestApproveReplan(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gates bool
		err   error // of the user
		want  error // of the run
	}{
		"yes": {true, nil, nil}, "no": {false, orchestrator.ErrDeclined, nil},
		"nobody there": {false, orchestrator.ErrWaiting, orchestrator.ErrWaiting},
	} {
		r := newRig(t)
		var asked []boulder.ReplanRequest
		r.cfg.Judge, r.cfg.Planner = stalling("hard"), replaces(&asked)
		_, err := r.request(orchestrator.Request{
			Plan: hardPlan(), Settings: boulder.Settings{AskReplans: true},
			ApproveReplan: func(_ context.Context, p orchestrator.ReplanProposal) (bool, error) {
				if p.Number != 1 || len(p.Replaced) != 2 || len(p.SubTasks) != 2 || p.Replaces["smaller"] != "hard" {
					t.Errorf("asked about %+v", p)
				}
				return test.gates, test.err
			},
		})
		head, subTasks := r.store.load(t)
		if !errors.Is(err, test.want) || (len(subTasks["smaller"].Gates) == 2) != test.gates ||
			strings.Contains(subTasks["hard"].Reason, "declined") != (name == "no") {
			t.Errorf("%s: %v: %+v", name, err, subTasks)
		}
		if test.want == nil {
			continue
		}
		if head.Status != boulder.Paused || head.Replan == nil {
			t.Errorf("%s: %+v", name, head)
		}
		if _, err := r.resume(); !errors.Is(err, orchestrator.ErrWaiting) {
			t.Errorf("with nobody to ask: %v", err)
		}
		r.completes(r.request(orchestrator.Request{
			Resume: "b1", ApproveReplan: func(context.Context, orchestrator.ReplanProposal) (bool, error) { return true, nil },
		}))
		if head, _ := r.store.load(t); head.Replans != 1 || len(asked) != 1 {
			t.Errorf("%d replans are counted for one, which was made %d times", head.Replans, len(asked))
		}
	}
}

// TestUnaskedReplan: without AskReplans a replan goes ahead, with its gates if allowed. With it, never unasked.
func TestUnaskedReplan(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ asks, gates bool }{{false, false}, {false, true}, {true, true}} {
		r := newRig(t)
		var made []boulder.ReplanRequest
		r.cfg.Judge, r.cfg.Planner = stalling("hard"), replaces(&made)
		_, err := r.request(orchestrator.Request{
			Plan: hardPlan(), ReplanGates: test.gates, Settings: boulder.Settings{AskReplans: test.asks},
		})
		_, subTasks := r.store.load(t)
		switch smaller := subTasks["smaller"]; {
		case test.asks:
			if !errors.Is(err, orchestrator.ErrWaiting) || smaller.ID != "" {
				t.Errorf("nobody was asked: %v, %+v", err, smaller)
			}
		case err != nil || (len(smaller.Gates) == 2) != test.gates:
			t.Errorf("gates may run: %v: %v, %+v", test.gates, err, smaller)
		}
	}
}

// TestReplanWithAForbiddenModel: a new sub-task that could never start ends the run at once, with the reason.
func TestReplanWithAForbiddenModel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Judge = stalling("hard")
	r.cfg.Planner = replanner(func(context.Context, boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
		specs := planOf(spec("other")).SubTasks
		specs[0].Model = "p/forbidden"
		return boulder.Replacement{SubTasks: specs}, boulder.Usage{}, nil
	})
	limits := orchestrator.DefaultLimits()
	limits.Models = []orchestrator.ModelLimit{{Pattern: "p/forbidden", Limit: 0}}
	r.cfg.Limits = &limits
	if _, err := r.run(hardPlan()); !errors.Is(err, boulder.ErrFatal) || !strings.Contains(err.Error(), "p/forbidden") {
		t.Errorf("the run ended with %v", err)
	}
}

// TestApproveByOrder: a replan that awaits approval is stored, so an order can answer it, whether or not the asking
// process still runs. It is not made again.
func TestApproveByOrder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do     boulder.OrderKind
		atWork bool
	}{
		"yes": {boulder.OrderApprove, true}, "no": {boulder.OrderDecline, true},
		"yes, and nothing runs": {boulder.OrderApprove, false}, "no, and nothing runs": {boulder.OrderDecline, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var made []boulder.ReplanRequest
			r.cfg.Judge, r.cfg.Planner = stalling("hard"), replaces(&made)
			o, asked := r.orchestrator(), make(chan struct{})
			over := r.begin(o, orchestrator.Request{
				Plan: hardPlan(), Settings: boulder.Settings{AskReplans: true},
				ApproveReplan: func(ctx context.Context, p orchestrator.ReplanProposal) (bool, error) {
					if p.Number != 1 || len(p.Replaced) != 2 || len(p.SubTasks) != 2 {
						t.Errorf("asked about %+v", p)
					}
					if close(asked); !test.atWork {
						return false, orchestrator.ErrWaiting
					}
					<-ctx.Done() // no answer at the terminal
					return false, context.Cause(ctx)
				},
			})
			<-asked
			if !test.atWork {
				if err := <-over; !errors.Is(err, orchestrator.ErrWaiting) {
					t.Fatal(err)
				}
			}
			s, err := r.store.Load(t.Context(), "b1")
			if err != nil {
				t.Fatal(err)
			}
			snapshot := s.Snapshot()
			order := boulder.Order{Do: test.do, Hash: snapshot.Asked()}
			if err := o.Order(t.Context(), "b1", boulder.Order{Do: test.do, Hash: "another"}); !errors.Is(err, boulder.ErrRefused) {
				t.Errorf("what was not shown is answered: %v", err)
			}
			if err := o.Order(t.Context(), "b1", order); err != nil {
				t.Fatal(err)
			}
			if err := o.Order(t.Context(), "b1", order); err == nil {
				t.Error("it can be answered twice")
			}
			if test.atWork {
				err = <-over
			} else {
				_, err = r.resume()
			}
			head, subTasks := r.store.load(t)
			if err != nil || len(made) != 1 || head.Replans != 1 {
				t.Errorf("%v; %d replans were made", err, len(made))
			}
			if test.do == boulder.OrderDecline {
				if !strings.Contains(subTasks["hard"].Reason, "declined") {
					t.Errorf("%+v", subTasks["hard"])
				}
			} else if subTasks["rest"].Status != boulder.SubTaskCompleted || len(subTasks["smaller"].Gates) != 2 {
				t.Errorf("%+v", subTasks)
			}
		})
	}
}
