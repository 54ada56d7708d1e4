package cli

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// In place, the user is told where an agent left git: at the end of the run, in any form of output, and in the report.
func TestRunTellsWhereItLeftGit(t *testing.T) {
	t.Parallel()
	w := directWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case req.Kind() == scriptmodel.KindStructured:
			return acceptAll
		case req.AssistantTurns() > 0:
			return scriptmodel.Reply{Text: "All of it is done now."}
		}
		return shell(map[string]string{
			"switch": "git checkout -q side", "merge": "git merge -q main", "nothing": "echo more > more.txt",
		}[subTaskOf(req.FirstUser())] + "; true")
	}, map[string]string{
		".gitignore": ".manager\nplan.yaml\n",
		"both.txt":   "first\n",
		"plan.yaml": `
task: Do it
model: scripted/agent
sub_tasks:
  - {id: switch, description: Switch}
  - {id: merge, description: Merge, depends_on: [switch]}
  - {id: nothing, description: Write, depends_on: [merge]}
`,
	})
	git := exec.CommandContext(t.Context(), "sh", "-ec", `git checkout -q -b side; echo side > both.txt; git commit -qam side
git checkout -q -; git branch -M main; echo main > both.txt; git commit -qam main`)
	git.Dir, git.Env = w.dir, append(git.Environ(), "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e@x", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e@x")
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, errs := w.run(0, "run", "plan.yaml", "--json", w.attached())
	made, _ := w.run(0, "report")
	for where, text := range map[string]string{"stderr of the run": errs, "the report": made} {
		for _, want := range []string{
			"git is on branch side now, and was on branch main before", "`git merge` was begun meanwhile and is not over",
		} {
			if strings.Count(text, want) != 1 {
				t.Errorf("%s does not say once %q:\n%s", where, want, text)
			}
		}
	}
	if !strings.Contains(errs, "manager: warning: switch: git is on branch side") {
		t.Errorf("stderr:\n%s", errs)
	}
}
