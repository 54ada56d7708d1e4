package boulder

import (
	"fmt"
	"slices"
)

// Repo is where the git of a project stands, apart from its files. Its zero value means that there is none.
type Repo struct {
	Branch string   `json:"branch,omitempty"` // empty: HEAD is detached
	Commit string   `json:"commit,omitempty"` // empty: there is none yet
	Stash  []string `json:"stash,omitempty"`  // commits of its entries, newest first
	Open   []string `json:"open,omitempty"`   // operations that are not over: rebase, merge, cherry-pick, revert, am, bisect
}

// Since says what is different from before, for the user, who finds the repository like this after a run in place.
func (r *Repo) Since(before *Repo) (says []string) {
	if r == nil || before == nil {
		return nil
	}
	for _, o := range r.Open {
		if !slices.Contains(before.Open, o) {
			says = append(says, fmt.Sprintf("`git %s` was begun meanwhile and is not over: finish it, or end it with `git %[1]s %s`",
				o, map[bool]string{true: "reset", false: "--abort"}[o == "bisect"]))
		}
	}
	begun, short := len(says) > 0, func(commit string) string { return commit[:min(len(commit), 10)] }
	switch moved := r.Commit != before.Commit; {
	case r.Branch != before.Branch && r.Branch != "":
		says = append(says, fmt.Sprintf("git is on branch %s now, and was on %s before", r.Branch, before.place()))
	case r.Branch != before.Branch && !begun: // a rebase detaches HEAD as long as it lasts
		says = append(says, fmt.Sprintf("git is on no branch now (HEAD is detached at %s), and was on branch %s before",
			short(r.Commit), before.Branch))
	case moved && !begun && before.Commit == "":
		says = append(says, "the first commit was made meanwhile: "+short(r.Commit))
	case moved && !begun:
		says = append(says, fmt.Sprintf("commits were made or taken back meanwhile: %s was at %s, and is at %s now",
			r.place(), short(before.Commit), short(r.Commit)))
	}
	lost := slices.DeleteFunc(slices.Clone(before.Stash), func(c string) bool { return slices.Contains(r.Stash, c) })
	if len(lost) > 0 {
		says = append(says, fmt.Sprintf("the stash lacks %d of its entries: `git stash apply %s` brings the newest of them back",
			len(lost), short(lost[0])))
	}
	if slices.ContainsFunc(r.Stash, func(c string) bool { return !slices.Contains(before.Stash, c) }) {
		says = append(says, "changes were put into the stash meanwhile: see `git stash list`")
	}
	return says
}

func (r *Repo) place() string {
	if r.Branch != "" {
		return "branch " + r.Branch
	}
	return "no branch"
}
