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

// replacement turns an answer into new sub-tasks, or explains to the model why it cannot.
func (a *answer) replacement(req boulder.ReplanRequest) (made boulder.Replacement, err error) {
	n, most := len(a.SubTasks), maxSplit
	if len(req.Missing) > 0 {
		most = boulder.MaxAdded
	}
	if n < 1 || n > most {
		return made, fmt.Errorf("there are %d sub_tasks; give 1 to %d", n, most)
	}
	p := &boulder.Plan{Version: boulder.PlanVersion, Task: "-", SubTasks: a.specs(req.Facts)}
	chosen := a.chosen(p.SubTasks, req.Describe)
	fill(p)
	r := &replanner{
		answer: a, req: req, specs: p.SubTasks, old: dependables(req),
		replaces: make([]*boulder.SubTask, n), newDeps: make([][]int, n), repeated: make([]string, n),
	}
	told := slices.Concat(a.repetitions(), chosen, r.findReplaced(), r.findDependencies(), r.findRepeated())
	if err := feedback(told, problems(&boulder.Plan{Version: p.Version, Task: p.Task, Facts: req.Facts, SubTasks: r.joined(false)})); err != nil {
		return made, err
	}
	if err := feedback(a.lostOrder(r.joined(true), r.named)); err != nil {
		return made, err
	}
	r.trim()
	r.rename()
	r.inherit()
	if r.repeats() {
		return made, errors.New("this is a plan that was tried before and did not work: find another way")
	}
	made = boulder.Replacement{SubTasks: r.joined(true), Replaces: map[string]string{}}
	for i, old := range r.replaces {
		if old != nil {
			made.Replaces[r.specs[i].ID] = old.ID
		}
	}
	return made, nil
}

// replanner converts one answer. Sub-tasks of the answer go by their index until their ids are final.
type replanner struct {
	*answer
	req      boulder.ReplanRequest
	specs    []boulder.Spec     // DependsOn has old sub-tasks only
	replaces []*boulder.SubTask // by spec; nil: none
	newDeps  [][]int            // by spec: dependencies on others of the answer
	repeated []string           // by spec: the done or kept sub-task with the same description
	old      map[string]string  // subjects, by id, of the done or kept sub-tasks that new ones may depend on
}

// joined returns the new sub-tasks with their dependencies on each other, and on old ones if old is set.
func (r *replanner) joined(old bool) []boulder.Spec {
	specs := slices.Clone(r.specs)
	for i := range specs {
		s := &specs[i]
		if s.DependsOn = slices.Clone(s.DependsOn); !old {
			s.DependsOn = nil
		}
		for _, j := range r.newDeps[i] {
			s.DependsOn = append(s.DependsOn, specs[j].ID)
		}
	}
	return specs
}

// dependables returns the done and kept sub-tasks that can still be waited for, including unlisted dependencies of
// replaced ones, which are done or kept too.
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

func (r *replanner) findReplaced() (told []string) {
	var ids []string
	for _, t := range r.req.Replaced {
		ids = append(ids, t.ID)
	}
	for i, s := range r.SubTasks {
		name := strings.TrimSpace(s.Replaces)
		if slices.Contains([]string{"", "none", "null", "-"}, strings.ToLower(name)) {
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

func (r *replanner) findDependencies() (told []string) {
	oldIDs := slices.Sorted(maps.Keys(r.old))
	may := "name new sub-tasks only"
	if len(oldIDs) > 0 {
		may = "name new sub-tasks, or of the old ones " + text.Cut(strings.Join(oldIDs, ", "), maxNote)
	}
	for i, s := range r.SubTasks {
		id := r.specs[i].ID
		for _, name := range nonEmpty(s.DependsOn) {
			own, old := r.meant(i, name, oldIDs)
			addTo(&r.newDeps[i], own...)
			replaced := r.replaces[i]
			switch {
			case own != nil:
			case old != "":
				addTo(&r.specs[i].DependsOn, old)
			case r.answer.meant(name, r.specs) == id:
				told = append(told, fmt.Sprintf("sub-task %q depends on itself: remove it from depends_on", id))
			case replaced != nil && replaced.ID == name:
				told = append(told, fmt.Sprintf("sub-task %q depends on %q, which it replaces: remove it from depends_on", id, name))
			default:
				told = append(told, fmt.Sprintf("sub-task %q depends on %q, which is neither new nor done nor kept: %s",
					id, text.Cut(name, maxID), may))
			}
		}
	}
	return told
}

// meant returns what sub-task i calls name: new sub-tasks or an old one; first by id, then by number or subject. The
// name of a replaced sub-task means those that replace it.
func (r *replanner) meant(i int, name string, oldIDs []string) (own []int, old string) {
	others := func(fits func(j int) bool) (all []int) {
		for j := range r.specs {
			if j != i && fits(j) {
				all = append(all, j)
			}
		}
		return all
	}
	if given := others(func(j int) bool { return strings.TrimSpace(r.SubTasks[j].ID) == name }); given != nil {
		return given[:1], ""
	}
	if slices.Contains(oldIDs, name) {
		return nil, name
	}
	if heirs := others(func(j int) bool { return r.replaces[j] != nil && r.replaces[j].ID == name }); heirs != nil {
		return heirs, ""
	}
	id := r.answer.meant(name, r.specs)
	if called := others(func(j int) bool { return r.specs[j].ID == id }); called != nil {
		return called[:1], ""
	}
	for _, id := range oldIDs {
		if subject := r.old[id]; subject != "" && strings.EqualFold(oneLine(subject), oneLine(name)) {
			return nil, id
		}
	}
	return nil, ""
}

// named returns the ids of the new and old sub-tasks that sub-task i calls name; with i -1, of new ones alone.
func (r *replanner) named(i int, name string) (ids []string) {
	own, old := r.meant(i, name, slices.Sorted(maps.Keys(r.old)))
	for _, j := range own {
		ids = append(ids, r.specs[j].ID)
	}
	if old != "" && i >= 0 {
		ids = append(ids, old)
	}
	return ids
}

var numbered = text.Regexp(`^(.+)-\d{1,4}$`)

// rename replaces ids in use: it appends the first free number from 2, in place of a number that they have.
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

// inherit keeps in force what the user may have written into the replaced sub-tasks.
func (r *replanner) inherit() {
	var all []int
	for i, old := range r.replaces {
		all = append(all, i)
		if old != nil {
			s := &r.specs[i]
			s.Model, s.Agent, s.Priority, s.DoneWhen = old.Wanted(), old.Agent, old.Priority, slices.Clone(old.DoneNamed())
			addTo(&s.Found, old.Found...)
			addTo(&s.Questions, old.Questions...)
			if old.Budget != nil {
				s.Budget = new(*old.Budget)
			}
		}
	}
	var mayStayRed, mustPass []string
	for i := range r.req.Replaced {
		old := &r.req.Replaced[i]
		if len(old.Gates)+len(old.NoWorse) == 0 {
			continue
		}
		mayStayRed, mustPass = append(mayStayRed, old.NoWorse...), append(mustPass, old.Gates...)
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
		// If the user lets a command stay red, the model cannot make it one that must pass.
		s.Gates = slices.DeleteFunc(s.Gates, func(gate string) bool {
			stays := slices.Contains(mayStayRed, gate) && !slices.Contains(mustPass, gate)
			if stays {
				addTo(&s.NoWorse, gate)
			}
			return stays
		})
		s.NoWorse = slices.DeleteFunc(s.NoWorse, func(gate string) bool { return slices.Contains(s.Gates, gate) })
	}
}

// last returns which of some new sub-tasks is done after all others of them: the last one on which no other depends. It
// makes that one depend on those that it would not wait for, since its gates may need them.
func (r *replanner) last(some []int) int {
	ends := slices.DeleteFunc(slices.Clone(some), func(i int) bool {
		return slices.ContainsFunc(some, func(j int) bool { return i != j && r.dependsOn(j, i) })
	})
	end := ends[len(ends)-1]
	r.newDeps[end] = append(r.newDeps[end], ends[:len(ends)-1]...)
	return end
}

// dependsOn reports whether i waits for j, directly or not. The graph has no cycle.
func (r *replanner) dependsOn(i, j int) bool {
	return slices.ContainsFunc(r.newDeps[i], func(k int) bool { return k == j || r.dependsOn(k, j) })
}

func (r *replanner) repeats() bool {
	var replaced []boulder.Spec
	for i := range r.req.Replaced {
		replaced = append(replaced, r.req.Replaced[i].Spec())
	}
	made := boulder.SpecsHash(r.specs)
	return made == boulder.SpecsHash(replaced) || slices.Contains(r.req.Earlier, made)
}
