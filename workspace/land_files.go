package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/statedir"
)

// Change is a file that landing changes.
type Change struct {
	Path    string `json:"path"` // from the top of the work tree
	Deleted bool   `json:"deleted,omitempty"`

	old, new string // mode and object; empty: no file
}

// landing is what the file landingFile says: the user's files are on the way from one tree to another. It is on disk
// before the first file is written, and goes when it is recorded that the results have landed, so that a crash leaves a
// landing to finish.
type landing struct {
	Base string `json:"base"` // of the results
	Tip  string `json:"tip"`
	From string `json:"from"`
	To   string `json:"to"`
	Done bool   `json:"done,omitempty"` // all files are written, and on disk
	// Merge: conflicts are written, too; see [Merged] for these.
	Merge     bool       `json:"merge,omitempty"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Written   string     `json:"written,omitempty"`

	Modes     modes    `json:"modes,omitempty"`   // of the files as they were before
	BoulderID string   `json:"boulder,omitempty"` // of a merge
	Marked    []string `json:"marked,omitzero"`   // of [Slots.UndoMerge]: files that had conflict markers; else nil
	Before    *landing `json:"before,omitempty"`  // an interrupted landing of the same results, which this one completes

	restore modes // of files that come back
}

const landingFile = "landing.json" // in the state directory

// LandFiles brings the change from base to tip into the user's files, and leaves the index alone. Each file is merged
// with the user's changes. If any conflicts, nothing is written and the error wraps [ErrConflict]; it is a [ConflictError]
// if [Slots.MergeFiles] can write the rest. If writing fails, or the user changes one of the files meanwhile, what was
// written is undone. A landing of the same results that a crash interrupted is finished first, and one of others is put
// back. With dry, nothing is written.
//
// When it returns, the files are on disk. Call [Slots.EndLanding] when it is recorded that they have landed.
func (s *Slots) LandFiles(ctx context.Context, base, tip string, dry bool) ([]Change, error) {
	return s.deliver(ctx, &landing{Base: base, Tip: tip}, dry)
}

// Merged is what [Slots.MergeFiles] or [Slots.UndoMerge] wrote.
type Merged struct {
	Changes   []Change
	Conflicts []Conflict
	// Written, with Conflicts, is the commit of the files as they were written, whose parent has them as they were before; of
	// an undo, the commit of the files before it.
	Written string
}

// MergeFiles is LandFiles, but files that conflict keep it from nothing: they are written with conflict markers, or stay
// as the user has them where none are possible or where a file is that git ignores.
func (s *Slots) MergeFiles(ctx context.Context, boulderID, base, tip string, dry bool) (Merged, error) {
	l := &landing{Base: base, Tip: tip, Merge: true, BoulderID: boulderID}
	changes, err := s.deliver(ctx, l, dry)
	return Merged{changes, l.Conflicts, l.Written}, err
}

// UndoMerge takes a landing of MergeFiles back, all of it or nothing: marked files become those that they were, and are
// the Conflicts of the result if the user has edited them since. An edit of the same lines of others is a [ConflictError].
func (s *Slots) UndoMerge(ctx context.Context, boulderID, written string, marked []string, dry bool) (Merged, error) {
	before, err := s.project.git.line(ctx, "rev-parse", "--verify", written+"^")
	if err == nil {
		before, err = s.Tree(ctx, before)
	}
	if err == nil {
		before, err = s.project.commit(ctx, before, written, "as it was before", time.Unix(0, 0))
	}
	if err != nil {
		return Merged{}, s.project.explain(ctx, err, written)
	}
	l := &landing{Base: written, Tip: before, Merge: true, BoulderID: boulderID, Marked: append([]string{}, marked...)}
	if l.restore, err = s.modesOf(ctx, written); err != nil {
		return Merged{}, err
	}
	changes, err := s.deliver(ctx, l, dry)
	if err == nil && !dry { // nothing is recorded: undone again, it finds that nothing is left to do
		err = s.EndLanding(written, before)
	}
	return Merged{changes, l.Conflicts, l.Written}, err
}

// deliver lands.
func (s *Slots) deliver(ctx context.Context, l *landing, dry bool) (landed []Change, err error) {
	before, err := s.underWay()
	if err == nil && before != nil && !dry {
		before, err = s.settle(ctx, before, l)
	}
	if err != nil {
		return nil, err
	}
	if before != nil && l.Merge && !dry { // merged once more, its own markers would conflict
		*l = *before
		if landed, err = s.changes(ctx, l.From, l.To); err != nil {
			return nil, err
		}
		l.Done = true
		return landed, s.write(l)
	}
	root, err := os.OpenRoot(s.project.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	l.Before = before
	changes, err := s.compare(ctx, root, l)
	l.Modes = modesIn(root, changes)
	if err == nil && len(l.Conflicts) > 0 && !dry {
		l.Written, err = s.pinFiles(ctx, l)
	}
	switch {
	case err != nil:
		return nil, unwritten(err, before)
	case dry:
		return changes, nil
	case len(changes) > 0:
		if err := s.land(ctx, root, l, changes); err != nil {
			return nil, err
		}
	case before != nil:
		*l = *before
	default:
		return nil, nil
	}
	l.Done = true
	return changes, s.write(l)
}

// unwritten adds to an error what is true of the user's files.
func unwritten(err error, before *landing) error {
	if before != nil {
		return fmt.Errorf("%w; files of an earlier, interrupted landing are written, and nothing else was written", err)
	}
	return fmt.Errorf("%w; nothing was written", err)
}

// compare merges the user's files with the results into the trees of l, and returns in which files these differ. What
// stands in the way of writing them is an error.
func (s *Slots) compare(ctx context.Context, root *os.Root, l *landing) (changes []Change, err error) {
	w := *s.project
	w.git.config = append(slices.Clip(w.git.config),
		"-c", "core.fsync=all", // these objects complete a landing, or put it back
		"-c", "merge.directoryRenames=false") // the user's own file stays in its directory, even if the results move all others
	if l.From, err = w.Snapshot(ctx); err != nil {
		return nil, err
	}
	users, err := w.commit(ctx, l.From, l.Base, "The user's files", time.Unix(0, 0))
	if err != nil {
		return nil, err
	}
	m, err := w.Slots().merge(ctx, users, l.Tip)
	if err != nil {
		return nil, err
	}
	l.To = m.tree
	if len(m.conflicts) > 0 {
		if err := w.Slots().resolve(ctx, l, m, users); err != nil {
			return nil, err
		}
	}
	changes, err = s.changes(ctx, l.From, l.To)
	switch {
	case err != nil:
	case l.Marked != nil:
		err = s.hidden(ctx, root, l, changes)
	case l.Merge:
		changes, err = s.spareIgnored(ctx, root, l, changes)
	}
	if err == nil {
		err = s.obstacles(root, changes)
	}
	return changes, err
}

// land writes the files, or undoes what it wrote.
func (s *Slots) land(ctx context.Context, root *os.Root, l *landing, changes []Change) error {
	p, err := s.stage(ctx, root, l.To, changes)
	if err != nil {
		return unwritten(err, l.Before)
	}
	defer p.discard()
	p.modes = l.restore
	for _, c := range changes {
		p.found[c.Path] = look(root, c.Path)
	}
	if current, err := s.project.Snapshot(ctx); err != nil || current != l.From {
		return unwritten(errors.Join(err, errors.New("files were changed meanwhile: land once more")), l.Before)
	}
	if err := s.write(l); err != nil {
		return unwritten(err, l.Before)
	}
	failure := p.place()
	if failure == nil || errors.Is(failure, errKilled) {
		return failure
	}
	if err := s.putBack(context.WithoutCancel(ctx), root, l); err != nil {
		return fmt.Errorf("some of the files are written, and cannot be put back (%w): see to the cause, and land again: %w", err, failure)
	}
	return unwritten(failure, l.Before)
}

// underWay returns the landing that has not ended; nil if there is none.
func (s *Slots) underWay() (*landing, error) {
	data, err := os.ReadFile(filepath.Join(s.project.git.dir, stateDir, landingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	l := &landing{}
	if err == nil {
		err = json.Unmarshal(data, l)
	}
	return l, err
}

// write records a landing that is under way; nil: none is.
func (s *Slots) write(l *landing) error {
	if l == nil {
		return os.Remove(filepath.Join(s.project.git.dir, stateDir, landingFile))
	}
	data, err := json.Marshal(l)
	if err == nil {
		err = statedir.Write(s.project.git.dir, stateDir+"/"+landingFile, data)
	}
	return err
}

// EndLanding forgets the landing of these results, once it is recorded that they have landed. It may be called again.
func (s *Slots) EndLanding(base, tip string) error {
	l, err := s.underWay()
	if err != nil || l == nil || l.Base != base || l.Tip != tip {
		return err
	}
	return s.write(nil)
}

// PutBack undoes a landing that was interrupted, and one of these results of which it was not recorded that they have
// landed. Files that the user has changed since stay as they are.
func (s *Slots) PutBack(ctx context.Context, base, tip string) error {
	l, err := s.underWay()
	if err == nil && l != nil && (!l.Done || l.Base == base && l.Tip == tip) {
		_, err = s.settle(ctx, l, &landing{Base: base, Tip: tip, Merge: !l.Merge})
	}
	return err
}

// settle completes a landing that is under way, if it is of the wanted results in the wanted way, and returns it. Else it
// puts it back: its results were dropped, or landed elsewhere, or the user has edited files that one with conflicts, or an
// undo, may not have written yet. One of other results that has written all its files only lacks its end; with conflict
// markers it is an error, since nothing else remembers these.
func (s *Slots) settle(ctx context.Context, l, wanted *landing) (*landing, error) {
	same := l.Base == wanted.Base && l.Tip == wanted.Tip
	marks := l.Merge && l.Marked == nil && len(l.Conflicts) > 0
	if l.Done && !same {
		if marks {
			return nil, fmt.Errorf("the results of boulder %s are written into your files with conflicts, and that is not recorded yet: "+
				"record it with `manager land --files --merge %[1]s`, which `manager land --undo %[1]s` then takes back", boulder.ShortID(l.BoulderID))
		}
		return nil, s.write(nil)
	}
	root, err := os.OpenRoot(s.project.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	completes := same && l.Merge == wanted.Merge
	if l.Merge && (!completes || !l.Done) {
		edited, marked, err := s.edited(ctx, root, l)
		completes = completes && len(edited) == len(marked)
		if marks && !completes && len(marked) > 0 && err == nil {
			err = fmt.Errorf("a landing with conflicts was interrupted, and you have edited files since: take its conflict markers out of %s,"+
				" and land again", named(marked))
		}
		if err != nil {
			return nil, err
		}
	}
	if completes {
		err = s.complete(ctx, root, l.From, l.To, wanted.restore)
	} else {
		for ; err == nil && l != nil; l = l.Before {
			err = s.putBack(ctx, root, l)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("a landing was interrupted, and completing it fails: %w; look at your files with git, and land again, or remove %s",
			err, filepath.Join(stateDir, landingFile))
	}
	return l, nil
}

// putBack undoes a landing, up to what was under way before it.
func (s *Slots) putBack(ctx context.Context, root *os.Root, l *landing) error {
	if err := s.complete(ctx, root, l.To, l.From, l.Modes); err != nil {
		return err
	}
	return s.write(l.Before)
}

// complete writes the files that are still as in one tree as they are in the other, with the modes of those that come back.
func (s *Slots) complete(ctx context.Context, root *os.Root, from, to string, back modes) error {
	changes, err := s.changes(ctx, from, to)
	if err != nil {
		return err
	}
	before, err := s.stage(ctx, root, from, reversed(changes))
	if err != nil {
		return err
	}
	defer before.discard()
	p, err := s.stage(ctx, root, to, changes)
	if err != nil {
		return err
	}
	defer p.discard()
	p.clean()
	before.clean()
	p.changes, p.modes = nil, back
	for _, c := range changes {
		p.found[c.Path] = look(root, c.Path)
		if sameFile(root, c.Path, before.file(c.Path)) {
			p.changes = append(p.changes, c)
		} else if c.Deleted {
			removeEmpty(root, path.Dir(c.Path)) // made for it before a kill
		}
	}
	if err := s.obstacles(root, p.changes); err != nil {
		return err
	}
	return p.place()
}

// edited lists the files of a landing that are neither as they were before nor as they are written, and those of them that
// have the conflict markers that it writes.
func (s *Slots) edited(ctx context.Context, root *os.Root, l *landing) (all, marked []string, err error) {
	changes, err := s.changes(ctx, l.From, l.To)
	if err != nil {
		return nil, nil, err
	}
	from, err := s.stage(ctx, root, l.From, reversed(changes))
	if err != nil {
		return nil, nil, err
	}
	defer from.discard()
	to, err := s.stage(ctx, root, l.To, changes)
	if err != nil {
		return nil, nil, err
	}
	defer to.discard()
	for _, c := range changes {
		if sameFile(root, c.Path, from.file(c.Path)) || sameFile(root, c.Path, to.file(c.Path)) {
			continue
		}
		all = append(all, c.Path)
		content, _ := root.ReadFile(c.Path) // a directory, or gone: it has no markers
		if slices.ContainsFunc(l.Conflicts, func(of Conflict) bool {
			return s.project.prefix+of.Path == c.Path && slices.ContainsFunc(of.Hunks, func(h Hunk) bool {
				return bytes.Contains(content, []byte(h.Lines[0])) || bytes.Contains(content, []byte(h.Lines[len(h.Lines)-1]))
			})
		}) {
			marked = append(marked, c.Path)
		}
	}
	return all, marked, nil
}

// sameFile reports whether a file of the user is as a staged one: a link with the same target, or a file with the same
// content that may be executed or not; or that both are missing. It looks at the disk, since ignore rules, filters and the
// size of a file hide it from snapshots.
func sameFile(root *os.Root, name, staged string) bool {
	is := look(root, name)
	was, wasErr := os.Lstat(staged)
	if wasErr != nil || was.IsDir() {
		return is == nil || is.IsDir() // directories are made for what is below them
	}
	if is == nil || is.Mode().Type() != was.Mode().Type() {
		return false
	}
	if was.Mode()&fs.ModeSymlink != 0 {
		target, err := root.Readlink(name)
		other, otherErr := os.Readlink(staged)
		return err == nil && otherErr == nil && target == other
	}
	if !is.Mode().IsRegular() || is.Size() != was.Size() || is.Mode()&0o100 != was.Mode()&0o100 {
		return false
	}
	one, err := root.Open(name)
	if err != nil {
		return false
	}
	defer one.Close()
	two, err := os.Open(staged)
	if err != nil {
		return false
	}
	defer two.Close()
	return sameContent(one, two)
}

func sameContent(one, two io.Reader) bool {
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(one, a)
		m, otherErr := io.ReadFull(two, b)
		if !bytes.Equal(a[:n], b[:m]) || err != nil != (otherErr != nil) {
			return false
		}
		if err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

func reversed(changes []Change) []Change {
	back := slices.Clone(changes)
	for i, c := range back {
		back[i] = Change{Path: c.Path, Deleted: c.old == "", old: c.new, new: c.old}
	}
	return back
}

// changes lists the files in which two trees differ.
func (s *Slots) changes(ctx context.Context, from, to string) (changes []Change, err error) {
	out, err := s.project.top().output(ctx, "diff-tree", "-r", "-z", "--no-renames", "--raw", from, to)
	if err != nil {
		return nil, err
	}
	for pair := range slices.Chunk(records(out), 2) { // ":<mode> <mode> <object> <object> <status>", path
		about := strings.Fields(strings.TrimPrefix(pair[0], ":"))
		if len(about) != 5 || len(pair) != 2 {
			return nil, fmt.Errorf("git printed %.200q, which is no line of a diff", pair)
		}
		c := Change{Path: pair[1], Deleted: about[4] == "D"}
		if about[4] != "A" {
			c.old = about[0] + " " + about[2]
		}
		if about[4] != "D" {
			c.new = about[1] + " " + about[3]
		}
		changes = append(changes, c)
	}
	return changes, nil
}
