package progressledger_test

import (
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
)

// Tests that were green before anybody began, and still are, say nothing about the work: a turn that did not come to an
// end of its own does not complete a sub-task by them. Those that were red show it, and so does a gate.
func TestGreenAsBeforeShowsNothing(t *testing.T) {
	t.Parallel()
	const tests = "go test ./..."
	for name, ended := range map[string]boulder.Ended{
		"an error":          {Error: "UnknownError", Message: "no"},
		"a person's abort":  {Error: boulder.ErrorAborted},
		"stopped by a rule": {Stopped: "the same call again and again", Rule: boulder.RuleRepeat},
		"no answer":         {},
	} {
		for before, want := range map[int]bool{0: false, 1: true} {
			req := boulder.JudgeRequest{
				SubTask: boulder.SubTask{
					NoWorse: []string{tests}, DoneWhen: []string{boulder.DoneTodos, boulder.DoneTests},
					Baseline: []boulder.Gate{{Command: tests, ExitCode: before}},
				},
				Turn: boulder.Turn{Evidence: &boulder.Evidence{Ended: ended, Gates: []boulder.Gate{{Command: tests}}}},
			}
			v, _, err := newJudge(nobody{}).Judge(t.Context(), req)
			if err != nil || v.Completed != want {
				t.Errorf("%s, exit code %d before: completed is %v: %s, %v", name, before, v.Completed, v.Summary, err)
			}
			req.SubTask.DoneWhen = []string{boulder.DoneJudge, boulder.DoneTests}
			if _, _, err := judge(t, fails(providers.KindContentFilter), req); (err == nil) != want {
				t.Errorf("%s, exit code %d before, and no answer of the judge: %v", name, before, err)
			}
			req.SubTask.DoneWhen = []string{boulder.DoneTodos, boulder.DoneTests}
			req.SubTask.Gates, req.SubTask.NoWorse = req.SubTask.NoWorse, nil
			if v, _, err := newJudge(nobody{}).Judge(t.Context(), req); err != nil || !v.Completed {
				t.Errorf("%s, with a gate: %s, %v", name, v.Summary, err)
			}
		}
	}
}
