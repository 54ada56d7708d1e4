package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// once raises the blockers in the first turn of a sub-task's first attempt.
func once(subTask string, all ...boulder.Blocker) func(boulder.Job) []boulder.Blocker {
	return func(job boulder.Job) []boulder.Blocker {
		if job.Attempt.AttemptRef != at(subTask, 1) || job.Turn.Number > 1 {
			return nil
		}
		return all
	}
}

func hard(id string) boulder.Blocker {
	return boulder.Blocker{
		ID: id, Category: boulder.BlockerArchitecture, Question: "Which " + id + "?", Hard: true, Status: boulder.BlockerPending,
	}
}

func settleOrder(subTask, id, text string) boulder.Order {
	return boulder.Order{Do: boulder.OrderSettle, SubTaskID: subTask, BlockerID: id, Text: text}
}

// TestBlocked: independent work continues, then the run waits for the user. A resume without an answer sends no prompt;
// with the answer, the next attempt has it in its brief.
func TestBlocked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.turn = func(context.Context, boulder.Job) (boulder.Evidence, error) {
		return boulder.Evidence{FinalMessage: "I wrote what does not need it."}, nil
	}
	r.server.asks = once("a", hard("B1"))
	r.cfg.Diversion = func(boulder.Boulder) boulder.Diversion {
		return boulder.Diversion{Tool: "manager_blocker", Marker: boulder.DoneMarker}
	}
	_, err := r.run(planOf(spec("a"), spec("b", "a"), spec("c")))
	head, subTasks := r.store.load(t)
	if !errors.Is(err, orchestrator.ErrWaiting) || !strings.Contains(err.Error(), "answer to B1: Which B1?") {
		t.Fatalf("the run ended with %v", err)
	}
	var budget *orchestrator.BudgetError
	if errors.As(err, &budget) || head.Status != boulder.Paused || !subTasks["a"].Parked || subTasks["a"].Tries != 0 ||
		subTasks["b"].Status != boulder.SubTaskPending || subTasks["c"].Status != boulder.SubTaskCompleted {
		t.Fatalf("boulder %s, %+v", head.Status, subTasks)
	}
	sent := r.server.sent()
	if _, err := r.resume(); !errors.Is(err, orchestrator.ErrWaiting) || r.server.sent() != sent {
		t.Errorf("resumed without an answer: %v, %d prompts more", err, r.server.sent()-sent)
	}
	for _, refused := range []boulder.Order{
		settleOrder("a", "B9", "this"), settleOrder("x", "B1", "this"), settleOrder("c", "B1", "this"),
		{Do: boulder.OrderSettle, SubTaskID: "a"},
	} {
		if err := r.orchestrator().Order(t.Context(), "b1", refused); !errors.Is(err, boulder.ErrRefused) {
			t.Errorf("%+v: %v", refused, err)
		}
	}
	if err := r.orchestrator().Order(t.Context(), "b1", settleOrder("a", "B1", "the second one")); err != nil {
		t.Fatal(err)
	}
	if err := r.orchestrator().Order(t.Context(), "b1", settleOrder("a", "B1", "no, the first")); !errors.Is(err, boulder.ErrRefused) ||
		!strings.Contains(err.Error(), "is answered already") {
		t.Errorf("answered twice: %v", err)
	}
	r.completes(r.resume())
	brief := strings.Join(r.server.prompted(at("a", 2)), "")
	for _, want := range []string{
		`About B1, "Which B1?": the second one`, "manager_blocker", "It needed an answer to B1",
		"I wrote what does not need it.",
	} {
		if !strings.Contains(brief, want) {
			t.Errorf("the next brief lacks %q:\n%s", want, brief)
		}
	}
	_, subTasks = r.store.load(t)
	if got := subTasks["a"]; got.Tries != 1 || got.Attempts != 2 {
		t.Errorf("a had %d tries in %d attempts", got.Tries, got.Attempts)
	}
}

// Two verdicts that only the user can help make a blocker, which parks the sub-task until it is settled.
func TestOnlyTheUserCanHelp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Judge = judgeFunc(func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
		if req.SubTask.Attempts > 1 {
			return agrees(ctx, req)
		}
		return boulder.Verdict{BlockedBy: "external", StuckReason: "Solve the CAPTCHA"}, boulder.Usage{}, nil
	})
	_, err := r.run(planOf(spec("a")))
	if !errors.Is(err, orchestrator.ErrWaiting) || !strings.Contains(err.Error(), "Solve the CAPTCHA") || r.server.sent() != 2 {
		t.Fatalf("after %d prompts: %v", r.server.sent(), err)
	}
	if _, err := r.resume(); !errors.Is(err, orchestrator.ErrWaiting) || r.server.sent() != 2 {
		t.Fatalf("resumed without an answer, after %d prompts: %v", r.server.sent(), err)
	}
	if err := r.orchestrator().Order(t.Context(), "b1", settleOrder("a", "B1", "It is solved")); err != nil {
		t.Fatal(err)
	}
	r.completes(r.resume())
}

// TestAnswersOutliveAReplan: the planner of a replan and the sub-task that takes over get the user's answers.
func TestAnswersOutliveAReplan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const text = `About B1, "Which B1?": the blue one`
	r.cfg.Planner = replanner(func(_ context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
		if !slices.ContainsFunc(req.NewFacts, func(f string) bool { return strings.Contains(f, text) }) {
			t.Errorf("the planner does not know the answer: %q", req.NewFacts)
		}
		return boulder.Replacement{
			SubTasks: planOf(spec("a2")).SubTasks, Replaces: map[string]string{"a2": "a"},
		}, boulder.Usage{}, nil
	})
	r.cfg.Judge = judgeFunc(func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
		if req.SubTask.ID == "a2" {
			return agrees(ctx, req)
		}
		return boulder.Verdict{NeedReplan: true, ReplanReason: "there is no blue one"}, boulder.Usage{}, nil
	})
	r.server.asks = once("a", hard("B1"))
	if _, err := r.run(planOf(spec("a"))); !errors.Is(err, orchestrator.ErrWaiting) {
		t.Fatal(err)
	}
	if err := r.orchestrator().Order(t.Context(), "b1", settleOrder("a", "B1", "the blue one")); err != nil {
		t.Fatal(err)
	}
	r.completes(r.resume())
	if brief := strings.Join(r.server.prompted(at("a2", 1)), ""); !strings.Contains(brief, text) {
		t.Errorf("the brief of what takes over lacks the answer:\n%s", brief)
	}
}
