package enforcer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// More than an agent reaches in a loop of 100 continuations, so that nothing forgotten counts again.
const (
	maxItems = 500
	maxDiffs = 200
	maxOpen  = 50
)

// Progress is what a session has ever reached, as hashes. Each counts once, even if it keeps changing back and forth.
type Progress struct {
	Items []string `json:"items,omitempty"` // completed items of the todo list; the newest 500
	Diffs []string `json:"diffs,omitempty"` // states of the work tree; the newest 200
	Gates []string `json:"gates,omitempty"` // commands that were green
}

// add takes in r, and reports whether anything in it is new.
func (p *Progress) add(r Reached) bool {
	grown := false
	for _, todo := range r.Todos {
		if todo.Status == "completed" {
			grown = addNew(&p.Items, folded(todo.Content), maxItems) || grown
		}
	}
	if r.Diff != "" {
		grown = addNew(&p.Diffs, r.Diff, maxDiffs) || grown
	}
	for _, command := range r.Gates {
		grown = addNew(&p.Gates, command, maxItems) || grown
	}
	return grown
}

// BeyondFiles reports whether a turn newly reached more than changed files: a completed item or a green gate.
func (p Progress) BeyondFiles(r Reached) bool {
	r.Diff = ""
	return p.add(r)
}

// addNew adds what is not there yet, to a copy: other tracks share the list.
func addNew(list *[]string, what string, most int) bool {
	name := shortHash(what)
	if slices.Contains(*list, name) {
		return false
	}
	*list = append(slices.Clip((*list)[max(0, len(*list)+1-most):]), name)
	return true
}

// shortHash is long enough to tell apart what one session did.
func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// folded maps texts that differ only in case and white space to the same text.
func folded(text string) string { return strings.Join(strings.Fields(strings.ToLower(text)), " ") }

// OpenItems returns the items left to do, at most 50: the open ones of the list and, after a compaction, recorded ones
// that are not on it, because the agent may have forgotten them.
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

type fingerprint [sha256.Size]byte

// fingerprintOf maps calls with the same input and result to the same value, ignoring what varies by itself.
func fingerprintOf(c Call) fingerprint {
	// Text that varies by itself is at the ends of an output. The middle is compared as it is.
	const end = 64 << 10
	first, middle, last := c.Output, "", ""
	if len(first) > 2*end {
		first, middle, last = first[:end], first[end:len(first)-end], first[len(first)-end:]
	}
	parts := []string{
		c.Tool, string(canonical(c.Tool, c.Input)), fmt.Sprint(c.Failed), Normalize(first), middle, Normalize(last),
	}
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

// canonical returns arguments with sorted keys and no white space, and without a command's description (prose).
func canonical(tool string, input json.RawMessage) []byte {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(input))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return bytes.TrimSpace(input)
	}
	if args, ok := value.(map[string]any); ok && tool == "bash" {
		delete(args, "description")
	}
	out, _ := json.Marshal(value) // it was JSON
	return out
}

// noise is what varies from run to run, and its replacement. Order matters: escapes can be anywhere, dates contain
// times.
var noise = []struct {
	pattern func() *regexp.Regexp
	by      string
}{
	{text.Regexp(`\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]`), ""},
	{text.Regexp(`\b\d{4}-\d\d-\d\d` +
		`(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?`), "<time>"},
	{text.Regexp(`\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* +\d{1,2}(?:,? +\d{4})?` +
		`(?: +\d{1,2}:\d\d(?::\d\d)?)?\b`), "<time>"},
	{text.Regexp(`\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b`), "<day>"},
	{text.Regexp(`\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?: ?[AP]M)?\b`), "<time>"},
	{text.Regexp(`\b1[5-9]\d{8}(?:\d{3})?(?:\.\d+)?\b`), "<time>"}, // seconds or milliseconds since 1970
	{text.Regexp(`(?:\b\d+(?:\.\d+)?|\.\d+) ?` +
		`(?:(?:nano|micro|milli)?seconds?|secs?|minutes?|mins?|hours?|hrs?)\b`), "<duration>"},
	{text.Regexp(`(?:\b|\.)(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+\b`), "<duration>"},
	{text.Regexp(`(?i)\b(pid|process|goroutine|thread)([ =:#(]+)\d+`), "$1$2<n>"},
	{text.Regexp(`(?m)\[\d{3,}\]|^\[\d+\] +\d+`), "[<n>]"},
	{text.Regexp(`\b0x[0-9a-fA-F]{6,}\b`), "<address>"},
	{text.Regexp(`\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "<uuid>"},
}

const pathElement = `[^/\s"'` + "`" + `:;,()<>\[\]]+`

var (
	// tempPath has the constant part in its first group. The name after it is random.
	tempPath = text.Regexp(`((?:/private)?(?:/tmp|/var/tmp|/dev/shm|/var/folders/[^/\s]+/[^/\s]+/T)/)` +
		pathElement + `((?:/` + pathElement + `)*)`)
	digits = text.Regexp(`\d+`)
)

// Normalize removes from an output what varies from run to run: colours, times, durations, process ids, temporary file
// names and addresses. Outputs that are equal after that say the same.
func Normalize(s string) string {
	for _, n := range noise {
		s = n.pattern().ReplaceAllString(s, n.by)
	}
	if !strings.Contains(s, "/") {
		return s
	}
	return tempPath().ReplaceAllStringFunc(s, func(path string) string {
		m := tempPath().FindStringSubmatch(path)
		return m[1] + "<temp>" + digits().ReplaceAllString(m[2], "<n>")
	})
}
