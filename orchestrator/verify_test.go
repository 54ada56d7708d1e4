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

func withGate(id, gate string, deps ...string) boulder.Spec {
	return boulder.Spec{ID: id, DependsOn: deps, Gates: []string{gate}}
}

// With any runner and judge, a red gate prevents completion. The session continues until it is green.
func TestJudgeCannotOverruleGates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	turns := 0
	r.server.turn = func(_ context.Context, _ boulder.Job) (boulder.Evidence, error) {
		turns++
		return boulder.Evidence{Gates: []boulder.Gate{{Command: "make", ExitCode: 2 - turns}}, ToolCount: 1}, nil
	}
	events, err := r.request(orchestrator.Request{Plan: planOf(withGate("a", "make"))})
	r.completes(events, err)
	if turns != 2 {
		t.Errorf("%d turns", turns)
	}
	overruled := r.store.stored(func(b boulder.Body) bool {
		j, ok := b.(boulder.Judged)
		return ok && slices.Contains(j.Verdict.Overruled, "the gate `make` is red (exit code 1)") && !j.Verdict.Completed
	})
	if !overruled {
		t.Errorf("the verdict does not say what overruled it: %v", types(events))
	}
}

// TestRunnerWithoutGates: a runner that omits a gate is a fatal error, which pauses the boulder.
func TestRunnerWithoutGates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Runner = runnerFunc(func(context.Context, boulder.Job, func(boulder.Body) error) (boulder.Evidence, error) {
		return boulder.Evidence{FinalMessage: "done"}, nil
	})
	events, err := r.request(orchestrator.Request{Plan: planOf(withGate("a", "false"))})
	if !errors.Is(err, boulder.ErrFatal) || !strings.Contains(err.Error(), "the gate `false` did not run") {
		t.Errorf("%v: %v", err, types(events))
	}
	if b, _ := r.store.load(t); b.Status != boulder.Paused {
		t.Errorf("the boulder is %s", b.Status)
	}
}

// verifying is a runner whose final gates exit as exits says.
type verifying struct {
	*server
	exits map[string]int
	asked []boulder.Verification
	hold  func(ctx context.Context) error
}

func (v *verifying) Verify(ctx context.Context, what boulder.Verification, report func(boulder.Body) error) error {
	v.asked = append(v.asked, what)
	if v.hold != nil {
		if err := v.hold(ctx); err != nil {
			return err
		}
	}
	for _, t := range what.SubTasks {
		for _, gate := range t.Gates {
			run := boulder.NewGateRun(&t, t.Attempts, boulder.Gate{Command: gate, ExitCode: v.exits[gate]})
			run.Final = true
			if err := report(run); err != nil {
				return err
			}
		}
	}
	return nil
}

// A red gate on the final files is reported, and the boulder not completed. "verified by" names green gates only.
func TestFinalGates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		exits  map[string]int
		status boulder.Status
		says   []string
	}{
		"green": {nil, boulder.Completed, []string{"verified by: gate-a", "verified by: gate-b"}},
		"red": {
			map[string]int{"gate-a": 1}, boulder.Partial,
			[]string{"! a: Do a", "NOT verified: on the final files, the gate `gate-a` is red (exit code 1)", "verified by: gate-b"},
		},
	} {
		r := newRig(t)
		v := &verifying{server: r.server, exits: test.exits}
		r.cfg.Runner = v
		plan := planOf(withGate("a", "gate-a"), withGate("b", "gate-b", "a"))
		events, err := r.request(orchestrator.Request{Plan: plan})
		if err != nil {
			t.Fatal(err)
		}
		done := events[len(events)-1].Body.(boulder.TaskComplete)
		if done.Status != test.status || done.AllCompleted != (test.status == boulder.Completed) {
			t.Errorf("%s: %+v", name, done)
		}
		for _, want := range test.says {
			if !strings.Contains(done.Summary, want) {
				t.Errorf("%s: no %q in %s", name, want, done.Summary)
			}
		}
		if test.exits != nil && strings.Contains(done.Summary, "verified by: gate-a") {
			t.Errorf("%s: %s", name, done.Summary)
		}
		if len(v.asked) != 1 || len(v.asked[0].SubTasks) != 2 || v.asked[0].Last != "b" {
			t.Errorf("%s: asked for %+v", name, v.asked)
		}
	}
}

// TestNoFinalGates: the gates of a single sub-task are not repeated, because nothing changed since they ran.
func TestNoFinalGates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := &verifying{server: r.server}
	r.cfg.Runner = v
	r.completes(r.request(orchestrator.Request{Plan: planOf(withGate("a", "make"))}))
	if len(v.asked) != 0 {
		t.Errorf("asked for %+v", v.asked)
	}
}

// TestStoppedInFinalGates: a stop ends the final gates, and a resume runs them again.
func TestStoppedInFinalGates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := &verifying{server: r.server}
	r.cfg.Runner = v
	o := r.orchestrator()
	v.hold = func(ctx context.Context) error {
		o.Stop()
		<-ctx.Done()
		return ctx.Err()
	}
	plan := planOf(withGate("a", "gate-a"), withGate("b", "gate-b", "a"))
	_, err := r.collect(o.Run(t.Context(), orchestrator.Request{Plan: plan}))
	if !errors.Is(err, orchestrator.ErrStopped) {
		t.Fatal(err)
	}
	v.hold = nil
	r.completes(r.resume())
	if len(v.asked) != 2 {
		t.Errorf("asked %d times", len(v.asked))
	}
}

// A fork runs the gates of inherited sub-tasks. If its runner cannot, it does not claim that they hold.
func TestForkRunsInheritedGates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		verifies bool
		exit     int
		status   boulder.Status
		says     string
	}{
		"green":            {true, 0, boulder.Completed, "verified by: gate-a"},
		"red":              {true, 1, boulder.Partial, "the gate `gate-a` is red (exit code 1)"},
		"nobody to run it": {false, 0, boulder.Partial, "the gate `gate-a` did not run"},
	} {
		r := newRig(t)
		v := &verifying{server: r.server}
		r.cfg.Runner = v
		r.completes(r.request(orchestrator.Request{
			Plan: planOf(withGate("a", "gate-a"), spec("b", "a")),
		}))
		r.cfg.NewID = func() string { return "b2" }
		v.exits = map[string]int{"gate-a": test.exit}
		if !test.verifies {
			r.cfg.Runner = v.server
		}
		events, err := r.request(orchestrator.Request{Fork: &boulder.Fork{BoulderID: "b1", SubTasks: []string{"b"}}})
		if err != nil {
			t.Fatal(err)
		}
		last := events[len(events)-1].Body
		if done, ok := last.(boulder.TaskComplete); !ok || done.Status != test.status || !strings.Contains(done.Summary, test.says) {
			t.Errorf("%s: %+v", name, last)
		}
	}
}

// TestAnswerSaysWhatWasAchieved: the answer says how far a stuck sub-task came.
func TestAnswerSaysWhatWasAchieved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.turn = func(context.Context, boulder.Job) (boulder.Evidence, error) {
		return boulder.Evidence{Diff: boulder.Diff{Files: []boulder.FileChange{{Path: "calendar.md", Own: true}}}}, nil
	}
	r.cfg.Judge = judgeFunc(func(context.Context, boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
		return boulder.Verdict{
			Summary: "The calendar was read.", IsStuck: true, StuckReason: "a CAPTCHA",
			Criteria: []boulder.Criterion{{Criterion: "All meetings are listed", Met: true}, {Criterion: "The notes are written"}},
		}, boulder.Usage{}, nil
	})
	events, err := r.request(orchestrator.Request{Plan: planOf(spec("a"))})
	if err != nil {
		t.Fatal(err)
	}
	says(t, events, "✗ a: Do a (failed)\n  no progress in 3 turns: The calendar was read."+
		"\n  criteria met: All meetings are listed\n  changed: calendar.md")
}

// says fails the test if the run's final answer lacks a text.
func says(t *testing.T, events []boulder.Event, want string) {
	t.Helper()
	if got := events[len(events)-1].Body.(boulder.TaskComplete).Summary; !strings.Contains(got, want) {
		t.Errorf("no %q in %s", want, got)
	}
}
