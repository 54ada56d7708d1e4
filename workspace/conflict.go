package workspace

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Conflict is a file that the user and the results changed in ways that do not go together.
type Conflict struct {
	Path string `json:"path"` // in the project
	// Why says why conflict markers cannot show it, so that the user's file stays; empty: they can.
	Why   string   `json:"why,omitempty"`
	By    []string `json:"by,omitempty"` // sub-tasks whose results changed it
	Hunks []Hunk   `json:"hunks,omitempty"`

	full   string // the path from the top of the work tree
	marked entry  // what is written in its place
}

// Hunk is what conflicts in one place of a file, with markers.
type Hunk struct {
	Line  int      `json:"line"` // in the user's file
	Lines []string `json:"lines"`
}

// ConflictError is an [ErrConflict] between the results and the user's files. [Slots.MergeFiles] can write the rest.
type ConflictError struct {
	Conflicts []Conflict
	With      string // "your files", or some of them
}

func (e *ConflictError) Error() string {
	var names []string
	for _, c := range e.Conflicts {
		names = append(names, c.Path)
	}
	return ErrConflict.Error() + " with " + e.With + ": " + named(names)
}

// Edits reports whether the user has changed these files, and not what git ignores.
func (e *ConflictError) Edits() bool { return e.With == yours }

func (e *ConflictError) Unwrap() error { return ErrConflict }

const (
	yours      = "your files" // labels the user's side in conflict markers
	whyIgnored = "a file of yours is there, which git ignores"
	whyShape   = "one side has a file where the other has a directory or a link"
)

// entry is what a tree has at a path.
type entry struct{ mode, object string }

// sides are the entries at one path before a merge, by stage of git's index: base, the user's, the results'.
type sides [4]entry

// conflicts describes what did not merge. users is the commit of the user's files.
func (s *Slots) conflicts(ctx context.Context, m merged, users, base, tip string) (all []Conflict, err error) {
	entries, err := s.entries(ctx, m.tree)
	if err != nil {
		return nil, err
	}
	beside := regexp.MustCompile("~(" + users + "|" + tip + ")(_[0-9]+)?$") // a file that git moved out of another's way
	seen := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(m.sides)) {
		c := Conflict{full: beside.ReplaceAllString(name, "")}
		if c.full != name {
			c.Why = whyShape
		} else if c.Why, err = s.unmarkable(ctx, name, m.sides[name]); err != nil {
			return nil, err
		}
		labelled := c.full
		if c.Why == "" {
			if labelled, err = s.mark(ctx, &c, entries[name], users, base, tip); err != nil {
				return nil, err
			}
		}
		if c.By, err = s.authors(ctx, base, tip, labelled); err != nil {
			return nil, err
		}
		c.Path = strings.TrimPrefix(c.full, s.project.prefix)
		if at, twice := seen[c.full]; !twice {
			seen[c.full] = len(all)
			all = append(all, c)
		} else if name != c.full {
			all[at].Why = c.Why
		}
	}
	return all, nil
}

// unmarkable says why markers cannot show a conflict; empty if they can, as far as the sides tell.
func (s *Slots) unmarkable(ctx context.Context, name string, of sides) (string, error) {
	const base, mine, theirs = 1, 2, 3
	has := func(stage int) bool { return of[stage] != entry{} }
	switch {
	case has(base) && has(theirs) && !has(mine):
		return "you deleted or moved it, and the results changed it", nil
	case has(base) && has(mine) && !has(theirs):
		return "the results delete or move it, and you changed it", nil
	case !has(mine) || !has(theirs):
		return "both sides moved the same file", nil
	case !strings.HasPrefix(of[mine].mode, "100") || !strings.HasPrefix(of[theirs].mode, "100"):
		return "it is a link", nil
	}
	out, err := s.project.top().output(ctx, "check-attr", "-z", "filter", "--", name)
	if all := records(out); err == nil && len(all) == 3 && all[2] != "unspecified" && all[2] != "unset" {
		return "the filter " + text.OneLine(all[2]) + " of .gitattributes converts it", nil
	}
	return "", err
}

// mark stores the content of a conflict with the names of the sub-tasks in its markers, and returns the path that the
// results have it at. A file without markers is binary.
func (s *Slots) mark(ctx context.Context, c *Conflict, at entry, users, base, tip string) (path string, err error) {
	content, err := s.project.git.output(ctx, "cat-file", "blob", at.object)
	if err != nil {
		return "", err
	}
	end := regexp.MustCompile(`(?m)^>{7,} ` + tip + `(?::([^\r\n]*))?\r?$`).FindStringSubmatch(content)
	path = c.full
	if end == nil {
		c.Why = "it is binary"
		return path, nil
	}
	path = cmp.Or(end[1], path) // as the results have it, if the user moved it
	by, err := s.authors(ctx, base, tip, path)
	if err != nil {
		return "", err
	}
	var written strings.Builder
	c.Hunks = relabelled(&written, content, users, tip, text.OneLine(strings.Join(by, ", ")))
	id, err := s.project.git.feed(ctx, written.String(), "hash-object", "-w", "--stdin")
	c.marked = entry{at.mode, strings.TrimSpace(id)}
	return path, err
}

// relabelled writes a merged file with names instead of commits in its conflict markers, and returns its conflicts.
func relabelled(out *strings.Builder, content, users, tip, by string) (hunks []Hunk) {
	var now *Hunk
	line, theirs := 1, false
	crlf := text.If(2*strings.Count(content, "\r\n") > strings.Count(content, "\n"), "\r") // git's markers may lack it
	for raw := range strings.Lines(content) {
		said := strings.TrimRight(raw, "\r\n")
		mark, label, _ := strings.Cut(said, " ")
		fence := len(mark) >= 7 && strings.Trim(mark, mark[:1]) == ""
		switch {
		case now == nil && fence && mark[0] == '<' && strings.HasPrefix(label, users):
			now, theirs = &Hunk{Line: line}, false
			said, raw = mark+" "+yours, crlf+"\n"
		case now != nil && fence && mark[0] == '|':
			theirs = true // what was there before both, which the user's file does not have
			said, raw = mark+" before", crlf+"\n"
		case now != nil && said == mark && fence && mark[0] == '=':
			theirs, raw = true, crlf+"\n"
		case now != nil && fence && mark[0] == '>' && strings.HasPrefix(label, tip):
			said, raw = mark+" "+by, crlf+"\n"
			hunks, now = append(hunks, Hunk{now.Line, append(now.Lines, said)}), nil
		case now == nil || !theirs:
			line++
		}
		if now != nil {
			now.Lines = append(now.Lines, said)
		}
		out.WriteString(said + raw[len(strings.TrimRight(raw, "\r\n")):])
	}
	return hunks
}

// authors returns the sub-tasks whose results changed a file, or "the results".
func (s *Slots) authors(ctx context.Context, base, tip, name string) ([]string, error) {
	out, err := s.project.top().output(ctx, "log", "--reverse", "--no-show-signature", "--no-color",
		"--format=%(trailers:key="+boulder.SubTaskTrailer+",valueonly)", base+".."+tip, "--", ":(literal)"+name)
	var by []string
	for _, id := range strings.Fields(out) {
		if !slices.Contains(by, id) {
			by = append(by, id)
		}
	}
	if by == nil {
		by = []string{"the results"}
	}
	return by, err
}

// entries lists all files of a tree.
func (s *Slots) entries(ctx context.Context, tree string) (map[string]entry, error) {
	out, err := s.project.top().output(ctx, "ls-tree", "-r", "-z", "--full-tree", tree)
	if err != nil {
		return nil, err
	}
	all := map[string]entry{}
	for _, record := range records(out) { // "<mode> <type> <object>\t<path>"
		about, name, _ := strings.Cut(record, "\t")
		f := strings.Fields(about)
		if len(f) != 3 {
			return nil, fmt.Errorf("git printed %.200q, which is no file of a tree", record)
		}
		all[name] = entry{f[0], f[2]}
	}
	return all, nil
}

// resolve decides what is written of files that conflict, or returns a [ConflictError]. users is the commit of the user's
// files.
func (s *Slots) resolve(ctx context.Context, l *landing, m merged, users string) error {
	all, err := s.conflicts(ctx, m, users, l.Base, l.Tip)
	if err != nil {
		return err
	}
	switch marked := func(c Conflict) bool { return c.Why != whyShape && slices.Contains(l.Marked, c.Path) }; {
	case l.Marked != nil:
		edited := slices.DeleteFunc(slices.Clone(all), func(c Conflict) bool { return !marked(c) })
		if all = slices.DeleteFunc(all, marked); len(all) > 0 {
			return &ConflictError{all, yours}
		}
		var back []string
		for _, c := range edited {
			back = append(back, c.full)
		}
		l.To, err = s.replaced(ctx, m.tree, l.Tip, back, nil)
		all = edited
	case !l.Merge:
		return &ConflictError{all, yours}
	default:
		l.To, err = s.withMarkers(ctx, m, users, all)
	}
	l.Conflicts = all
	return err
}

// hidden refuses an undo if git ignores by now a file that landed anew: it is in no tree of the user's files, and would stay.
func (s *Slots) hidden(ctx context.Context, root *os.Root, l *landing, changes []Change) error {
	back, err := s.changes(ctx, l.Base, l.Tip)
	if err != nil {
		return err
	}
	refused := &ConflictError{With: "your ignore rules"}
	for _, c := range back {
		info := look(root, c.Path)
		if !c.Deleted || info == nil || info.IsDir() || slices.ContainsFunc(changes, func(of Change) bool { return of.Path == c.Path }) {
			continue
		}
		refused.Conflicts = append(refused.Conflicts, Conflict{
			Path: strings.TrimPrefix(c.Path, s.project.prefix), Why: "git ignores it since it landed: remove it, or the rule that ignores it",
		})
	}
	if refused.Conflicts == nil {
		return nil
	}
	return refused
}

// spareIgnored takes changes out of a landing that would need a place where the user has a file that git ignores.
func (s *Slots) spareIgnored(ctx context.Context, root *os.Root, l *landing, changes []Change) ([]Change, error) {
	ignored := inTheWay(root, changes)
	if len(ignored) == 0 {
		return changes, nil
	}
	var stay []string
	for _, c := range changes {
		if slices.ContainsFunc(ignored, func(name string) bool {
			return name == c.Path || strings.HasPrefix(c.Path, name+"/") || strings.HasPrefix(name, c.Path+"/")
		}) {
			by, err := s.authors(ctx, l.Base, l.Tip, c.Path)
			if err != nil {
				return nil, err
			}
			stay = append(stay, c.Path)
			l.Conflicts = append(l.Conflicts, Conflict{
				Path: strings.TrimPrefix(c.Path, s.project.prefix), Why: whyIgnored, By: by,
			})
		}
	}
	var err error
	if l.To, err = s.replaced(ctx, l.To, l.From, stay, nil); err != nil {
		return nil, err
	}
	return s.changes(ctx, l.From, l.To)
}

// writtenRef ends the name of the ref of what was written with conflicts. Names of sub-tasks have no dot.
const writtenRef = "tip.written"

// pinFiles makes the commit that [Merged].Written is, with a ref that keeps it for as long as dropped results. If only what
// stays is left, there is nothing to write.
func (s *Slots) pinFiles(ctx context.Context, l *landing) (written string, err error) {
	p, name := s.project, writtenRef
	if l.Marked != nil {
		name = "tip.edited"
		written, err = p.commit(ctx, l.From, l.Base, "The user's files before the landing was undone", time.Unix(0, 0))
	} else if l.From == l.To {
		err = &ConflictError{l.Conflicts, yours}
	} else if written, err = p.commit(ctx, l.From, "", "The user's files before the landing", time.Unix(0, 0)); err == nil {
		message := "The user's files as they were written, with conflicts\n\n" + modesTrailer + ": " + l.Modes.String()
		written, err = p.commit(ctx, l.To, written, message, time.Unix(0, 0))
	}
	if err == nil {
		_, err = p.git.output(ctx, "update-ref", dropped+l.BoulderID+"/"+name, written)
	}
	return written, err
}

// withMarkers returns a merged tree in which files that conflict have markers, or are those of the user's tree.
func (s *Slots) withMarkers(ctx context.Context, m merged, users string, all []Conflict) (string, error) {
	edits := map[string]entry{}
	var stay []string
	for _, c := range all {
		if c.Why == "" {
			edits[c.full] = c.marked
		} else {
			stay = append(stay, c.full)
		}
	}
	for name := range m.sides { // what git moved out of the way
		if !slices.ContainsFunc(all, func(c Conflict) bool { return c.full == name }) {
			edits[name] = entry{}
		}
	}
	return s.replaced(ctx, m.tree, users, stay, edits)
}

// replaced returns a tree in which what is at and below some paths is that of another tree. edits are further entries; an
// empty one is none.
func (s *Slots) replaced(ctx context.Context, tree, other string, paths []string, edits map[string]entry) (string, error) {
	within := func(name string) bool {
		return slices.ContainsFunc(paths, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") })
	}
	edits = maps.Clone(edits)
	if edits == nil {
		edits = map[string]entry{}
	}
	for i, t := range []string{tree, other} {
		entries, err := s.entries(ctx, t)
		if err != nil {
			return "", err
		}
		for name, e := range entries {
			if within(name) {
				edits[name] = map[bool]entry{true: e}[i == 1]
			}
		}
	}
	var gone, there strings.Builder
	for name, e := range edits {
		if e.mode == "" {
			gone.WriteString("0 " + strings.Repeat("0", len(tree)) + "\t" + name + "\x00")
		} else {
			there.WriteString(e.mode + " " + e.object + "\t" + name + "\x00")
		}
	}
	dir, err := os.MkdirTemp("", indexPrefix)
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }() // gc removes what remains
	g := s.project.top()
	g.index = filepath.Join(dir, "index")
	if _, err := g.output(ctx, "read-tree", tree); err != nil {
		return "", err
	}
	if _, err := g.feed(ctx, gone.String()+there.String(), "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	return g.line(ctx, "write-tree")
}

// stagesIn reads what git merge-tree prints of files that conflict: "<mode> <object> <stage>\t<path>".
func stagesIn(out []string) (map[string]sides, error) {
	all := map[string]sides{}
	for _, record := range out {
		about, name, _ := strings.Cut(record, "\t")
		f := strings.Fields(about)
		stage := 0
		if len(f) == 3 {
			stage, _ = strconv.Atoi(f[2])
		}
		if stage < 1 || stage > 3 {
			return nil, fmt.Errorf("git merge-tree printed %.200q, which is no file that conflicts", record)
		}
		of := all[name]
		of[stage] = entry{f[0], f[1]}
		all[name] = of
	}
	return all, nil
}
