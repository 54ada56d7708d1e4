package tasklist

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// Fields of a prd.json, by what they hold.
var (
	storyKeys  = []string{"userStories", "user_stories", "stories", "features", "items", "requirements", "tasks"}
	titleKeys  = []string{"project", "name", "description"}
	aboutKeys  = []string{"overview", "instructions", "goals", "rules", "successMetrics", "stack", "uiNotes"}
	limitKeys  = []string{"constraints"}
	notOurKeys = []string{"nonGoals", "non_goals", "outOfScope"}
	// commandKeys are for commands that must succeed, of a story or of all.
	commandKeys = []string{"verificationCommands", "verification_commands", "qualityGates", "quality_gates", "testCommand",
		"test_command", "testCommands", "preCommit", "gates", "gate", "verifyCommand", "verify", "validationCommands"}
	afterKeys = []string{"dependsOn", "depends_on", "dependencies", "blockedBy", "blocked_by"}
)

// notGoal begins a constraint that the file has under what is out of scope.
const notGoal = "Not a goal: "

// stories returns the list of a prd.json's object, or nil. Most names of it are others' as well: there its entries have to look
// like stories.
func stories(root *value) *value {
	for n, key := range storyKeys {
		list := root.get(key)
		if list != nil && list.list && (n < 2 && len(list.items) == 0 || some(list.items, "passes", "acceptanceCriteria", "acceptance_criteria")) {
			return list
		}
	}
	return nil
}

// readRalph reads stories in the order of their numbers, one after the other, unless they say what they depend on.
func (r *reader) readRalph(root *value, all []*value) error {
	r.list.Kind = ralph
	r.title = text.JoinedBy(": ", root.get("project", "name").line1(), root.get("description").line1())
	for _, key := range aboutKeys {
		if said := root.get(key).texts(); len(said) > 0 {
			r.about = text.JoinedBy("\n\n", r.about, key+":\n- "+strings.Join(said, "\n- "))
		}
	}
	r.constraints = appendNew(r.constraints, root.get(limitKeys...).texts()...)
	for _, said := range root.get(notOurKeys...).texts() {
		r.constraints = appendNew(r.constraints, notGoal+said)
	}
	for _, key := range commandKeys {
		r.commands(&r.gates, &r.demands, root.get(key), key, "")
	}
	known := slices.Concat(storyKeys, titleKeys, aboutKeys, limitKeys, notOurKeys, commandKeys)
	for _, f := range root.fields {
		if !slices.Contains(known, f.key) {
			r.note(f.value.line, f.key, Left, "a field that manager does not use")
		}
	}
	keyed := false // the file says what depends on what
	numbers := map[*item]float64{}
	for n, v := range all {
		i := r.item(v, n, "")
		if i == nil {
			continue
		}
		i.state, i.why = r.passes(v, i)
		i.ordered, i.after = v.has(afterKeys...), r.ids(v.get(afterKeys...), i)
		keyed = keyed || i.ordered
		if at, err := strconv.ParseFloat(v.get("priority").plain(), 64); err == nil {
			numbers[i] = at
		}
		r.items = append(r.items, i)
		r.unused(v, afterKeys...)
	}
	r.oneByOne = !keyed
	slices.SortStableFunc(r.items, func(a, b *item) int {
		x, ranked := numbers[a]
		y, both := numbers[b]
		if !ranked || !both {
			return cmp.Compare(text.If(!ranked, "z"), text.If(!both, "z"))
		}
		return cmp.Compare(x, y)
	})
	return nil
}

// passes says whether a story is done.
func (r *reader) passes(v *value, i *item) (state, string) {
	said := v.get("passes", "done", "completed")
	switch word := strings.ToLower(said.plain()); word {
	case "true", "yes", "1":
		if _, isBool := said.scalar.(bool); !isBool {
			r.note(said.line, i.called(), Changed, "passes is %s, read as true", said.is())
		}
		return done, "done"
	case "false", "", "no", "0":
	default:
		r.note(said.line, i.called(), Unread, "passes is %q, neither true nor false: taken as open", text.Clip(word, 30))
	}
	if skipped := v.get("skipped"); skipped != nil && skipped.plain() != "false" {
		return gone, "skipped"
	}
	return r.status(v.get("status", "state"), i)
}
