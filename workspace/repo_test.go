package workspace_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/workspace"
)

// Whatever an agent does to the git of the project, besides files, is told; finishing or undoing it is not.
func TestRepoTellsWhereGitWasLeft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		does string // commands; a red one is what leaves an operation open
		want []string
	}{
		"nothing":            {"true", nil},
		"files alone":        {"echo x > new; git add new", nil},
		"another branch":     {"git checkout -q side", []string{"git is on branch side now, and was on branch main before"}},
		"a new branch":       {"git switch -qc 'new'", []string{"git is on branch new now, and was on branch main before"}},
		"there and back":     {"git checkout -q side; git checkout -q main", nil},
		"an unborn branch":   {"git checkout -q --orphan none", []string{"git is on branch none now, and was on branch main before"}},
		"detached":           {"git checkout -q --detach", []string{"git is on no branch now (HEAD is detached at "}},
		"detached elsewhere": {"git checkout -q side~0", []string{"git is on no branch now (HEAD is detached at "}},
		"a commit":           {"git commit -qm more --allow-empty", []string{"commits were made or taken back meanwhile: branch main was at "}},
		"a reset":            {"git reset -q --hard HEAD~1", []string{"commits were made or taken back meanwhile: branch main was at "}},
		"a merge":            {"git merge -q side", []string{"`git merge` was begun meanwhile and is not over: finish it, or end it with `git merge --abort`"}},
		"a merge, ended":     {"git merge -q side; git merge --abort", nil},
		"a merge, done":      {"git merge -q -s ours -m m side", []string{"commits were made or taken back meanwhile: branch main was at "}},
		"a rebase":           {"git rebase -q side", []string{"`git rebase` was begun "}},
		"another rebase":     {"git rebase -q --apply side", []string{"`git rebase` was begun "}},
		"a rebase, ended":    {"git rebase -q side; git rebase --abort", nil},
		"a cherry-pick":      {"git cherry-pick side", []string{"`git cherry-pick` was begun "}},
		"a revert":           {"git revert --no-edit HEAD~1", []string{"`git revert` was begun "}},
		"an am":              {"git format-patch -q -1 side --stdout | git am -q", []string{"`git am` was begun "}},
		"a bisect": {
			"git bisect start; git bisect bad; git bisect good HEAD~1",
			[]string{"`git bisect` was begun meanwhile and is not over: finish it, or end it with `git bisect reset`"},
		},
		"a stash": {"echo x > both; git stash -q", []string{"changes were put into the stash meanwhile: see `git stash list`"}},
		"a pop":   {"git stash pop -q", []string{"the stash lacks 1 of its entries: `git stash apply "}},
		"a drop":  {"git stash drop -q stash@{1}", []string{"the stash lacks 1 of its entries: `git stash apply "}},
		"a clear": {"git stash clear", []string{"the stash lacks 2 of its entries: `git stash apply "}},
		"a switch in the middle": {
			"git stash clear; git checkout -q side; git merge -q main",
			[]string{"`git merge` was begun ", "git is on branch side now, and was on branch main before", "the stash lacks 2 "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, "both", "1\n", "other", "1\n")
			r.git("checkout", "-q", "-b", "side")
			r.write("both", "side\n")
			r.commit()
			r.git("checkout", "-q", "main")
			r.write("both", "main\n")
			r.commit()
			r.write("both", "2\n")
			r.commit()
			for _, content := range []string{"old\n", "stashed\n"} {
				r.write("other", content)
				r.git("stash", "-q")
			}
			w := r.open("")
			before := repoOf(t, w)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", test.does)
			cmd.Dir, cmd.Env = r.dir, append(cmd.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
				"GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e@x", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e@x")
			out, _ := cmd.CombinedOutput() // conflicts fail
			got := repoOf(t, w).Since(before)
			fits := len(got) == len(test.want)
			for i := range min(len(got), len(test.want)) {
				fits = fits && strings.HasPrefix(got[i], test.want[i])
			}
			if !fits {
				t.Errorf("got %q, want %q\n%s", got, test.want, out)
			}
		})
	}
}

func repoOf(t *testing.T, w *workspace.Workspace) *boulder.Repo {
	t.Helper()
	r, err := w.Repo(t.Context())
	must(t, err)
	return r
}
