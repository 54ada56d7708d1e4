package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// once asks in the first attempt of a sub-task.
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

func settles(subTask, id, text string) boulder.Order {
	return boulder.Order{Do: boulder.OrderSettle, SubTaskID: subTask, BlockerID: id, Text: text}
}

// TestBlocked: what does not need the answer goes on, then the run waits for a person; a resume without an answer prompts
// nobody; with it the next attempt has it in its brief.
func TestBlocked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.turn = func(context.Context, boulder.Job) (boulder.Evidence, error) {
		return boulder.Evidence{FinalMessage: "I wrote what does not need it."}, nil
	}
	r.server.asks = once("a", hard("B1"))
	r.cfg.BlockerTool = func(boulder.Boulder) string { return "manager_blocker" }
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
		settles("a", "B9", "this"), settles("x", "B1", "this"), settles("c", "B1", "this"),
		{Do: boulder.OrderSettle, SubTaskID: "a"},
	} {
		if err := r.orchestrator().Order(t.Context(), "b1", refused); !errors.Is(err, boulder.ErrRefused) {
			t.Errorf("%+v: %v", refused, err)
		}
	}
	if err := r.orchestrator().Order(t.Context(), "b1", settles("a", "B1", "the second one")); err != nil {
		t.Fatal(err)
	}
	if err := r.orchestrator().Order(t.Context(), "b1", settles("a", "B1", "no, the first")); !errors.Is(err, boulder.ErrRefused) ||
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

// TestAnsweredWhileAtWork: the answer is in the very next prompt, and in no later one of the same session.
func TestAnsweredWhileAtWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, h := newRig(t), newHeld()
		r.server.turn = func(ctx context.Context, job boulder.Job) (boulder.Evidence, error) {
			if job.Turn.Number > 1 {
				return boulder.Evidence{ToolCount: 1}, nil
			}
			return h.turn(ctx, job)
		}
		r.cfg.Judge = judgeFunc(func(_ context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
			v := boulder.Verdict{Completed: req.Turn.Number == 3, Summary: "more to do", IsProgress: true}
			// Whatever is judged of the turn that did not know the answer.
			v.IsStuck = req.Turn.Number == 1
			if !slices.Contains(req.Notes, `About B1, "Which B1?": this one`) {
				t.Errorf("the judge does not know the answer: %q", req.Notes)
			}
			return v, boulder.Usage{}, nil
		})
		r.server.asks = once("a", hard("B1"))
		o := r.orchestrator()
		over := r.begin(o, orchestrator.Request{Plan: planOf(spec("a"))})
		synctest.Wait()
		obey(t, o, settles("a", "B1", "this one"))
		close(h.at(at("a", 1)))
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		r.server.check(t)
		prompts := r.server.prompted(at("a", 1))
		if len(prompts) != 3 || !strings.Contains(prompts[1], "this one") || strings.Contains(prompts[2], "this one") {
			t.Errorf("the prompts are\n%s", strings.Join(prompts, "\n----\n"))
		}
	})
}

// TestBlockedTurnIsNotResumed: a turn that asked and was cut off gets no resume prompt, also not from a runner that would
// send one; with an answer it does, and has the answer in it.
func TestBlockedTurnIsNotResumed(t *testing.T) {
	t.Parallel()
	for _, answered := range []bool{false, true} {
		r := newRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		r.server.asks = once("a", hard("B1"))
		r.server.turn = func(ctx context.Context, job boulder.Job) (boulder.Evidence, error) {
			if job.Attempt.Attempt > 1 || job.Turn.Number > 1 {
				return boulder.Evidence{}, nil
			}
			cancel()
			return until(nil)(ctx, job)
		}
		var resumed []string
		awaits := false
		r.cfg.Runner = runnerFunc(func(
			ctx context.Context, job boulder.Job, report func(boulder.Body) error,
		) (boulder.Evidence, error) {
			if job.Turn.MessageID == "" {
				return r.server.Run(ctx, job, report)
			}
			awaits = job.Awaits()
			resume := boulder.TurnSent{AttemptRef: job.Attempt.AttemptRef, Turn: 1, MessageID: "r", Resume: true}
			if err := report(resume); err != nil {
				return boulder.Evidence{}, err
			}
			resumed = append(resumed, job.Resume)
			return boulder.Evidence{}, nil
		})
		_, err := r.collect(r.orchestrator().Run(ctx, orchestrator.Request{Plan: planOf(spec("a"))}))
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if answered {
			if err := r.orchestrator().Order(t.Context(), "b1", settles("a", "B1", "this one")); err != nil {
				t.Fatal(err)
			}
		}
		_, err = r.resume()
		_, subTasks := r.store.load(t)
		switch {
		case awaits == answered:
			t.Errorf("answered %v, and the job awaits an answer: %v", answered, awaits)
		case answered && (err != nil || len(resumed) != 1 || !strings.Contains(resumed[0], "this one")):
			t.Errorf("with an answer: %v, %q", err, resumed)
		case !answered && (!errors.Is(err, orchestrator.ErrWaiting) || len(resumed) != 0 || !subTasks["a"].Parked):
			t.Errorf("without one: %v, %q, a is %s", err, resumed, subTasks["a"].Status)
		}
	}
}

// TestAnswersOutliveAReplan: what a person answered is told to whoever plans anew, and to the sub-task that takes over.
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
	if err := r.orchestrator().Order(t.Context(), "b1", settles("a", "B1", "the blue one")); err != nil {
		t.Fatal(err)
	}
	r.completes(r.resume())
	if brief := strings.Join(r.server.prompted(at("a2", 1)), ""); !strings.Contains(brief, text) {
		t.Errorf("the brief of what takes over lacks the answer:\n%s", brief)
	}
}

// TestNewsBeforeAPromptIsSent: what people say while a prompt waits to be sent is in it.
func TestNewsBeforeAPromptIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.Judge = judgeFunc(func(_ context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
			return boulder.Verdict{Completed: req.Turn.Number == 3, Summary: "more to do"}, boulder.Usage{}, nil
		})
		soft := hard("B1")
		soft.Hard, soft.ChosenOption = false, "mine"
		r.server.asks = once("a", soft)
		o := r.orchestrator()
		loop := &boulder.Loop{Iterations: 5, Failures: 5, Cooldown: time.Hour}
		over := r.begin(o, orchestrator.Request{Plan: planOf(spec("a")), Settings: boulder.Settings{Loop: loop}})
		<-time.After(time.Minute)
		synctest.Wait()
		if n := len(r.server.prompted(at("a", 1))); n != 2 {
			t.Errorf("%d prompts: the third is to wait for an hour", n)
		}
		obey(t, o, settles("a", "B1", "yours"))
		obey(t, o, boulder.Order{Do: boulder.OrderNote, Text: "be quick"})
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		prompts := r.server.prompted(at("a", 1))
		if third := prompts[2]; len(prompts) != 3 || !strings.Contains(third, `About B1, "Which B1?": yours`) ||
			!strings.Contains(third, "be quick") {
			t.Errorf("the prompts are\n%s", strings.Join(prompts, "\n----\n"))
		}
	})
}

// TestBlockedByAPersonsWord: skip, cancel and retry of a sub-task that waits for an answer.
func TestBlockedByAPersonsWord(t *testing.T) {
	t.Parallel()
	for do, want := range map[boulder.OrderKind]boulder.SubTaskStatus{
		boulder.OrderSkip: boulder.SubTaskSkipped, boulder.OrderCancel: boulder.SubTaskCancelled,
		boulder.OrderRetry: boulder.SubTaskCompleted,
	} {
		r := newRig(t)
		r.server.asks = once("a", hard("B1"))
		if _, err := r.run(planOf(spec("a"), spec("b"))); !errors.Is(err, orchestrator.ErrWaiting) {
			t.Fatal(err)
		}
		if err := r.orchestrator().Order(t.Context(), "b1", boulder.Order{Do: do, SubTaskID: "a"}); err != nil {
			t.Fatalf("%s: %v", do, err)
		}
		if _, err := r.resume(); err != nil {
			t.Fatalf("%s: %v", do, err)
		}
		if _, subTasks := r.store.load(t); subTasks["a"].Status != want || len(subTasks["a"].Blockers) != 1 {
			t.Errorf("after %s a is %s", do, subTasks["a"].Status)
		}
		if n := len(r.server.prompted(at("a", 2))); (n == 1) != (do == boulder.OrderRetry) {
			t.Errorf("%s: %d prompts to a second attempt", do, n)
		}
		err := r.orchestrator().Order(t.Context(), "b1", settles("a", "B1", "late"))
		if !errors.Is(err, orchestrator.ErrFinished) {
			t.Errorf("an answer after the end: %v", err)
		}
	}
}
