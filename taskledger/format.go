package taskledger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
)

const fileHeader = `# A plan of manager. Edit it as you like, then execute it with: manager run FILE
#
# Sub-tasks may be changed, added, removed and reordered; only their description is indispensable. One begins when those
# under its depends_on are done; the others run side by side. gates are commands that manager runs in the project; they
# must exit with 0 before the sub-task counts as done. Further keys of a sub-task: priority (high, medium, low),
# model (provider/model), agent, outputs, expects_changes, empty_ok, no_worse (commands that may stay as red as they
# were), done_when (todos, diagnostics, tests, promise, judge; also of the plan, for all sub-tasks that name none),
# budget: {attempts: 2, time: 30m, tokens: 500k, cost: 2.50, calls: 100}.

`

const sealHeader = `# The seal says what this plan was made for. By it, your edits above are noticed and recorded as yours
# (they run as written), and a plan that was made for another commit is not run by accident. Without it, the
# plan is taken as written by hand. Leave it as it is, or remove all of it.
`

// Format writes a plan as a file for people. What it writes, [Parse] reads as the same plan with the same hash, if the
// plan comes from Parse, [Seal] or a [Planner]; in other plans, what may be left out is filled in. A plan that Parse
// would refuse is an error.
func Format(plan *boulder.Plan) ([]byte, error) {
	p := new(plan.Clone())
	fill(p)
	if findings := check(p); len(findings) > 0 {
		return nil, fmt.Errorf("write the plan: %s: %s", findings[0].what, findings[0].do)
	}
	w := &writer{}
	w.WriteString(fileHeader)
	w.plan(p)
	if p.Seal != nil {
		w.WriteString("\n")
		w.seal(*p.Seal)
	}
	if w.Len() > yamlfile.MaxSize {
		return nil, fmt.Errorf("write the plan: it has %.1f MiB, and plan files end at %d MiB: split it",
			float64(w.Len())/(1<<20), yamlfile.MaxSize>>20)
	}
	// What stands in the file is what will be executed: rather no file than one that says something else.
	back, err := Parse("plan", w.Bytes())
	if err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	if back.Hash() != p.Hash() {
		return nil, errors.New("write the plan: one of its texts does not survive in YAML: remove unusual characters")
	}
	return w.Bytes(), nil
}

// writer writes the lines of a plan file. Empty values are left out.
type writer struct{ bytes.Buffer }

func (w *writer) plan(p *boulder.Plan) {
	w.line("", "version", strconv.Itoa(p.Version))
	w.fields("", "task", p.Task, "goal", p.Goal, "constraints", p.Constraints)
	if f := p.Facts; len(f.Given)+len(f.ToFind)+len(f.Guesses) > 0 {
		w.WriteString("facts:\n")
		w.fields("  ", "given", f.Given, "to_find", f.ToFind, "guesses", f.Guesses)
	}
	w.fields("", "model", p.Model)
	if len(p.DoneWhen) > 0 {
		w.line("", "done_when", flow(p.DoneWhen))
	}
	w.WriteString("sub_tasks:\n")
	for i, s := range p.SubTasks {
		if i > 0 {
			w.WriteString("\n")
		}
		w.subTask(s)
	}
}

func (w *writer) subTask(s boulder.Spec) {
	const in = "    "
	w.line("  - ", "id", scalar(s.ID))
	w.fields(in, "subject", s.Subject, "active_form", s.ActiveForm, "description", s.Description,
		"success_criteria", s.SuccessCriteria)
	w.line(in, "depends_on", flow(s.DependsOn)) // also when empty: people look for it
	w.fields(in, "priority", string(s.Priority), "model", s.Model, "agent", s.Agent, "gates", s.Gates, "no_worse", s.NoWorse,
		"expects_changes", s.ExpectsChanges, "empty_ok", s.EmptyOK, "outputs", s.Outputs)
	if len(s.DoneWhen) > 0 {
		w.line(in, "done_when", flow(s.DoneWhen))
	}
	if s.Budget != nil {
		w.line(in, "budget", budget(*s.Budget))
	}
}

func (w *writer) seal(s boulder.Seal) {
	const in = "  "
	w.WriteString(sealHeader + "seal:\n")
	w.fields(in, "base", s.Base, "hash", s.Hash, "origin", string(s.Origin), "model", s.Model)
	w.line(in, "created_at", s.CreatedAt.UTC().Format(time.RFC3339Nano))
}

// line writes a value that is YAML already.
func (w *writer) line(indent, key, value string) { fmt.Fprintf(w, "%s%s: %s\n", indent, key, value) }

// fields writes keys with their values: texts, as a block if they have several lines, lists of such texts, and booleans.
func (w *writer) fields(indent string, pairs ...any) {
	for pair := range slices.Chunk(pairs, 2) {
		key := pair[0].(string)
		switch value := pair[1].(type) {
		case bool:
			if value {
				w.line(indent, key, "true")
			}
		case string:
			if value != "" {
				w.text(indent, key+":", value)
			}
		case []string:
			if len(value) > 0 {
				fmt.Fprintf(w, "%s%s:\n", indent, key)
			}
			for _, item := range value {
				w.text(indent+"  ", "-", item)
			}
		}
	}
}

func (w *writer) text(indent, head, value string) {
	if isBlock(value) {
		w.block(indent, head, value)
	} else {
		fmt.Fprintf(w, "%s%s %s\n", indent, head, scalar(value))
	}
}

func (w *writer) block(indent, head, value string) {
	mark := "|-"
	if body, ended := strings.CutSuffix(value, "\n"); ended {
		mark, value = "|", body
	}
	fmt.Fprintf(w, "%s%s %s\n", indent, head, mark)
	for line := range strings.SplitSeq(value, "\n") {
		if line != "" {
			line = indent + "  " + line
		}
		w.WriteString(line + "\n")
	}
}

func flow(items []string) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = scalar(item)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func budget(b boulder.Budget) string {
	var parts []string
	add := func(key, value string, set bool) {
		if set {
			parts = append(parts, key+": "+value)
		}
	}
	add("attempts", strconv.Itoa(b.Attempts), b.Attempts != 0)
	add("time", strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(time.Duration(b.Time).String()), b.Time != 0)
	add("tokens", text.FormatCount(b.Tokens), b.Tokens != 0)
	add("cost", strconv.FormatFloat(b.Cost, 'f', -1, 64), b.Cost != 0)
	add("calls", strconv.FormatInt(b.Calls, 10), b.Calls != 0)
	return "{" + strings.Join(parts, ", ") + "}"
}

// scalar writes a text in one line of YAML: plain where nothing in it has a meaning to YAML, between single quotes
// where that keeps a command readable, and else between double quotes with escapes, which Go and YAML write alike.
func scalar(s string) string {
	switch {
	case isPlain(s):
		return s
	case strings.ContainsAny(s, `"\`) && !strings.ContainsFunc(s, unprintable):
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	default:
		return strconv.Quote(s)
	}
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// isPlain is narrower than YAML: every reader, and every person, takes such a text for a text.
func isPlain(s string) bool {
	if s == "" || strings.TrimSpace(s) != s || strings.ContainsFunc(s, unprintable) {
		return false
	}
	if strings.Contains(s, ": ") || strings.Contains(s, " #") || strings.HasSuffix(s, ":") ||
		strings.ContainsAny(s, "[]{},\"'`\\") {
		return false
	}
	first := rune(s[0])
	if !unicode.IsLetter(first) && s[0] < 0x80 && s[0] != '/' && s[0] != '_' {
		return false // numbers, dates and indicators begin so
	}
	words := []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"}
	return !slices.Contains(words, strings.ToLower(s))
}

// unfitForBlock matches texts that a literal block can hold only with marks that puzzle people, or that editors change:
// what begins with a space, ends with an empty line, or has spaces at the end of a line.
var unfitForBlock = text.Regexp(`^[ \t\n]|[ \t](\n|$)|\n\n$`)

func isBlock(s string) bool {
	return strings.Contains(s, "\n") && !unfitForBlock().MatchString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && unprintable(r) })
}

// WriteFile writes a plan as [Format] does. The file is replaced as a whole or not at all, also in a crash. A new file
// is for its owner only, an old one keeps its mode; a symbolic link stays, and what it points to is replaced. The
// directory must exist.
func WriteFile(path string, plan *boulder.Plan) error {
	data, err := Format(plan)
	if err != nil {
		return err
	}
	target, mode, err := replaceable(path)
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	dir, err := statedir.Open(filepath.Dir(target))
	if err == nil {
		defer dir.Close()
		err = dir.Write(filepath.Base(target), data)
	}
	if err == nil {
		err = os.Chmod(target, mode)
	}
	if err != nil {
		return fmt.Errorf("write the plan to %s: %w", path, err)
	}
	return nil
}

// replaceable gives the file that a path stands for, which need not exist, and the mode it shall have.
func replaceable(path string) (target string, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return "", 0, fmt.Errorf("%s is a directory: name a file in it", path)
	case err == nil && !info.Mode().IsRegular():
		return "", 0, fmt.Errorf("%s is not a regular file: name another one", path)
	case err == nil:
		target, err = filepath.EvalSymlinks(path)
		return target, info.Mode().Perm(), err
	case !errors.Is(err, fs.ErrNotExist):
		return "", 0, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", 0, fmt.Errorf("%s is a link that leads nowhere: remove it or name another file", path)
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", 0, fmt.Errorf("there is no directory %s: create it or name another file", dir)
	}
	return path, 0o600, nil
}
