package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// repo is the part of git that isolated boulders need, with their slots. A tree is its files; an id is a hash of its
// content. It outlives processes. Package workspace tests the real git.
type repo struct {
	trees   map[string]files
	commits map[string]commit
	refs    map[string]string // below refs/manager/<boulder>
	slots   map[int]*slot
	base    string
	moved   string // where the tip was before another program moved it; empty: not moved
}

type files map[string]string

type commit struct{ parent, tree string }

type slot struct {
	owner boulder.AttemptRef
	from  string
	files files // nil: a crash interrupted filling it
}

// Files that several sub-tasks write, and the mark of a conflict.
const (
	fileAPI  = "api"  // sub-tasks' own files must fit it
	fileList = "list" // a line for each sub-task
	fileSum  = "sum"  // generated from the others
	marker   = "<<<<"
)

// ignored begins the names of files that git ignores: they stay in their slot.
const ignored = "~"

const noMarkers = "no markers" // the gate of every combined tree

func newRepo() repo {
	r := repo{
		trees: map[string]files{}, commits: map[string]commit{}, refs: map[string]string{}, slots: map[int]*slot{},
	}
	r.base = r.commit("", r.tree(files{fileAPI: "v1"}), "base")
	return r
}

func idOf(of ...any) string {
	h := fnv.New64a()
	fmt.Fprint(h, of...)
	return fmt.Sprintf("%016x", h.Sum64())
}

func (r *repo) tree(f files) (id string) {
	id = "t" + idOf(f) // maps are printed sorted
	r.trees[id] = maps.Clone(f)
	return id
}

func (r *repo) commit(parent, tree, message string) (id string) {
	id = "c" + idOf(parent, tree, message)
	r.commits[id] = commit{parent, tree}
	return id
}

func (r *repo) files(commit string) files { return r.trees[r.commits[commit].tree] }

// has reports whether a commit is the other one or a descendant of it.
func (r *repo) has(commit, other string) bool {
	for ; commit != ""; commit = r.commits[commit].parent {
		if commit == other {
			return true
		}
	}
	return false
}

// merge returns the merge of two commits, and the files in conflict.
func (r *repo) merge(ours, theirs string) (merged files, conflicts []string) {
	at := theirs
	for !r.has(ours, at) {
		at = r.commits[at].parent
	}
	base, our, their := r.files(at), r.files(ours), r.files(theirs)
	merged = maps.Clone(our)
	for _, name := range slices.Sorted(maps.Keys(their)) {
		switch b, o, t := base[name], our[name], their[name]; {
		case t == b || t == o:
		case o == b:
			merged[name] = t
		default:
			merged[name] = marker + "\n" + o + "\n" + marker + "\n" + t
			conflicts = append(conflicts, name)
		}
	}
	return merged, conflicts
}

func (r *repo) capture(s *slot) (commit string) {
	tracked := maps.Clone(s.files)
	maps.DeleteFunc(tracked, func(name, _ string) bool { return strings.HasPrefix(name, ignored) })
	commit = r.commit(s.from, r.tree(tracked), fmt.Sprint(s.owner))
	r.refs[refOf(s.owner)] = commit
	return commit
}

func refOf(ref boulder.AttemptRef) string { return fmt.Sprintf("%s/%d", ref.SubTaskID, ref.Attempt) }

// claim empties a slot for filling, unless it is whole and belongs to the sub-task already.
func (r *repo) claim(c boulder.SlotClaim) (s *slot, whole bool) {
	for _, ref := range []string{"base", "tip"} {
		if r.refs[ref] == "" {
			r.refs[ref] = c.Base
		}
	}
	if s = r.slots[c.Slot]; s == nil {
		s = &slot{}
		r.slots[c.Slot] = s
	}
	was := s.owner.SubTaskID
	if s.files != nil && was != "" && was == c.SubTaskID && s.from == c.From {
		s.owner.Attempt = c.Attempt
		return s, true
	}
	if s.files != nil && was != "" {
		r.capture(s)
	}
	s.files = nil
	return s, false
}

// fill puts the sub-task's newest work into a slot, merged onto c.From.
func (r *repo) fill(s *slot, c boulder.SlotClaim) {
	s.owner, s.from = boulder.AttemptRef{SubTaskID: c.SubTaskID, Attempt: c.Attempt}, c.From
	s.files = maps.Clone(r.files(c.From))
	for attempt := c.Attempt; c.SubTaskID != "" && attempt > 0; attempt-- {
		if work := r.refs[refOf(boulder.AttemptRef{SubTaskID: c.SubTaskID, Attempt: attempt})]; work != "" {
			s.files, _ = r.merge(c.From, work)
			return
		}
	}
}

var errMoved = errors.New("somebody else moved the tip")

func (r *repo) moveTip(from, to string) error {
	switch at := r.refs["tip"]; at {
	case to:
	case from:
		r.refs["tip"] = to
	default:
		r.moved = from
		return fmt.Errorf("it is at %s, and was left at %s: %w", at, from, errMoved)
	}
	return nil
}

// green reports whether a gate passes on files.
func green(command string, f files) bool {
	if id, own := strings.CutPrefix(command, "check "); own {
		did, api, _ := strings.Cut(cmp.Or(f[ignored+id], f[id]), " for ")
		return did != "" && !strings.HasPrefix(did, "red ") && api == f[fileAPI]
	}
	for _, content := range f {
		if strings.Contains(content, marker) {
			return false
		}
	}
	return true
}

func generate(f files) {
	delete(f, fileSum)
	f[fileSum] = idOf(f)
}

// edit does an agent's work in its slot. Whether it resolves a conflict is chance, except after the user was asked.
func (sc *scenario) edit(f files, at place, red bool) {
	if at.conflicts > 0 && at.conflicts <= maxConflicts && !throw(sc.seed, "resolves", at).is(0.6) {
		return
	}
	did := fmt.Sprint("did ", at)
	if red {
		did = "red " + did
	}
	d := throw(sc.seed, "edits", at.subTask)
	renames, lists, sums, hides := d.is(0.3), d.is(0.4), d.is(0.4), d.is(0.3)
	if sc.class.same() { // nothing may depend on the order there
		f[at.subTask] = did + " for " + f[fileAPI]
		return
	}
	if renames {
		f[fileAPI] = at.subTask
	}
	if lists {
		lines := slices.DeleteFunc(strings.Split(f[fileList], "\n"), func(l string) bool { return l == "" || l == marker })
		f[fileList] = strings.Join(slices.Compact(slices.Sorted(slices.Values(append(lines, at.subTask)))), "\n")
	}
	delete(f, ignored+at.subTask)
	f[at.subTask] = did + " for " + f[fileAPI]
	if hides && at.conflicts == 0 { // until it is told that its file is ignored
		f[ignored+at.subTask] = f[at.subTask]
		delete(f, at.subTask)
	}
	for name, content := range f {
		if did, _, own := strings.Cut(content, " for "); own && at.conflicts > 0 {
			f[name] = did + " for " + f[fileAPI]
		}
	}
	if sums {
		generate(f)
	}
}

// maxConflicts is the number of conflicts after which the user is asked.
const maxConflicts = 3
