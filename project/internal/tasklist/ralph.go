package tasklist

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// stories returns the list of a prd.json's object, or nil. "tasks" is Task Master's word; here they say passes.
func stories(root *value) *value {
	for _, key := range []string{"userStories", "user_stories", "stories", "features", "items", "requirements", "tasks"} {
		list := root.get(key)
		if list != nil && list.list && (strings.HasPrefix(key, "user") && len(list.items) == 0 ||
			some(list.items, "passes", "acceptanceCriteria", "acceptance_criteria")) {
			return list
		}
	}
	return nil
}

// commandKeys are fields for commands that must succeed, of a story or of all.
var commandKeys = []string{"verificationCommands", "verification_commands", "qualityGates", "quality_gates", "testCommand", "test_command",
	"testCommands", "preCommit", "gates", "gate", "verifyCommand", "verify", "validationCommands"}

// readRalph reads stories in the order of their numbers, one after the other, unless they say what they depend on.
func (r *reader) readRalph(root *value, all []*value) error {
	r.list.Kind = ralph
	if root.object {
		r.title = cmp.Or(root.get("description").line1(), root.get("overview").line1(), root.get("project", "name").line1())
		if project := root.get("project", "name").line1(); project != "" && project != r.title {
			r.title = project + ": " + r.title
		}
		for _, key := range []string{"overview", "description", "instructions", "goals", "rules", "successMetrics", "stack", "uiNotes"} {
			if said := strings.Join(r.texts(root.get(key), key), "\n- "); said != "" && text.Fold(said) != text.Fold(r.title) && !strings.HasSuffix(r.title, ": "+said) {
				r.about = text.JoinedBy("\n\n", r.about, key+":\n- "+said)
			}
		}
		r.constraints = appendNew(r.constraints, r.texts(root.get("constraints"), "constraints")...)
		for _, s := range r.texts(root.get("nonGoals", "non_goals", "outOfScope"), "nonGoals") {
			r.constraints = appendNew(r.constraints, "Not a goal: "+s)
		}
		for _, key := range commandKeys {
			r.commands(&r.gates, &r.demands, root.get(key), key, "")
		}
		for _, f := range root.fields {
			if !slices.Contains(commandKeys, f.key) && !slices.Contains([]string{"userStories", "user_stories", "stories", "features", "items", "requirements", "tasks", "project", "name",
				"overview", "description", "instructions", "goals", "rules", "successMetrics", "stack", "uiNotes", "constraints", "nonGoals", "non_goals", "outOfScope"}, f.key) {
				r.note(f.value.line, f.key, Left, "a field that manager does not use")
			}
		}
	}
	keyed := false // the file says what depends on what
	numbers := map[*item]float64{}
	for n, v := range all {
		i := r.item(v, n)
		if i == nil {
			continue
		}
		i.state, i.why = r.passes(v, i)
		dependsOn := []string{"dependsOn", "depends_on", "dependencies", "blockedBy", "blocked_by"}
		i.ordered, i.after = v.has(dependsOn...), r.ids(v.get(dependsOn...), i)
		keyed = keyed || i.ordered
		if at, err := strconv.ParseFloat(v.get("priority").plain(), 64); err == nil {
			numbers[i] = at
		}
		r.items = append(r.items, i)
		r.unused(v, append([]string{"passes", "status", "priority"}, dependsOn...)...)
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

// status reads a word for a state.
func (r *reader) status(v *value, i *item) (state, string) {
	word := strings.ToLower(strings.NewReplacer("-", "_", " ", "_").Replace(v.plain()))
	switch word {
	case "done", "completed", "complete", "closed", "passed", "passes", "finished", "resolved", "merged":
		return done, "done"
	case "review", "in_review":
		return done, "in review"
	case "cancelled", "canceled", "wontfix", "wont_fix", "obsolete", "superseded", "tombstone", "skipped", "duplicate":
		return gone, strings.ReplaceAll(word, "_", " ")
	case "deferred", "postponed", "on_hold", "someday", "pinned":
		return put, strings.ReplaceAll(word, "_", " ")
	case "", "open", "pending", "todo", "to_do", "not_started", "ready", "backlog", "new", "failed", "active":
	case "in_progress", "started", "doing", "hooked":
		r.note(v.line, i.called(), Changed, "it is %s there, and begins anew", strings.ReplaceAll(word, "_", " "))
	case "blocked":
		i.why = "blocked"
	default:
		r.note(v.line, i.called(), Unread, "the status %q is not known: taken as open", text.Clip(v.plain(), 30))
	}
	return open, i.why
}

// line1 returns a text on one line.
func (v *value) line1() string { return text.Fold(v.plain()) }

// item reads what stories, tasks and issues have in common; nil: nothing in it says what to do, which is told.
func (r *reader) item(v *value, n int) *item {
	r.list.Total++
	if !v.object {
		r.note(v.line, "", Unread, "item %d is %s, and no task", n+1, v.is())
		return nil
	}
	i := &item{line: v.line, id: v.get("id", "key").line1()}
	if id := v.get("id", "key"); id != nil && i.id == "" {
		r.note(id.line, fmt.Sprintf("item %d", n+1), Unread, "its id is %s", id.is())
	}
	i.title = r.text(v.get("title", "name", "subject", "summary", "task"), "title", i)
	body := r.text(v.get("description", "body"), "description", i)
	if i.title == "" {
		i.title, _, _ = strings.Cut(strings.TrimSpace(body), "\n")
	}
	i.describe("", body)
	if i.title == "" {
		r.note(v.line, i.id, Unread, "item %d has neither a title nor a description", n+1)
		return nil
	}
	for _, part := range [][2]string{
		{"details", ""}, {"instructions", ""}, {"design", "Design"}, {"implementationApproach", "Approach"}, {"technicalNotes", "Technical notes"}, {"context", "Context"},
		{"notes", "Notes"}, {"file", "File"}, {"files", "Files"}, {"expected_files", "Files"}, {"technicalConstraints", "Constraints"},
		{"scopeBoundaries", "Scope"}, {"relevantFiles", "Files"}, {"codebasePatterns", "Patterns"}, {"spec_id", "Specification"}, {"output", "Output"},
	} {
		if said := v.get(part[0]); said != nil {
			i.describe(part[1], strings.Join(r.texts(said, part[0]), "\n"))
		}
	}
	for _, key := range []string{"acceptanceCriteria", "acceptance_criteria", "criteria", "successCriteria", "steps", "testStrategy", "test_strategy", "tests", "e2eTests", "verification"} {
		said := v.get(key)
		for _, c := range r.criteria(said, key, i) {
			i.criteria = appendNew(i.criteria, c)
			for _, cmd := range commandsIn(c) {
				r.gate(&i.gates, said.line, i.called(), cmd)
			}
		}
	}
	for _, key := range commandKeys {
		r.commands(&i.gates, &i.criteria, v.get(key), key, i.called())
	}
	switch said := v.get("priority"); strings.ToLower(said.plain()) {
	case "high", "critical", "urgent", "must":
		i.priority = boulder.High
	case "low", "could", "wont":
		i.priority = boulder.Low
	case "medium", "normal", "should":
	default:
		if _, err := strconv.ParseFloat(strings.TrimPrefix(said.plain(), "P"), 64); err != nil && said != nil {
			r.note(said.line, i.called(), Unread, "its priority is %s", cmp.Or(text.If(said.plain() != "", strconv.Quote(text.Clip(said.plain(), 30))), said.is()))
		}
	}
	return i
}

// used are the fields that [reader.item] and its callers read.
var used = append([]string{"id", "key", "title", "name", "subject", "summary", "task", "description", "body", "details", "instructions", "design", "implementationApproach",
	"technicalNotes", "context", "notes", "file", "files", "expected_files", "technicalConstraints", "scopeBoundaries", "relevantFiles", "codebasePatterns", "spec_id",
	"output", "acceptanceCriteria", "acceptance_criteria", "criteria", "successCriteria", "steps", "testStrategy", "test_strategy", "tests", "e2eTests", "verification",
	"done", "completed", "skipped", "state"}, commandKeys...)

// unused counts the fields of an item that are not read and say something.
func (r *reader) unused(v *value, more ...string) {
	for n, f := range v.fields {
		if slices.ContainsFunc(v.fields[:n], func(earlier field) bool { return earlier.key == f.key }) {
			r.note(f.value.line, v.get("id").line1(), Changed, "%s is there twice: the last one counts", text.Clip(f.key, 40))
		}
		empty := f.value.null() || f.value.plain() == "" && len(f.value.items)+len(f.value.fields) == 0
		if !empty && !slices.Contains(used, f.key) && !slices.Contains(more, f.key) {
			r.fields[f.key]++
		}
	}
}

// text reads a text; a number or a list in its place is told.
func (r *reader) text(v *value, key string, i *item) string {
	if v == nil {
		return ""
	}
	if said, ok := v.words(); ok {
		return said
	}
	r.note(v.line, i.called(), Changed, "%s is %s, read as text", key, v.is())
	return strings.Join(r.texts(v, key), "\n")
}

// texts reads a text, a list of texts, or an object of texts, as lines. What is none of these is told.
func (r *reader) texts(v *value, key string) (all []string) {
	switch {
	case v.null():
	case v.list:
		for _, inner := range v.items {
			all = append(all, strings.Join(r.texts(inner, key), ", "))
		}
	case v.object:
		for _, f := range v.fields {
			if said := strings.Join(r.texts(f.value, key), ", "); said != "" {
				all = append(all, f.key+": "+said)
			}
		}
	default:
		all = append(all, v.plain())
	}
	return slices.DeleteFunc(all, func(s string) bool { return strings.TrimSpace(s) == "" })
}

// criteria reads a list of criteria, or a text with one in each line of a list.
func (r *reader) criteria(v *value, key string, i *item) (all []string) {
	switch {
	case v.null():
	case v.list:
		for _, inner := range v.items {
			if inner.object {
				if said := inner.get("criterion", "description", "text", "title", "name"); said != nil {
					inner = said
				}
			} else if _, ok := inner.words(); !ok && !inner.null() {
				r.note(inner.line, i.called(), Changed, "%s has %s, read as text", key, inner.is())
			}
			all = append(all, strings.Join(r.texts(inner, key), ", "))
		}
	case v.object:
		return r.texts(v, key)
	default:
		return listed(v.plain())
	}
	return all
}

// listed splits a text into the entries of its list, or returns it whole. An entry of several lines becomes one.
func listed(s string) (entries []string) {
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, " \t\n")
		mark := bullet().FindString(line)
		switch {
		case mark != "" && len(line)-len(strings.TrimLeft(line, " \t")) < 2:
			entries = append(entries, strings.TrimSpace(line[len(mark):]))
		case len(entries) == 0 && strings.TrimSpace(line) != "":
			if !strings.HasSuffix(line, ":") {
				return appendNew(nil, s)
			}
		case len(entries) > 0 && strings.TrimSpace(line) != "":
			entries[len(entries)-1] += " " + strings.TrimSpace(line)
		}
	}
	if len(entries) == 0 {
		return appendNew(nil, s)
	}
	return entries
}

// bullet matches the mark of a list's entry, with its box.
var bullet = text.Regexp(`^\s*(?:[-*+]|\d{1,3}[.)])[ \t]+(?:\[[ xX]?\][ \t]*)?`)

// commands reads the commands of a field for them: a text, a list, or an object of names. A sentence among them becomes a
// criterion.
func (r *reader) commands(gates, criteria *[]string, v *value, key, whose string) {
	all := []*value{v}
	switch {
	case v.null():
		return
	case v.list:
		all = v.items
	case v.object:
		all = nil
		for _, f := range v.fields {
			all = append(all, f.value)
		}
	}
	for _, one := range all {
		if one.object {
			one = one.get("command", "cmd", "run")
		}
		said, isText := one.words()
		switch cmd := asCommand(said); {
		case !isText:
			r.note(v.line, whose, Unread, "an entry of %s is no command", key)
		case cmd != "":
			r.gate(gates, one.line, whose, cmd)
		default:
			r.sentence(one.line, whose, key, said, criteria)
		}
	}
}

// sentence makes what stands among commands and is none a criterion.
func (r *reader) sentence(line int, whose, in, said string, criteria *[]string) {
	r.note(line, whose, Changed, "%q in %s is a criterion: it reads like no command", text.Clip(said, 60), in)
	*criteria = appendNew(*criteria, said)
}

// ids reads a list of ids, or a text with several.
func (r *reader) ids(v *value, i *item) (all []string) {
	switch {
	case v.null():
	case v.list:
		for _, inner := range v.items {
			id := inner.line1()
			if inner.object {
				id = inner.get("id", "depends_on_id").line1()
			}
			if id == "" && !inner.null() {
				r.note(inner.line, i.called(), Unread, "a dependency is %s, and no id", inner.is())
			}
			all = append(all, id)
		}
	case v.object:
		r.note(v.line, i.called(), Unread, "its dependencies are an object, and no list of ids")
	default:
		for _, id := range strings.FieldsFunc(v.plain(), func(c rune) bool { return c == ',' || c == ' ' || c == ';' }) {
			all = append(all, id)
		}
	}
	return appendNew(nil, all...)
}
