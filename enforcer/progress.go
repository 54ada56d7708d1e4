package enforcer

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// More than an agent can use up within a loop of 100 continuations, so that nothing that was forgotten counts again.
const (
	maxItems = 500
	maxDiffs = 200
	maxOpen  = 50
)

// Progress is what a session has ever reached, as hashes: each counts once. An item that flips between two states, and
// a file that is changed to and fro, are progress once.
type Progress struct {
	Items []string `json:"items,omitempty"` // items of the todo list that were completed; at most 500, the newest
	Diffs []string `json:"diffs,omitempty"` // states of the work tree; at most 200, the newest
	Gates []string `json:"gates,omitempty"` // commands that were green
}

// add takes in what is there, and reports whether anything of it is new.
func (p *Progress) add(r Reached) bool {
	grown := false
	for _, todo := range r.Todos {
		if todo.Status == "completed" {
			grown = once(&p.Items, folded(todo.Content), maxItems) || grown
		}
	}
	if r.Diff != "" {
		grown = once(&p.Diffs, r.Diff, maxDiffs) || grown
	}
	for _, command := range r.Gates {
		grown = once(&p.Gates, command, maxItems) || grown
	}
	return grown
}

// once adds what is not there yet, to a copy: other tracks share the list.
func once(list *[]string, what string, most int) bool {
	name := nameOf(what)
	if slices.Contains(*list, name) {
		return false
	}
	*list = append(slices.Clip((*list)[max(0, len(*list)+1-most):]), name)
	return true
}

// nameOf is short: it tells apart what one session did.
func nameOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// folded makes items alike that differ in case and white space only.
func folded(text string) string { return strings.Join(strings.Fields(strings.ToLower(text)), " ") }

// OpenItems are the items that are work to do: those of the list that are open, and, after a compaction, those of the
// record that the list does not name any more, because the agent may have forgotten them. At most 50.
func OpenItems(t Track, list []boulder.Todo) []string {
	var open []string
	known := map[string]bool{}
	for _, todo := range list {
		known[folded(todo.Content)] = true
		if todo.Open() {
			open = append(open, todo.Content)
		}
	}
	if t.Compacted {
		for _, item := range t.Open {
			if !known[folded(item)] {
				open = append(open, item)
			}
		}
	}
	return open[:min(len(open), maxOpen)]
}
