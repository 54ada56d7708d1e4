// Package tasklist reads lists of tasks that other tools keep, as plans: Ralph's prd.json, Task Master's tasks.json, beads'
// issues.jsonl, and Markdown with tasks as headings or boxes. It asks no model, and says what it did not take as it stands.
package tasklist

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
)

// List is a list of tasks that was read.
type List struct {
	Kind  string        `json:"kind"` // "Ralph's prd.json"
	Total int           `json:"total"`
	Taken int           `json:"taken"` // the others are among Notes
	Notes []Note        `json:"notes,omitempty"`
	Plan  *boulder.Plan `json:"-"` // without a seal
	// Remarks say by id where a sub-task comes from.
	Remarks map[string]string `json:"-"`
}

// Note tells one thing of the file that is not in the plan as it stands there.
type Note struct {
	Line int    `json:"line,omitempty"` // from 1; 0: of the whole file
	Item string `json:"item,omitempty"` // the task, as the file calls it
	What What   `json:"what"`
	Why  string `json:"why"`
}

// What happened to it.
type What string

const (
	Left      What = "left"      // not in the plan: it is done, put off, or nothing that manager does
	Structure What = "structure" // in the plan as what it consists of
	Changed   What = "changed"   // in the plan, but otherwise
	Order     What = "order"     // in the plan, in an order that the file does not spell out
	Gate      What = "gate"      // a command that became a gate
	Unread    What = "unread"    // not understood, so not in the plan
)

// Options say how to read a list.
type Options struct {
	Tag   string    // of Task Master; empty: master, or the only one
	Now   time.Time // what is put off until later is left
	Boxes bool      // take the boxes of any text as a checklist
}

// Unknown is the error for a file that is none of the lists.
type Unknown struct {
	Looks  string // "looks like …"
	Text   bool   // the file is text that could be a task
	Boxes  int    // how many boxes that text has
	Plan   bool   // it is a plan of manager
	Secret bool   // it may hold secrets
}

func (e *Unknown) Error() string { return "it " + e.Looks }

// Kinds names what [Read] reads, for messages.
const Kinds = "Ralph's prd.json, Task Master's tasks.json, beads' issues.jsonl, and Markdown with headings \"### Task N\" or boxes"

const (
	ralph      = "Ralph's prd.json"
	taskMaster = "Task Master's tasks.json"
	beads      = "beads' issues.jsonl"
	markdown   = "Markdown with tasks as headings"
	checklist  = "a checklist"
)

// Read reads a list. name stands for the file in messages. It returns an [*Unknown] if the file is no list, and a
// [*yamlfile.Error] if it is one that makes no plan.
func Read(name string, data []byte, o Options) (*List, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	r := &reader{name: name, Options: o, parsed: map[string]string{}, taken: map[string]bool{}, last: map[*item][]*item{}, fields: map[string]int{}}
	switch {
	case utf16(data):
		return nil, &Unknown{Looks: "looks like text in UTF-16: save it as UTF-8"}
	case bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0, bytes.HasPrefix(data, []byte("%PDF")):
		return nil, &Unknown{Looks: "looks like no text"}
	case len(bytes.TrimSpace(data)) == 0:
		return nil, &Unknown{Looks: "is empty", Text: true}
	}
	if other := otherThan(data); other != nil {
		return nil, other
	}
	n := 0
	for line := range bytes.Lines(data) {
		if n++; !utf8.Valid(line) {
			r.note(n, "", Changed, "what is not in UTF-8 is replaced, here and below")
			break
		}
	}
	err := r.read(data)
	if err == nil {
		err = r.build()
	}
	if wrong, ok := errors.AsType[*jsonError](err); ok {
		return nil, r.refuse(wrong.line, wrong.what, "correct it there, or write the file anew with the tool that made it")
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.list.Notes, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return &r.list, nil
}

func utf16(data []byte) bool {
	return bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff})
}

// reader holds what was read of a file so far.
type reader struct {
	Options
	name  string
	list  List
	items []*item

	title, goal string // of the whole, each on one line
	about       string // what else is said of the whole
	constraints []string
	gates       []string          // of every task
	demands     []string          // criteria of every task
	oneByOne    bool              // an item that says nothing of its order comes after the one before
	closes      bool              // what is done closes its parts
	parsed      map[string]string // what the shell says of a command
	taken       map[string]bool   // ids of the plan
	last        map[*item][]*item // see ends
	fields      map[string]int    // how many items have a field that is not used
}

func (r *reader) note(line int, item string, what What, format string, args ...any) {
	r.list.Notes = append(r.list.Notes, Note{line, text.Clip(item, 60), what, fmt.Sprintf(format, args...)})
}

func (r *reader) refuse(line int, what, do string) error {
	at := r.name
	if line > 0 {
		at = fmt.Sprintf("%s:%d", r.name, line)
	}
	return yamlfile.ErrorOf([]yamlfile.Problem{{File: at, What: what, Do: do}})
}

func (r *reader) read(data []byte) error {
	switch start := bytes.TrimSpace(data); {
	case start[0] == '[', start[0] == '{':
		return r.readJSON(data)
	case bytes.HasPrefix(start, []byte("<<<<<<<")) && isLines(start):
		return r.readLines(data)
	}
	return r.readMarkdown(tidy(string(data)))
}

// readJSON recognizes a JSON text by what its objects have.
func (r *reader) readJSON(data []byte) error {
	root, err := document(data)
	if err != nil {
		switch {
		case isLines(data):
			return r.readLines(data)
		case looksLikeMarkdown(data):
			return r.readMarkdown(tidy(string(data)))
		}
		if bytes.Contains(data, []byte("sub_tasks")) {
			return &Unknown{Looks: "looks like a plan of manager", Plan: true}
		}
		return err
	}
	switch inner := root.get("prd"); {
	case root.has("sub_tasks"):
		return &Unknown{Looks: "looks like a plan of manager", Plan: true}
	case inner != nil && inner.object:
		root = inner
	}
	switch {
	case root.list && some(root.items, "issue_type", "_type"), root.object && root.has("issue_type"):
		items := root.items
		if root.object {
			items = []*value{root}
		}
		return r.readBeads(items)
	case root.list && some(root.items, "passes", "acceptanceCriteria", "acceptance_criteria"):
		return r.readRalph(root, root.items)
	case root.list && some(root.items, "status") && some(root.items, "subtasks", "testStrategy", "dependencies"):
		return r.readTaskMaster(root)
	case root.object && stories(root) != nil: // before Task Master, whose word for the list is one of theirs
		return r.readRalph(root, stories(root).items)
	case root.object && len(tags(root)) > 0:
		return r.readTaskMaster(root)
	}
	return &Unknown{Looks: "looks like JSON: " + shape(root)}
}

// some reports whether an object of a list has one of the keys.
func some(items []*value, keys ...string) bool {
	return slices.ContainsFunc(items, func(v *value) bool { return v.has(keys...) })
}

// shape describes a JSON value by its keys.
func shape(v *value) string {
	if v.list {
		if len(v.items) == 0 {
			return "an empty list"
		}
		if !v.items[0].object {
			return fmt.Sprintf("a list of %d, the first one %s", len(v.items), v.items[0].is())
		}
		return fmt.Sprintf("a list of %d with %s", len(v.items), keys(v.items[0]))
	}
	if v.object {
		return "an object with " + keys(v)
	}
	return v.is()
}

func keys(v *value) string {
	var names []string
	for _, f := range v.fields {
		names = append(names, text.Clip(f.key, 30))
	}
	const shown = 6
	if more := len(names) - shown; more > 0 {
		names = append(names[:shown], fmt.Sprintf("%d more", more))
	}
	return cmp.Or(text.If(len(names) > 0, "the keys "+strings.Join(names, ", ")), "no keys")
}

// conflict reports whether a line is a mark of a conflict of git.
func conflict(line []byte) bool {
	return slices.Contains([]string{"<<<<<<<", "|||||||", "=======", ">>>>>>>"}, string(line[:min(len(line), 7)]))
}

// isLines reports whether at least half of the lines are JSON objects, and two.
func isLines(data []byte) bool {
	objects, others := 0, 0
	for line := range bytes.Lines(data) {
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0, conflict(line):
		case line[0] == '{' && json.Valid(line):
			objects++
		default:
			others++
		}
	}
	return objects > 1 && objects >= others || objects == 1 && others == 1
}
