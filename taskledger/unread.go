package taskledger

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// lostOrder tells the model of keys that no field reads and that name other sub-tasks, where depends_on does not order
// the two: they would run at once. Only the model knows which of them comes first (waits_for, unblocks). specs have their
// dependencies, without cycles. meant returns the ids that sub-task i calls a name, or nil.
func (a *answer) lostOrder(specs []boulder.Spec, meant func(i int, name string) []string) (told []string) {
	const do = "say in depends_on which sub-tasks need the results of which, and leave this key out"
	for _, key := range slices.Sorted(maps.Keys(a.Rest)) {
		var named []string
		for _, name := range namesIn(a.Rest[key], false) {
			addTo(&named, meant(-1, name)...)
		}
		if i := slices.IndexFunc(named, func(id string) bool { return !ordered(specs, named[0], id) }); i >= 0 {
			told = append(told, fmt.Sprintf("the key %q is not read, and it names the sub-tasks %q and %q: %s", text.Cut(key, maxID), named[0], named[i], do))
		}
	}
	for i, s := range a.SubTasks {
		for _, key := range slices.Sorted(maps.Keys(s.Rest)) {
			for _, name := range namesIn(s.Rest[key], false) {
				ids := meant(i, name)
				if lost := slices.IndexFunc(ids, func(id string) bool { return !ordered(specs, specs[i].ID, id) }); lost >= 0 {
					told = append(told, fmt.Sprintf("the key %q of sub-task %q is not read, and it names %q: %s", text.Cut(key, maxID), specs[i].ID, ids[lost], do))
					break
				}
			}
		}
	}
	return told
}

// ordered reports whether one sub-task is the other, or waits for it.
func ordered(specs []boulder.Spec, one, other string) bool {
	var waits func(id, on string) bool
	waits = func(id, on string) bool {
		return id == on || slices.ContainsFunc(specs, func(s boulder.Spec) bool {
			return s.ID == id && slices.ContainsFunc(s.DependsOn, func(next string) bool { return waits(next, on) })
		})
	}
	return waits(one, other) || waits(other, one)
}

// namesIn returns what in a value may name a sub-task. A number counts only in a list: by itself it is a priority or an
// estimate.
func namesIn(value any, listed bool) (names []string) {
	switch value := value.(type) {
	case float64:
		if listed {
			names = append(names, strconv.FormatFloat(value, 'f', -1, 64))
		}
	case string:
		if _, err := strconv.Atoi(value); err != nil || listed {
			names = append(names, nonEmpty(append(strings.Split(value, ","), value))...)
		}
	case []any:
		for _, item := range value {
			names = append(names, namesIn(item, true)...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			names = append(append(names, key), namesIn(value[key], listed)...)
		}
	}
	return names
}

// unread returns the keys that no field reads and that say something.
func (a *answer) unread() (keys []string) {
	says := func(in string, rest map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(rest)) {
			if value := fmt.Sprint(rest[key]); !slices.Contains([]string{"", "<nil>", "false", "[]", "map[]"}, value) {
				addTo(&keys, strconv.Quote(text.Cut(in+oneLine(key), maxID)))
			}
		}
	}
	says("", a.Rest)
	for _, s := range a.SubTasks {
		says("sub_tasks: ", s.Rest)
	}
	return keys
}

// warnOfUnread names the keys whose content is not in the plan.
func (p *Planner) warnOfUnread(a *answer) {
	if keys := a.unread(); len(keys) > 0 && p.Warn != nil {
		p.Warn("The model's plan has keys that are not read, and what they say is not in the plan: " + text.Cut(strings.Join(keys, ", "), maxNote))
	}
}
