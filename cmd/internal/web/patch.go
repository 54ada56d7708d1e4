package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// How much of a patch is on a page: more would make it slow, and `manager diff` has all of it.
const (
	patchLines = 3_000
	fileLines  = 600
	openLines  = 200 // a file with more is folded at first
)

// patchesKept is how many patches are cached.
const patchesKept = 16

// patch is what changed, by file.
type patch struct {
	Files          []*fileDiff
	Count          int
	Added, Removed int
	Cut            string // the command that shows all of it; empty: the page has it
	None           string // why there are no files
}

type fileDiff struct {
	Path, How      string // How: new, deleted, binary or empty
	Added, Removed int
	Lines          []diffLine
	Note           string // why lines are missing
	Open           bool
}

// diffLine is a line of a file before or after the change. Class is add, del, hunk, or empty if it is in both.
type diffLine struct {
	Class    string
	Old, New int // its numbers; 0: it is not there
	Text     string
}

// patchOf returns the change of a sub-task or, with an empty id, of the whole boulder. An open page asks for it after each
// event, and git only if one changed files.
func (s *Site) patchOf(ctx context.Context, r *reading, id string) patch {
	of := fmt.Sprintln(r.Boulder.ID, id, r.Boulder.Trunk.Tip)
	for _, t := range r.SubTasks {
		of += fmt.Sprintln(t.Tree, t.Work, t.Integrated, len(t.Files), len(t.Changes))
	}
	s.mu.Lock()
	p, made := s.patches[of]
	s.mu.Unlock()
	if made {
		return p
	}
	p = s.readPatch(ctx, r, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.patches) >= patchesKept {
		clear(s.patches)
	}
	s.patches[of] = p
	return p
}

// readPatch reads a change from git. What that does not have any more comes from the records of the newest turns, which may
// be cut.
func (s *Site) readPatch(ctx context.Context, r *reading, id string) patch {
	command := "manager diff -b " + r.Boulder.ID + text.Prefixed(" ", id)
	of, err := s.project.PatchOf(ctx, r.Reading, id)
	if err == nil {
		p := parsePatch(of)
		p.Cut = text.If(p.Cut != "", command)
		return p
	}
	newest := map[string]*boulder.Evidence{}
	var order []string
	for _, t := range boulder.Turns(r.Events, id) {
		if t.Evidence != nil {
			if newest[t.SubTaskID] == nil {
				order = append(order, t.SubTaskID)
			}
			newest[t.SubTaskID] = t.Evidence
		}
	}
	stored, kept := "", patch{}
	for _, id := range order {
		stored += strings.TrimSuffix(newest[id].Diff.Patch, "\n") + "\n"
		for _, f := range newest[id].Diff.Files {
			path := text.OneLine(f.Path)
			if slices.ContainsFunc(kept.Files, func(of *fileDiff) bool { return of.Path == path }) {
				continue // by another sub-task, too
			}
			kept.add(&fileDiff{Path: path, Added: max(0, f.Added), Removed: max(0, f.Removed), Note: "The lines were not kept."})
		}
	}
	switch p := parsePatch(stored); {
	case len(p.Files) > 0:
		p.Cut = text.If(p.Cut != "" || strings.Contains(stored, "[cut:"), command)
		return p
	case len(kept.Files) > 0:
		return kept
	case len(order) == 0:
		return patch{None: "Nothing has been changed yet."}
	}
	return patch{None: "What changed is not known: " + err.Error()}
}

// parsePatch reads what git prints of a change. Any other text gives no files.
func parsePatch(of string) (p patch) {
	var f *fileDiff
	inHunk, left, old, now := false, patchLines, 0, 0
	for line := range strings.Lines(text.Safe(of)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "diff --git "):
			name := max(strings.LastIndex(line, " b/"), strings.LastIndex(line, ` "b/`))
			f, inHunk = &fileDiff{Path: pathIn(line[name+1:])}, false
			p.Files = append(p.Files, f)
		case f == nil:
		case strings.HasPrefix(line, "@@ "):
			inHunk = true
			old, now = hunk(line)
			_, where, _ := strings.Cut(line[2:], "@@")
			f.Lines = append(f.Lines, diffLine{Class: "hunk", Text: fmt.Sprintf("from line %d%s", cmp.Or(now, old), text.Prefixed(" · ", strings.TrimSpace(where)))})
		case !inHunk:
			f.header(line)
		case line == "": // no line of a patch, which begins with what became of it
		default:
			added := diffLine{Text: strings.TrimPrefix(line, " "), Old: old, New: now}
			switch {
			case strings.HasPrefix(line, "+"):
				added = diffLine{"add", 0, now, line[1:]}
				f.Added++
			case strings.HasPrefix(line, "-"):
				added = diffLine{"del", old, 0, line[1:]}
				f.Removed++
			case !strings.HasPrefix(line, " "): // no newline at the end, or a cut
				f.Note = strings.TrimPrefix(line, `\ `)
				continue
			}
			old, now = old+min(added.Old, 1), now+min(added.New, 1)
			if len(f.Lines) >= fileLines || left == 0 {
				f.Note, p.Cut = "more lines are not shown", "cut"
				continue
			}
			left--
			f.Lines = append(f.Lines, added)
		}
	}
	all := p.Files
	p.Files = nil
	for _, f := range all {
		f.Open = len(f.Lines) <= openLines
		p.add(f)
	}
	p.None = text.If(p.Count == 0, "Nothing has been changed.")
	return p
}

func (p *patch) add(f *fileDiff) {
	p.Files, p.Count, p.Added, p.Removed = append(p.Files, f), p.Count+1, p.Added+f.Added, p.Removed+f.Removed
}

// header reads a line between the name of a file and its first hunk.
func (f *fileDiff) header(line string) {
	switch {
	case strings.HasPrefix(line, "+++ b/"), strings.HasPrefix(line, `+++ "b/`):
		f.Path = pathIn(line[4:])
	case strings.HasPrefix(line, "new file"):
		f.How = "new"
	case strings.HasPrefix(line, "deleted file"):
		f.How = "deleted"
	case strings.HasPrefix(line, "Binary files"):
		f.How, f.Note = text.JoinedBy(", ", f.How, "binary"), "a binary file"
	}
}

// pathIn returns the path that git prints as b/PATH, in quotes if it has unusual characters.
func pathIn(s string) string {
	if plain, err := strconv.Unquote(s); err == nil {
		s = text.Safe(plain)
	}
	return strings.TrimPrefix(s, "b/")
}

// hunk returns the first line before and after a change, from "@@ -12,5 +12,6 @@".
func hunk(line string) (old, now int) {
	fields := strings.Fields(line)
	at := func(i int) int {
		if i >= len(fields) {
			return 0
		}
		first, _, _ := strings.Cut(strings.TrimLeft(fields[i], "-+"), ",")
		n, _ := strconv.Atoi(first)
		return n
	}
	return at(1), at(2)
}
