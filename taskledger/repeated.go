package taskledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// findRepeated finds new sub-tasks with the description of one that is done or kept. One that has only its subject is for
// the model to decide.
func (r *replanner) findRepeated() (told []string) {
	same := func(a, b string) bool { return a != "" && strings.EqualFold(oneLine(a), oneLine(b)) }
	others := slices.Concat(r.req.Done, r.req.Kept)
	for i, s := range r.specs {
		at := slices.IndexFunc(others, func(t boulder.SubTask) bool { return same(t.Description, s.Description) })
		if at >= 0 && dependable(others[at]) {
			r.repeated[i] = others[at].ID
			continue
		}
		if at < 0 {
			at = slices.IndexFunc(others, func(t boulder.SubTask) bool { return same(t.Subject, s.Subject) })
		}
		if at >= 0 {
			state := "kept"
			if others[at].Status == boulder.SubTaskCompleted {
				state = "done"
			}
			told = append(told, fmt.Sprintf("sub-task %q repeats %q, which is %s: leave it out and build on that one; if other "+
				"work is meant, say so in its subject and description", s.ID, others[at].ID, state))
		}
	}
	if !slices.Contains(r.repeated, "") {
		told = append(told, "all of these sub-tasks are done or kept already: plan what is still missing")
	}
	return told
}

// trim removes the repeated sub-tasks. Others then depend on the one that is done or kept, and still on what the removed
// one would have waited for.
func (r *replanner) trim() {
	place := make([]int, len(r.specs)) // of those that stay
	stay := 0
	for i, repeated := range r.repeated {
		place[i] = stay
		if repeated == "" {
			stay++
		}
	}
	var specs []boulder.Spec
	var replaces []*boulder.SubTask
	var newDeps [][]int
	for i, spec := range r.specs {
		if r.repeated[i] != "" {
			continue
		}
		var deps []int
		waits := slices.Clone(r.newDeps[i])
		for n := 0; n < len(waits); n++ { // it grows
			j := waits[n]
			if r.repeated[j] == "" {
				deps = append(deps, place[j])
				continue
			}
			addTo(&spec.DependsOn, r.repeated[j])
			addTo(&spec.DependsOn, r.specs[j].DependsOn...)
			addTo(&waits, r.newDeps[j]...)
		}
		specs, replaces, newDeps = append(specs, spec), append(replaces, r.replaces[i]), append(newDeps, deps)
	}
	r.specs, r.replaces, r.newDeps = specs, replaces, newDeps
}
