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

// edit returns the order that has the stored plan edited by change.
func (r *rig) edit(change func(*boulder.Plan)) boulder.Order {
	r.t.Helper()
	s, err := r.store.Load(r.t.Context(), "b1")
	if err != nil {
		r.t.Fatal(err)
	}
	plan := s.Revision.Plan.Clone()
	change(&plan)
	return boulder.Order{Do: boulder.OrderEdit, Plan: &plan, Hash: s.Revision.Hash}
}

// TestEditWhileItRuns: what waits runs as it was edited, what is at work does not change but for its model, from its next
// turn. What may not be changes nothing.
func TestEditWhileItRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		models := map[string][]string{}
		plan := planOf(spec("a"), spec("b", "a"), spec("gone", "a"), spec("c", "b", "gone"))
		plan.SubTasks[0].Gates = []string{"true"}
		_, r, err := ordered(t, plan, func(r *rig, o *orchestrator.Orchestrator, h *held) {
			refused := func(why string, change func(*boulder.Plan)) {
				t.Helper()
				err := o.Order(t.Context(), "b1", r.edit(change))
				if !errors.Is(err, boulder.ErrRefused) || !strings.Contains(err.Error(), why) {
					t.Errorf("got %v, want %q", err, why)
				}
			}
			refused("`manager cancel a`, then `manager retry a`", func(p *boulder.Plan) { p.SubTasks[0].Description = "Do it otherwise" })
			refused("`manager cancel a` ends it first", func(p *boulder.Plan) {
				p.SubTasks = p.SubTasks[1:]
				p.SubTasks[0].DependsOn, p.SubTasks[1].DependsOn = nil, nil
			})
			refused("`manager pause --now` first", func(p *boulder.Plan) { p.SubTasks[0].Gates = []string{"make"} })
			refused("task of a plan that has begun", func(p *boulder.Plan) { p.Task = "another" })
			old := r.edit(func(p *boulder.Plan) { p.Goal = "another goal" })
			obey(t, o, r.edit(func(p *boulder.Plan) {
				p.SubTasks = slices.Delete(p.SubTasks, 2, 3)
				p.SubTasks[1].Description = "Do b in another way"
				p.SubTasks[2].DependsOn = []string{"b", "new"}
				p.SubTasks = append(p.SubTasks, boulder.Spec{ID: "new", Subject: "New", Description: "What was forgotten"})
				p.Model = "p/other"
			}))
			if err := o.Order(t.Context(), "b1", old); !errors.Is(err, boulder.ErrRefused) || !strings.Contains(err.Error(), "compared with") {
				t.Errorf("an edit of the plan before: %v", err)
			}
			if got := h.job(at("new", 1)).Attempt.Model; got != "p/other" {
				t.Errorf("the new sub-task runs with %q", got)
			}
			for _, id := range []string{"new", "a", "b", "c"} {
				if ref := at(id, 1); id == "a" && h.job(ref).Attempt.Model != "" {
					t.Errorf("the turn at work has the model %q", h.job(ref).Attempt.Model)
				}
				close(h.at(at(id, 1)))
				synctest.Wait()
			}
		}, func(r *rig) {
			turns := 0
			r.cfg.Judge = judgeFunc(func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
				v, u, err := agrees(ctx, req)
				models[req.SubTask.ID] = append(models[req.SubTask.ID], req.Attempt.Model)
				if req.SubTask.ID == "a" {
					turns++
					v.Completed, v.ContinuationPrompt = turns > 1, "Continue."
				}
				return v, u, err
			})
		})
		_, subTasks := r.store.load(t)
		if err != nil || subTasks["gone"].Status != boulder.SubTaskSuperseded || subTasks["c"].Status != boulder.SubTaskCompleted {
			t.Fatalf("%v: %+v", err, subTasks)
		}
		if brief := r.server.prompted(at("b", 1))[0]; !strings.Contains(brief, "Do b in another way") {
			t.Errorf("b ran in its old form:\n%s", brief)
		}
		if len(r.server.prompted(at("gone", 1))) > 0 {
			t.Error("what was removed has run")
		}
		if got := models["a"]; !slices.Equal(got, []string{"", "p/other"}) {
			t.Errorf("the turns of a had the models %q", got)
		}
		check, err := orchestrator.CheckDecisions(r.store.log("b1"))
		if err != nil || check.Difference != nil {
			t.Errorf("%+v, %v", check.Difference, err)
		}
	})
}

// Whichever commit after an edit fails, before or after its write, the end state is the same, and no prompt is sent twice.
func TestEditSurvivesCrashes(t *testing.T) {
	t.Parallel()
	for crash := range crashes(t) {
		r := newRig(t)
		ctx, stop := context.WithCancel(t.Context())
		r.server.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
			if job.SubTask.ID == "a" {
				stop()
			}
			return boulder.Evidence{FinalMessage: "done"}, nil
		}
		for _, err := range r.orchestrator().Run(ctx, orchestrator.Request{Plan: planOf(spec("a"), spec("b", "a"), spec("gone", "a"))}) {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		edit := r.edit(func(p *boulder.Plan) {
			p.SubTasks[1].Description, p.SubTasks[1].Model = "Do b in another way", "p/other"
			p.SubTasks[2] = boulder.Spec{ID: "new", Subject: "New", Description: "What was forgotten", DependsOn: []string{"b"}}
		})
		r.obeys(crash, edit)
		head, subTasks := r.store.load(t)
		if head.Status != boulder.Completed || head.Revision != 2 || subTasks["b"].Description != "Do b in another way" ||
			subTasks["new"].Status != boulder.SubTaskCompleted || subTasks["gone"].Status != boulder.SubTaskSuperseded {
			t.Errorf("%v: boulder is %s, %+v", crash, head.Status, subTasks)
		}
		if got := r.server.sent(); got != 3 {
			t.Errorf("%v: %d prompts, want one each for a, b and new", crash, got)
		}
		if check, err := orchestrator.CheckDecisions(r.store.log("b1")); err != nil || check.Difference != nil {
			t.Errorf("%v: %+v, %v", crash, check.Difference, err)
		}
	}
}

// Whichever commit a process dies at, the model of a turn is the one that it was sent to, also if an edit names another before
// the boulder is resumed.
func TestEditOfATurnThatWasCutOff(t *testing.T) {
	t.Parallel()
	cut := 0
	for crash := range crashes(t) {
		r := newRig(t)
		sent, judged := "", ""
		r.server.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
			sent = job.Attempt.Model
			return boulder.Evidence{FinalMessage: "done"}, nil
		}
		r.cfg.Judge = judgeFunc(func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
			judged = req.Attempt.Model
			return agrees(ctx, req)
		})
		plan := planOf(spec("a"))
		plan.Model = "p/one"
		r.store.fault = crash.fault
		if _, err := r.run(plan); !errors.Is(err, errDisk) {
			continue
		}
		s, err := r.store.Load(t.Context(), "b1")
		if err != nil || s.Open("a") == nil || s.Open("a").Attempt.Status != boulder.AttemptExecuting || s.Open("a").Turn.MessageID == "" {
			continue
		}
		cut++
		edit := r.edit(func(p *boulder.Plan) { p.Model, p.SubTasks[0].Gates = "p/other", []string{"true"} })
		if err := orchestrator.Obey(t.Context(), r.store, "b1", edit, time.Now()); err != nil {
			t.Fatal(err)
		}
		r.completes(r.resume())
		if sent != "p/one" || judged != "p/one" {
			t.Errorf("%v: the turn was sent to %s, and judged as one of %s", crash, sent, judged)
		}
	}
	if cut == 0 {
		t.Error("no turn was cut off")
	}
}
