package schedule

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// TestEvaluationsTotal drives a sub-task that never completes, with practically unlimited attempts and replans. With
// its replacements it gets 15 judged turns, whatever the verdicts, and a resume adds none.
func TestEvaluationsTotal(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]boulder.Verdict{
		"continued": {IsProgress: true}, "retried": {IsProgress: true, IsStuck: true}, "replanned": {IsProgress: true, NeedReplan: true},
	} {
		l := DefaultLimits()
		l.Attempts, l.Replans, l.Evaluations = 100, 100, 4
		if name == "retried" {
			l.Evaluations = 100
		}
		s := begun(t, boulder.Spec{ID: "a"}, boulder.Spec{ID: "b", DependsOn: []string{"a"}})
		judged, ids := 0, []string{"a", "b"}
		var last boulder.SubTaskDone
		for step := 0; len(s.SubTasks) > 0; step++ {
			if step > 1_000 {
				t.Fatalf("%s: no end", name)
			}
			if step == 20 { // as in another process
				restored, err := boulder.Restore(s.Snapshot())
				if err != nil {
					t.Fatal(err)
				}
				s = restored
			}
			actions := Compute(s, l, epoch)
			switch a := actions[0].(type) {
			case Apply:
				if done, is := a.Body.(boulder.SubTaskDone); is {
					last = done
				}
				feed(t, s, epoch, a.Body)
				continue
			case Run:
				o := a.Open
				if o.Attempt.Status == boulder.AttemptStarting {
					feed(t, s, epoch, boulder.SubTaskStart{AttemptRef: o.Attempt.AttemptRef, SessionID: "s"})
				}
				feed(t, s, epoch, boulder.TurnEnded{AttemptRef: o.Attempt.AttemptRef, Turn: o.Turn.Number, Evidence: boulder.Evidence{ToolCount: 1}})
				continue
			case Judge:
				judged++
				v := verdict
				v.ContinuationPrompt = strings.Repeat("x", judged)
				feed(t, s, epoch, Judged(s, a.Open, a.Open.Turn.Number, v, epoch))
				continue
			case AskReplan: // one new sub-task replaces the old one, the other is additional
				r, n := s.Boulder.Replan, len(s.SubTasks)
				fresh := []boulder.Spec{{ID: ids[0] + strings.Repeat("+", n)}, {ID: ids[1] + strings.Repeat("+", n)}}
				rev := boulder.PlanRevision{Number: s.Boulder.Revision + 1, Plan: boulder.Plan{SubTasks: fresh}}
				feed(t, s, epoch, boulder.Replanned{
					AttemptRef: r.AttemptRef, Revision: rev.Number, Plan: rev, SubTasks: fresh,
					Changed: []boulder.Change{{From: r.SubTaskID, To: boulder.PlannedIn{ID: fresh[0].ID}}},
				})
				continue
			case Finish:
			}
			break
		}
		if judged != l.EvaluationsTotal || s.SubTask("a").Judged != judged {
			t.Errorf("%s: %d judged turns, %d counted, want %d", name, judged, s.SubTask("a").Judged, l.EvaluationsTotal)
		}
		if !strings.Contains(last.Summary, "it had 15 judged turns with what it replaces, which is the limit; ") {
			t.Errorf("%s: it ended because %q", name, last.Summary)
		}
	}
}

// The last turn can complete its sub-task, and an answer to pass on grants no turn beyond the limit.
func TestLastTurnCompletes(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Spec{ID: "a"})
	feed(t, s, epoch, running("a")...)
	s.SubTask("a").Judged = 14
	feed(t, s, epoch, boulder.BlockerRaised{AttemptRef: ref("a", 1), Blocker: boulder.Blocker{
		ID: "B1", Question: "Which?", ChosenOption: "that", Status: boulder.BlockerPending,
	}}, answers("a", "B1"), boulder.TurnEnded{AttemptRef: ref("a", 1), Turn: 1}, boulder.Judged{
		AttemptRef: ref("a", 1), Turn: 1, Verdict: boulder.Verdict{Completed: true},
	})
	if got := kindsOf(Compute(s, DefaultLimits(), epoch)); got != "complete" {
		t.Error(got)
	}
	if got := kindsOf(Compute(s, func() Limits { l := DefaultLimits(); l.EvaluationsTotal = 16; return l }(), epoch)); got != "continue" {
		t.Errorf("with a turn left: %s", got)
	}
}

// TestTurnsOfALineSideBySide: parallel turns of one line never exceed its common limit.
func TestTurnsOfALineSideBySide(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Spec{ID: "a"}, boulder.Spec{ID: "b"}, boulder.Spec{ID: "c"})
	s.SubTask("b").Root, s.SubTask("c").Root, s.SubTask("a").Judged = "a", "a", 13
	actions := Compute(s, DefaultLimits(), epoch)
	if got := kindsOf(actions); got != "start, start" {
		t.Fatal(got)
	}
	feed(t, s, epoch, bodyOf(actions[0]), bodyOf(actions[1]))
	if got := kindsOf(Compute(s, DefaultLimits(), epoch)); got != "run, run" {
		t.Fatal(got)
	}
	s.SubTask("a").Judged = 15
	if got := kindsOf(Compute(s, DefaultLimits(), epoch)); got != "run, run, fail failed" {
		t.Error(got)
	}
}
