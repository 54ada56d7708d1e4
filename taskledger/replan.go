package taskledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// replacement turns an answer into new sub-tasks, or says in words for the model why it cannot.
func (a *answer) replacement(req boulder.ReplanRequest) (boulder.Replacement, error) {
	n := len(a.SubTasks)
	if n < 1 || n > maxSplit {
		return boulder.Replacement{}, fmt.Errorf("there are %d sub_tasks; give 1 to %d", n, maxSplit)
	}
	p := &boulder.Plan{SubTasks: a.specs()}
	fill(p)
	r := &replanner{
		req: req, answer: a, specs: p.SubTasks, old: dependables(req),
		replaces: make([]*boulder.SubTask, n), own: make([][]int, n),
	}
	if err := tell(a.repetitions(), r.findReplaced(), r.findDependencies(), r.check()); err != nil {
		return boulder.Replacement{}, err
	}
	r.rename()
	r.inherit()
	if r.repeats() {
		return boulder.Replacement{}, errors.New("this is a plan that was tried before and did not work: find another way")
	}
	return r.result(), nil
}

// replanner works one answer out. Sub-tasks of the answer go by their place in it until their ids are final.
type replanner struct {
	*answer
	req      boulder.ReplanRequest
	specs    []boulder.Spec
	replaces []*boulder.SubTask // of each spec; nil: none
	own      [][]int            // dependencies of each spec on others of the answer
	old      map[string]string  // ids of what a new sub-task may depend on: done or kept; to their subjects
}

// dependables are the done and kept sub-tasks that can still be waited for. What a replaced one depends on is either
// done or kept, also where the request does not list it.
func dependables(req boulder.ReplanRequest) map[string]string {
	ids := map[string]string{}
	for _, t := range req.Replaced {
		for _, id := range t.DependsOn {
			ids[id] = ""
		}
	}
	for _, t := range slices.Concat(req.Done, req.Kept, []boulder.SubTask{req.Failed}) {
		delete(ids, t.ID)
		if t.ID != "" && dependable(t) {
			ids[t.ID] = t.Subject
		}
	}
	for _, t := range req.Replaced {
		delete(ids, t.ID)
	}
	return ids
}

func dependable(t boulder.SubTask) bool {
	return t.Status == boulder.SubTaskCompleted || !t.Status.Terminal() && t.Status != boulder.SubTaskBlocked
}

// findReplaced finds out what each new sub-task is a changed form of.
func (r *replanner) findReplaced() []string {
	var told, ids []string
	for _, t := range r.req.Replaced {
		ids = append(ids, t.ID)
	}
	for i, s := range r.SubTasks {
		name := strings.TrimSpace(s.Replaces)
		if name == "" || slices.Contains([]string{"none", "null", "-"}, strings.ToLower(name)) {
			continue
		}
		meant := slices.IndexFunc(r.req.Replaced, func(t boulder.SubTask) bool {
			return strings.EqualFold(t.ID, name) || strings.EqualFold(oneLine(t.Subject), oneLine(name))
		})
		if meant < 0 {
			told = append(told, fmt.Sprintf("sub-task %q replaces %q, which is not replaced: name one of %s, or leave it empty",
				r.specs[i].ID, text.Cut(name, maxID), text.Cut(strings.Join(ids, ", "), maxNote)))
			continue
		}
		r.replaces[i] = &r.req.Replaced[meant]
	}
	return told
}

// findDependencies resolves what each new sub-task depends on.
func (r *replanner) findDependencies() []string {
	var told []string
	for i, s := range r.SubTasks {
		for _, name := range said(s.DependsOn) {
			own, old, ok := r.meant(i, name)
			if !ok {
				told = append(told, r.unknown(i, name))
			}
			addTo(&r.own[i], own...)
			if old != "" {
				addTo(&r.specs[i].DependsOn, old)
			}
		}
	}
	return told
}

// meant gives what sub-task i calls name: new sub-tasks, or an old one. An id goes before a number or a subject. Who
// depends on something that is replaced means what takes its place.
func (r *replanner) meant(i int, name string) (own []int, old string, ok bool) {
	given := func(j int) bool { return strings.TrimSpace(r.SubTasks[j].ID) == name }
	if j := r.other(i, given); j >= 0 {
		return []int{j}, "", true
	}
	if _, known := r.old[name]; known {
		return nil, name, true
	}
	for j, t := range r.replaces {
		if j != i && t != nil && t.ID == name {
			own = append(own, j)
		}
	}
	if own != nil {
		return own, "", true
	}
	id := r.answer.meant(name, r.specs)
	if j := r.other(i, func(j int) bool { return r.specs[j].ID == id }); j >= 0 {
		return []int{j}, "", true
	}
	for _, id := range r.oldIDs() {
		if subject := r.old[id]; subject != "" && strings.EqualFold(oneLine(subject), oneLine(name)) {
			return nil, id, true
		}
	}
	return nil, "", false
}

func (r *replanner) oldIDs() []string { return slices.Sorted(maps.Keys(r.old)) }

// other finds the first sub-task of the answer that is not i and fits, or -1.
func (r *replanner) other(i int, fits func(j int) bool) int {
	for j := range r.specs {
		if j != i && fits(j) {
			return j
		}
	}
	return -1
}

func (r *replanner) unknown(i int, name string) string {
	if r.answer.meant(name, r.specs) == r.specs[i].ID {
		return fmt.Sprintf("sub-task %q depends on itself: remove it from depends_on", r.specs[i].ID)
	}
	if old := r.replaces[i]; old != nil && old.ID == name {
		return fmt.Sprintf("sub-task %q depends on %q, which it replaces: remove it from depends_on", r.specs[i].ID, name)
	}
	may := "name new sub-tasks only"
	if len(r.old) > 0 {
		may = "name new sub-tasks, or of the old ones " + text.Cut(strings.Join(r.oldIDs(), ", "), maxNote)
	}
	return fmt.Sprintf("sub-task %q depends on %q, which is neither new nor done nor kept: %s",
		r.specs[i].ID, text.Cut(name, maxID), may)
}

// check looks at the new sub-tasks as at a plan of their own.
func (r *replanner) check() []string {
	p := &boulder.Plan{Version: boulder.PlanVersion, Task: "-", SubTasks: slices.Clone(r.specs)}
	for i := range p.SubTasks {
		p.SubTasks[i].DependsOn = nil
		for _, j := range r.own[i] {
			p.SubTasks[i].DependsOn = append(p.SubTasks[i].DependsOn, r.specs[j].ID)
		}
	}
	return problems(p)
}

var numbered = text.Regexp(`^(.+)-\d{1,4}$`)

// rename gives new ids where the model's own are taken: with the first free number from 2 behind them, in place of one that
// they have.
func (r *replanner) rename() {
	taken := slices.Clone(r.req.Taken)
	for _, s := range r.specs {
		taken = append(taken, s.ID)
	}
	for i, s := range r.specs {
		base, id := numbered().ReplaceAllString(s.ID, "$1"), s.ID
		for n := 2; slices.Contains(r.req.Taken, s.ID) && slices.Contains(taken, id); n++ {
			number := "-" + strconv.Itoa(n)
			id = base[:min(len(base), maxID-len(number))] + number
		}
		r.specs[i].ID, taken = id, append(taken, id)
	}
}

func (r *replanner) result() boulder.Replacement {
	made := boulder.Replacement{SubTasks: r.specs, Replaces: map[string]string{}}
	for i := range r.specs {
		for _, j := range r.own[i] {
			r.specs[i].DependsOn = append(r.specs[i].DependsOn, r.specs[j].ID)
		}
		if old := r.replaces[i]; old != nil {
			made.Replaces[r.specs[i].ID] = old.ID
		}
	}
	return made
}

// inherit keeps in force what a person may have written into the replaced sub-tasks.
func (r *replanner) inherit() {
	all := make([]int, len(r.specs))
	for i := range all {
		all[i] = i
		if old := r.replaces[i]; old != nil {
			s := &r.specs[i]
			s.Model, s.Agent, s.Priority, s.DoneWhen = old.Model, old.Agent, old.Priority, slices.Clone(old.DoneWhen)
			if old.Budget != nil {
				s.Budget = new(*old.Budget)
			}
		}
	}
	mayStayRed, mustPass := map[string]bool{}, map[string]bool{}
	for i := range r.req.Replaced {
		old := &r.req.Replaced[i]
		for _, gate := range old.NoWorse {
			mayStayRed[gate] = true
		}
		for _, gate := range old.Gates {
			mustPass[gate] = true
		}
		if len(old.Gates)+len(old.NoWorse) == 0 {
			continue
		}
		heirs := slices.DeleteFunc(slices.Clone(all), func(j int) bool { return r.replaces[j] != old })
		if len(heirs) == 0 {
			heirs = all
		}
		heir := &r.specs[r.last(heirs)]
		gates := slices.Clone(old.Gates)
		addTo(&gates, heir.Gates...)
		heir.Gates = gates
		addTo(&heir.NoWorse, old.NoWorse...)
	}
	for i := range r.specs {
		s := &r.specs[i]
		// A command that may stay red by a person's word does not become one that must pass by the model's.
		s.Gates = slices.DeleteFunc(s.Gates, func(gate string) bool {
			if !mayStayRed[gate] || mustPass[gate] {
				return false
			}
			addTo(&s.NoWorse, gate)
			return true
		})
		s.NoWorse = slices.DeleteFunc(s.NoWorse, func(gate string) bool { return slices.Contains(s.Gates, gate) })
		nilIfEmpty(&s.Gates)
		nilIfEmpty(&s.NoWorse)
	}
}

// last gives the one of some new sub-tasks after which all of them are done: the last on which no other one depends. It
// waits for those that nothing else makes it wait for, because its gates can hold only when they are done too.
func (r *replanner) last(some []int) int {
	ends := slices.DeleteFunc(slices.Clone(some), func(i int) bool {
		return slices.ContainsFunc(some, func(j int) bool { return i != j && r.dependsOn(j, i) })
	})
	end := ends[len(ends)-1]
	r.own[end] = append(r.own[end], ends[:len(ends)-1]...)
	return end
}

// dependsOn reports whether i waits for j, if only by way of others. The graph has no cycle.
func (r *replanner) dependsOn(i, j int) bool {
	return slices.ContainsFunc(r.own[i], func(k int) bool { return k == j || r.dependsOn(k, j) })
}

// repeats reports whether this was tried before. A plan is not another one because its gates are: those are inherited, or
// suggestions.
func (r *replanner) repeats() bool {
	var replaced []boulder.Spec
	for i := range r.req.Replaced {
		replaced = append(replaced, r.req.Replaced[i].Spec())
	}
	asOld := slices.Clone(r.specs)
	for i, old := range r.replaces {
		if old != nil {
			asOld[i].Gates, asOld[i].NoWorse = old.Spec().Gates, old.NoWorse
		}
	}
	bare, earlier := boulder.SpecsHash(ungated(r.specs)), r.req.Earlier
	return bare == boulder.SpecsHash(ungated(replaced)) || slices.Contains(earlier, bare) ||
		slices.Contains(earlier, boulder.SpecsHash(r.specs)) || slices.Contains(earlier, boulder.SpecsHash(asOld))
}

func ungated(specs []boulder.Spec) []boulder.Spec {
	bare := slices.Clone(specs)
	for i := range bare {
		bare[i].Gates, bare[i].NoWorse = nil, nil
	}
	return bare
}
