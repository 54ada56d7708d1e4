package taskledger

import (
	"slices"

	"github.com/bouldermgr/manager/boulder"
)

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
