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

// state says whether an item is to be done.
type state int

const (
	open state = iota
	done       // what depends on it may begin
	gone       // cancelled: what depends on it begins without it
	put        // put off, or not to be begun yet: what depends on it is left, too
)

// item is a task of a list.
type item struct {
	line     int
	id       string // as the file has it, or what it is called there
	title    string
	texts    []string // the description, in paragraphs
	criteria []string
	gates    []string
	after    []string // ids of items that must be done first
	ordered  bool     // after is all that it waits for
	parent   string   // id
	state    state
	why      string // the file's word for the state
	priority boulder.Priority
	part     string // a heading that it stands under
	newID    string
	up       *item
	parts    []*item
	waits    []*item // items whose leaves must be done first
	edges    []*item // leaves
}

func (i *item) called() string { return cmp.Or(i.id, text.Clip(i.title, 40)) }

// describe adds a paragraph to the description, unless it is there already.
func (i *item) describe(head, body string) {
	if body = strings.TrimSpace(body); body == "" || slices.Contains(i.texts, body) {
		return
	}
	if head != "" {
		body = head + ":" + text.If(strings.Contains(body, "\n"), "\n") + text.If(!strings.Contains(body, "\n"), " ") + body
	}
	i.texts = append(i.texts, body)
}

func appendNew(list []string, more ...string) []string {
	for _, s := range more {
		if s = strings.TrimSpace(s); s != "" && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
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

// item reads what stories, tasks and issues have in common; nil: nothing in it says what to do, which is told. The id of a part
// of parent begins with its id and a dot.
func (r *reader) item(v *value, n int, parent string) *item {
	r.list.Total++
	if !v.object {
		r.note(v.line, "", Unread, "item %d is %s, and no task", n+1, v.is())
		return nil
	}
	i := &item{line: v.line, id: v.get(idKeys...).line1()}
	if id := v.get(idKeys...); id != nil && i.id == "" {
		r.note(id.line, fmt.Sprintf("item %d", n+1), Unread, "its id is %s", id.is())
	}
	if parent != "" && !strings.HasPrefix(i.id, parent+".") {
		i.id = parent + "." + cmp.Or(i.id, strconv.Itoa(n+1))
	}
	i.title = r.text(v.get(nameKeys...), "title", i)
	body := r.text(v.get(textKeys...), "description", i)
	if i.title == "" {
		i.title, _, _ = strings.Cut(strings.TrimSpace(body), "\n")
	}
	i.describe("", body)
	if i.title == "" {
		r.note(v.line, i.id, Unread, "item %d has neither a title nor a description", n+1)
		return nil
	}
	for _, key := range bodyKeys {
		i.describe(head(key), strings.Join(v.get(key).texts(), "\n"))
	}
	for _, key := range criteriaKeys {
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
			r.note(said.line, i.called(), Unread, "its priority is %s", cmp.Or(text.Clip(said.plain(), 30), said.is()))
		}
	}
	return i
}

// Fields of stories, tasks and issues, by what they hold.
var (
	idKeys   = []string{"id", "key"}
	textKeys = []string{"description", "body"}
	nameKeys = []string{"title", "name", "subject", "summary", "task"}
	bodyKeys = []string{"details", "instructions", "design", "implementationApproach", "technicalNotes", "context", "notes", "file", "files",
		"expected_files", "relevantFiles", "technicalConstraints", "scopeBoundaries", "codebasePatterns", "spec_id", "output"}
	criteriaKeys = []string{"acceptanceCriteria", "acceptance_criteria", "criteria", "successCriteria", "steps", "testStrategy",
		"test_strategy", "tests", "e2eTests", "verification"}
	stateKeys = []string{"passes", "done", "completed", "skipped", "status", "state"}
)

// head is what stands before a part of a description: the words of its field's name.
func head(key string) string {
	if key == "details" || key == "instructions" {
		return ""
	}
	words := strings.ReplaceAll(strings.ToLower(capital().ReplaceAllString(key, " $0")), "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

var capital = text.Regexp(`[A-Z]`)

// unused counts the fields of an item that are not read and say something.
func (r *reader) unused(v *value, more ...string) {
	known := slices.Concat(idKeys, nameKeys, textKeys, bodyKeys, criteriaKeys, commandKeys, stateKeys, []string{"priority"}, more)
	for n, f := range v.fields {
		if slices.ContainsFunc(v.fields[:n], func(earlier field) bool { return earlier.key == f.key }) {
			r.note(f.value.line, v.get("id").line1(), Changed, "%s is there twice: the last one counts", text.Clip(f.key, 40))
		}
		empty := f.value.null() || f.value.plain() == "" && len(f.value.items)+len(f.value.fields) == 0
		if !empty && !slices.Contains(known, f.key) {
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
	return strings.Join(v.texts(), "\n")
}

// texts reads a text, a list of texts, or an object of texts, as lines.
func (v *value) texts() (all []string) {
	switch {
	case v.null():
	case v.list:
		for _, inner := range v.items {
			all = append(all, strings.Join(inner.texts(), ", "))
		}
	case v.object:
		for _, f := range v.fields {
			if said := strings.Join(f.value.texts(), ", "); said != "" {
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
			all = append(all, strings.Join(inner.texts(), ", "))
		}
	case v.object:
		return v.texts()
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
		all = strings.FieldsFunc(v.plain(), func(c rune) bool { return c == ',' || c == ' ' || c == ';' })
	}
	return appendNew(nil, all...)
}
