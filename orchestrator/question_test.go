package orchestrator_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// undecided is a plan with two questions that are answered by default, and one that the user has answered. b rests on the first.
func undecided() *boulder.Plan {
	plan := planOf(spec("a"), spec("b"), spec("c", "a", "b"))
	plan.Facts.Questions = []boulder.Question{
		{ID: "q1", Question: "Where?", Why: "it moves", Default: "here", Answer: "here", By: boulder.ByDefault},
		{ID: "q2", Question: "When?", Default: "now", Answer: "now", By: boulder.ByDefault},
		{ID: "q3", Question: "Who?", Default: "all", Answer: "one", By: boulder.ByUser},
	}
	plan.SubTasks[0].Questions, plan.SubTasks[1].Questions = []string{"q3"}, []string{"q1", "q3"}
	return plan
}

func questionsOf(t *testing.T, s *memStore) (raised []boulder.Blocker) {
	t.Helper()
	head, _ := s.load(t)
	return head.Blockers
}

// TestDefaultsAreBlockers: what was answered by default is a soft blocker, raised once when the sub-tasks are there, whatever
// commit fails. Briefs have what their sub-tasks rest on.
func TestDefaultsAreBlockers(t *testing.T) {
	t.Parallel()
	for crash := range crashes(t) {
		r := newRig(t)
		if !r.survives(crash, orchestrator.Request{Plan: undecided()}) {
			continue
		}
		if status := state(t, r.store).Boulder.Status; status != boulder.Completed {
			t.Fatalf("%v: %s", crash, status)
		}
		all := questionsOf(t, r.store)
		if len(all) != 2 || all[0].ID != "B1" || all[1].ID != "B2" || all[0].PlanQuestion != "q1" || all[0].ChosenOption != "here" || all[0].Hard ||
			all[0].Context != "it moves\nIt bears on: b" || all[1].PlanQuestion != "q2" {
			t.Fatalf("%v: %+v", crash, all)
		}
		if check, err := orchestrator.CheckDecisions(r.store.log("b1")); err != nil || check.Difference != nil {
			t.Fatalf("replayed: %v, %+v", err, check.Difference)
		}
		a, b := strings.Join(r.server.prompted(at("a", 1)), ""), strings.Join(r.server.prompted(at("b", 1)), "")
		if !strings.Contains(b, "Where? By default: here") || !strings.Contains(b, `About q3, "Who?": one`) || !strings.Contains(a, `About q3, "Who?": one`) ||
			strings.Contains(a, "Where?") || strings.Contains(a+b, "When?") {
			t.Fatalf("the briefs are\n%s\n%s", a, b)
		}
	}
}

func state(t *testing.T, s *memStore) *boulder.State {
	t.Helper()
	is, err := s.Load(t.Context(), "b1")
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// TestLateAnswers: an answer after the end makes out of date what rests on another one, and nothing else; the default itself, or
// no answer, changes nothing. It stays in the plan, and a redo knows it.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	for answer, stale := range map[string][]string{"there": {"b"}, "here": nil, "": nil} {
		r := newRig(t)
		r.completes(r.run(undecided()))
		order := r.orchestrator().Order
		if err := order(t.Context(), "b1", settleOrder("", "B1", answer)); err != nil {
			t.Fatal(err)
		}
		for _, refused := range []boulder.Order{settleOrder("", "B1", "again"), settleOrder("", "B9", "x"), settleOrder("b", "B2", "x")} {
			if err := order(t.Context(), "b1", refused); err == nil {
				t.Errorf("%+v is carried out", refused)
			}
		}
		s := state(t, r.store)
		var found []string
		for _, task := range s.SubTasks {
			if s.StaleAnswer(task) {
				found = append(found, task.ID)
			}
		}
		q := s.Revision.Plan.Facts.Questions[0]
		if !slices.Equal(found, stale) || s.Boulder.Status != boulder.Completed || answer == "there" != (q.Answer == "there") || answer != "" != (q.By == boulder.ByUser) {
			t.Errorf("%q: %q is out of date, %s, %+v", answer, found, s.Boulder.Status, q)
		}
		if stale == nil {
			continue
		}
		redo := boulder.Order{Do: boulder.OrderRedo, Redone: &boulder.Redone{SubTasks: stale, Files: boulder.FilesKeep}}
		if err := order(t.Context(), "b1", redo); err != nil {
			t.Fatal(err)
		}
		r.completes(r.resume())
		brief := strings.Join(r.server.prompted(at("b", 2)), "")
		if s := state(t, r.store); s.StaleAnswer(s.SubTask("b")) || !strings.Contains(brief, `About q1, "Where?": there`) || strings.Contains(brief, "By default") {
			t.Errorf("after the redo: %+v\n%s", s.SubTask("b"), brief)
		}
	}
}

// TestAnswersWhileAtWork: an answer reaches the session that is at work before its sub-task is completed, and the briefs of what
// has not begun; none of that is out of date.
func TestAnswersWhileAtWork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	plan := undecided()
	plan.SubTasks[2].Questions = []string{"q1"}
	o := r.orchestrator()
	r.server.turn = func(ctx context.Context, job boulder.Job) (boulder.Evidence, error) {
		if job.SubTask.ID == "b" && job.Turn.Number == 1 {
			if err := o.Order(ctx, "b1", settleOrder("", "B1", "there")); err != nil {
				return boulder.Evidence{}, err
			}
		}
		return boulder.Evidence{FinalMessage: "done"}, nil
	}
	r.completes(r.collect(o.Run(t.Context(), orchestrator.Request{Plan: plan})))
	b := r.server.prompted(at("b", 1))
	if len(b) != 2 || !strings.Contains(b[1], `About B1, "Where?": there`) {
		t.Errorf("b was prompted %d times:\n%s", len(b), strings.Join(b, "\n====\n"))
	}
	if c := strings.Join(r.server.prompted(at("c", 1)), ""); !strings.Contains(c, `About q1, "Where?": there`) {
		t.Errorf("c begins with\n%s", c)
	}
	s := state(t, r.store)
	for _, task := range s.SubTasks {
		if s.StaleAnswer(task) {
			t.Errorf("%q is out of date", task.ID)
		}
	}
	if check, err := orchestrator.CheckDecisions(r.store.log("b1")); err != nil || check.Difference != nil {
		t.Errorf("replayed: %v, %+v", err, check.Difference)
	}
}

// TestAnswerInAnEditedPlan: it settles the blocker, and a plan that has the default again does not take the answer back.
func TestAnswerInAnEditedPlan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.asks = once("c", hard("B3")) // keeps the boulder from its end
	if _, err := r.run(undecided()); !errors.Is(err, orchestrator.ErrWaiting) {
		t.Fatal(err)
	}
	edit := func(change func(*boulder.Plan)) error {
		s := state(t, r.store)
		plan := undecided()
		change(plan)
		return r.orchestrator().Order(t.Context(), "b1", boulder.Order{Do: boulder.OrderEdit, Plan: plan, Hash: s.Revision.Hash})
	}
	if err := edit(func(p *boulder.Plan) { p.Facts.Questions[0].Answer, p.Facts.Questions[0].By = "there", boulder.ByUser }); err != nil {
		t.Fatal(err)
	}
	s := state(t, r.store)
	if b := s.Boulder.Blockers; b[0].Status != boulder.BlockerAnswered || b[0].Answer != "there" || b[1].Status != boulder.BlockerPending || !s.StaleAnswer(s.SubTask("b")) {
		t.Errorf("%+v", b)
	}
	if err := edit(func(p *boulder.Plan) { p.SubTasks[2].Model = "p/other" }); err != nil {
		t.Fatal(err)
	}
	if q := state(t, r.store).Revision.Plan.Facts.Questions[0]; q.Answer != "there" || q.By != boulder.ByUser {
		t.Errorf("%+v", q)
	}
	if err := edit(func(p *boulder.Plan) { p.SubTasks[2].Model = "p/other" }); err == nil || !strings.Contains(err.Error(), "is that already") {
		t.Errorf("the same plan but for the default: %v", err)
	}
}

// asking returns a rig whose planner asks, with its calls, and what it was told when it split.
func asking(t *testing.T) (r *rig, calls *[]string, known *boulder.Facts) {
	r, calls, known = newRig(t), &[]string{}, &boulder.Facts{}
	r.cfg.Planner = asks{plannerFunc(func(_ context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
		*calls = append(*calls, "plan")
		plan := undecided()
		if req.Known != nil {
			*known = req.Known.Facts
			plan.Facts = req.Known.Facts
		}
		return plan, boulder.Usage{Calls: 1}, nil
	}), calls}
	return r, calls, known
}

type asks struct {
	plannerFunc
	calls *[]string
}

func (a asks) Prepare(context.Context, boulder.PlanRequest) (boulder.Prepared, boulder.Usage, error) {
	*a.calls = append(*a.calls, "prepare")
	known := planOf(spec("whole"))
	known.Facts = undecided().Facts
	return boulder.Prepared{Known: known, Find: []string{"where?"}}, boulder.Usage{Calls: 1, Input: 20}, nil
}

// TestAsk: the user is asked before the split, which has the answers; only what was left unanswered is a blocker. What the planner
// asks is stored before, so that a crash costs no second call, and the answers before the split.
func TestAsk(t *testing.T) {
	t.Parallel()
	r, calls, known := asking(t)
	asked := 0
	stop := errors.New("the terminal is gone")
	ask := func(_ context.Context, questions []boulder.Question) ([]string, error) {
		if asked++; len(questions) != 3 {
			t.Errorf("asked %+v", questions)
		}
		if asked == 1 {
			return nil, stop
		}
		return []string{" there\n"}, nil
	}
	if _, err := r.request(orchestrator.Request{Task: "t", Ask: ask}); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if head, _ := r.store.load(t); head.Usage.Input != 20 || head.Prepared == nil || head.Prepared.Asked {
		t.Errorf("%+v", head)
	}
	r.store.fault = func(_ int, written bool) error {
		known, answered := r.store.events[len(r.store.events)-1].Body.(boulder.Prepared)
		if written && answered && known.Asked {
			return errDisk
		}
		return nil
	}
	if _, err := r.request(orchestrator.Request{Resume: "b1", Ask: ask}); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	r.store.fault = nil
	r.completes(r.request(orchestrator.Request{Resume: "b1", Ask: ask}))
	q := known.Questions
	if asked != 2 || !slices.Equal(*calls, []string{"prepare", "plan"}) || q[0].Answer != "there" || q[0].By != boulder.ByUser || q[1].By != boulder.ByDefault {
		t.Errorf("asked %d times, calls %q, known %+v", asked, *calls, q)
	}
	if all := questionsOf(t, r.store); len(all) != 1 || all[0].PlanQuestion != "q2" {
		t.Errorf("%+v", all)
	}
	if head, _ := r.store.load(t); head.Prepared != nil {
		t.Errorf("%+v", head.Prepared)
	}
}

// TestNobodyToAsk: without a user the planner is called once, and all defaults stay; also if the user has left before answering.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	r, calls, _ := asking(t)
	r.completes(r.request(orchestrator.Request{Task: "t"}))
	if all := questionsOf(t, r.store); len(all) != 2 || !slices.Equal(*calls, []string{"plan"}) {
		t.Errorf("calls %q, %+v", *calls, all)
	}
	r, calls, known := asking(t)
	gone := errors.New("gone")
	_, err := r.request(orchestrator.Request{Task: "t", Ask: func(context.Context, []boulder.Question) ([]string, error) { return nil, gone }})
	if !errors.Is(err, gone) {
		t.Fatal(err)
	}
	r.completes(r.resume())
	if all := questionsOf(t, r.store); len(all) != 2 || !slices.Equal(*calls, []string{"prepare", "plan"}) || !reflect.DeepEqual(*known, undecided().Facts) {
		t.Errorf("calls %q, %+v", *calls, all)
	}
}

// TestAskPatiently: without a boulder, too, and once although the planner fails afterwards.
func TestAskPatiently(t *testing.T) {
	t.Parallel()
	r, calls, known := asking(t)
	fails := true
	planner := asks{plannerFunc(func(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
		if fails {
			fails = false
			return nil, boulder.Usage{}, &boulder.TroubleError{Kind: boulder.TroubleNetwork, Err: errDisk}
		}
		return r.cfg.Planner.Plan(ctx, req)
	}), calls}
	limits := orchestrator.DefaultLimits()
	limits.Backoff = 1
	asked := 0
	_, _, err := orchestrator.PlanPatiently(t.Context(), planner, "", orchestrator.Looks{}, func(context.Context, []boulder.Question) ([]string, error) {
		asked++
		return []string{"", "later"}, nil
	}, boulder.PlanRequest{Task: "t"}, limits, func(boulder.Body) {})
	q := known.Questions
	if err != nil || asked != 1 || q[0].By != boulder.ByUser || q[0].Answer != "here" || q[1].Answer != "later" {
		t.Errorf("%v, asked %d times, %+v", err, asked, q)
	}
}

// TestAskStopsTheClock: while the user thinks, no time of the budget is used up, and the loop waits.
func TestAskStopsTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := asking(t)
		ask := func(ctx context.Context, _ []boulder.Question) ([]string, error) {
			select {
			case <-time.After(time.Hour):
				return nil, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		budget := &boulder.Budget{Time: boulder.Duration(5 * time.Minute)}
		r.completes(r.request(orchestrator.Request{Task: "t", Ask: ask, Settings: boulder.Settings{Budget: budget}}))
		if head, _ := r.store.load(t); head.Worked > time.Minute {
			t.Errorf("worked %s", head.Worked)
		}
	})
}

// TestForkKeepsAnswers: a new boulder that redoes what rests on an answer has it, and asks again only what nobody has answered.
func TestForkKeepsAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.completes(r.run(undecided()))
	if err := r.orchestrator().Order(t.Context(), "b1", settleOrder("", "B1", "there")); err != nil {
		t.Fatal(err)
	}
	r.cfg.NewID = func() string { return "b2" }
	r.completes(r.request(orchestrator.Request{Fork: &boulder.Fork{BoulderID: "b1", SubTasks: []string{"b"}}}))
	s, err := r.store.Load(t.Context(), "b2")
	if err != nil {
		t.Fatal(err)
	}
	briefs := r.server.prompted(at("b", 1))
	if all := s.Boulder.Blockers; len(all) != 1 || all[0].PlanQuestion != "q2" || !strings.Contains(briefs[len(briefs)-1], `About q1, "Where?": there`) {
		t.Errorf("%+v\n%s", all, briefs[len(briefs)-1])
	}
}
