package project

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/scope"
	"github.com/bouldermgr/manager/internal/text"
)

// CheckSeal refuses a plan that was made for another commit of the project if files differ there that it is about, and names
// them; else it is a note. file is where the plan is, or empty.
func (p *Project) CheckSeal(ctx context.Context, plan *boulder.Plan, file string, allowStale bool) error {
	if plan.Edited() {
		p.note("The plan was edited after it was made; it runs as it is written.")
	}
	moved, stale := p.otherCommit(ctx, plan, p.base, file)
	switch {
	case moved == "":
		return nil
	case allowStale:
		p.note("Note: %s.", moved)
		return nil
	case !stale:
		p.note("Note: %s; nothing that the plan is about has changed.", moved)
		return nil
	}
	return usagef("%s: plan again with `manager plan`, or run it all the same with --allow-stale", moved)
}

// otherCommit says that a plan was made for another commit than base, or returns "". It is stale, and the files are named, if
// some differ that a sub-task can touch or a text of the plan names, or if that cannot be told.
func (p *Project) otherCommit(ctx context.Context, plan *boulder.Plan, base, file string) (moved string, stale bool) {
	if plan.Seal == nil || plan.Seal.Base == base || plan.Seal.Base == "" {
		return "", false
	}
	moved = fmt.Sprintf("the plan was made for commit %s, and the project is at %s",
		Short(plan.Seal.Base), cmp.Or(Short(base), "no commit"))
	if base == "" {
		return moved, true
	}
	names, err := p.work().Patch(ctx, plan.Seal.Base, base, "--name-only", nil)
	if err != nil {
		p.log.Info("what differs from the plan's commit is not known", "error", err)
		return moved, true
	}
	concerned := concerns(plan, slices.DeleteFunc(strings.Split(strings.TrimSuffix(names, "\n"), "\n"), func(name string) bool {
		return name == "" || name == sharedConfig || file != "" && filepath.Join(p.dir, name) == p.resolved(file)
	}))
	return moved + movedFiles(concerned), len(concerned) > 0
}

// resolved returns a path as git knows it.
func (p *Project) resolved(file string) string {
	if at, err := filepath.EvalSymlinks(file); err == nil {
		return at
	}
	return file
}

// concerns returns those of changed files that a plan is about: its sub-tasks may write them, or a gate or a text of it names
// them. A sub-task without writes may write any.
func concerns(plan *boulder.Plan, changed []string) (about []string) {
	var writes, read []string
	for _, s := range plan.SubTasks {
		if len(s.Writes) == 0 {
			return changed
		}
		writes = append(writes, s.Writes...)
		for _, line := range slices.Concat(s.Gates, s.NoWorse) {
			for _, word := range strings.Fields(line) {
				word = strings.TrimSuffix(strings.Trim(word, `"'`), "...")
				if name := path.Clean(word); name != "." && strings.ContainsAny(word, "/.") { // others may be no paths
					read = append(read, name)
				}
			}
		}
	}
	bare := *plan
	bare.Seal = nil
	said, _ := json.Marshal(bare) // a checked plan always marshals
	outside := scope.Outside(writes, changed)
	for _, name := range changed {
		below := func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
		if !slices.Contains(outside, name) || slices.ContainsFunc(read, below) || strings.Contains(string(said), path.Base(name)) {
			about = append(about, name)
		}
	}
	return about
}

// movedFiles says which files differ from the state that a plan was made for.
func movedFiles(names []string) string {
	if len(names) == 0 {
		return ""
	}
	const shown = 8
	differ := text.Plural(len(names), "file") + " differ" + text.If(len(names) == 1, "s")
	if more := len(names) - shown; more > 0 {
		names = append(names[:shown:shown], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf(", where %s: %s", differ, strings.Join(names, ", "))
}
