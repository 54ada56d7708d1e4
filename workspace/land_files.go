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
	"syscall"
	"time"

	"github.com/bouldermgr/manager/internal/statedir"
)

// Change is a file that landing changes.
type Change struct {
	Path    string `json:"path"` // from the top of the work tree
	Deleted bool   `json:"deleted,omitempty"`

	old, new string // mode and object; empty: no file
}

// landing is what the file landingFile says: the user's files are on the way from one tree to another. It is on disk
// before the first file is written, and goes after the last, so that a crash leaves a landing to finish.
type landing struct {
	Base string `json:"base"` // of the results
	Tip  string `json:"tip"`
	From string `json:"from"`
	To   string `json:"to"`
}

const landingFile = "landing.json" // in the state directory

// LandFiles brings the change from base to tip into the user's files, and leaves the index alone. Each file is merged
// with the user's changes. If any conflicts, nothing is written and the error wraps [ErrConflict]. If writing fails, what
// was written is undone. A landing of the same results that a crash interrupted is finished first, and one of others is
// put back. With dry, nothing is written.
func (s *Slots) LandFiles(ctx context.Context, base, tip string, dry bool) (landed []Change, err error) {
	w := s.project
	if !dry {
		if err := s.SettleLanding(ctx, base, tip); err != nil {
			return nil, err
		}
	}
	now, err := w.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	users, err := w.commit(ctx, now, base, "The user's files", time.Unix(0, 0))
	if err != nil {
		return nil, err
	}
	m, err := s.merge(ctx, users, tip)
	if err != nil {
		return nil, err
	}
	if len(m.conflicts) > 0 {
		return nil, fmt.Errorf("%w with your files: %s", ErrConflict, named(m.conflicts))
	}
	changes, err := s.changes(ctx, now, m.tree)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(w.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if inTheWay := inTheWay(root, changes); len(inTheWay) > 0 {
		return nil, fmt.Errorf("%w with ignored files of yours: %s", ErrConflict, named(inTheWay))
	}
	if dry || len(changes) == 0 {
		return changes, nil
	}
	staged, err := s.stage(ctx, m.tree, changes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staged)) }()
	if err := s.writable(root, changes); err != nil {
		return nil, err
	}
	if current, err := w.Snapshot(ctx); err != nil || current != now {
		return nil, errors.Join(err, errors.New("files were changed meanwhile, and nothing is written: land once more"))
	}
	data, err := json.Marshal(landing{Base: base, Tip: tip, From: now, To: m.tree})
	if err == nil {
		err = statedir.Write(w.git.dir, stateDir+"/"+landingFile, data)
	}
	if err != nil {
		return nil, err
	}
	if err := s.place(root, staged, changes); err != nil {
		return nil, s.undo(ctx, root, landing{From: now, To: m.tree}, changes, err)
	}
	return changes, s.landingEnds()
}

func (s *Slots) landingEnds() error {
	return os.Remove(filepath.Join(s.project.git.dir, stateDir, landingFile))
}

// SettleLanding completes a landing of these results that a crash interrupted. One of others is put back: they were dropped,
// or landed elsewhere. Files that the user has changed since stay as they are.
func (s *Slots) SettleLanding(ctx context.Context, base, tip string) error {
	var l landing
	data, err := os.ReadFile(filepath.Join(s.project.git.dir, stateDir, landingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return err
	}
	changes, err := s.changes(ctx, l.From, l.To)
	if err != nil {
		return fmt.Errorf("a landing was interrupted and cannot be completed: look at your files with git, remove %s, and land again: %w",
			filepath.Join(stateDir, landingFile), err)
	}
	root, err := os.OpenRoot(s.project.root)
	if err != nil {
		return err
	}
	defer root.Close()
	if l.Base != base || l.Tip != tip {
		l, changes = landing{From: l.To, To: l.From}, reversed(changes)
	}
	if err := s.complete(ctx, root, l, changes); err != nil {
		return fmt.Errorf("a landing was interrupted, and completing it fails: %w", err)
	}
	return s.landingEnds()
}

// complete writes the files that are still as in l.From as in l.To.
func (s *Slots) complete(ctx context.Context, root *os.Root, l landing, changes []Change) error {
	before, err := s.stage(ctx, l.From, reversed(changes))
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(before) }() // what is left goes with the boulder's slots
	after, err := s.stage(ctx, l.To, changes)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(after) }()
	changes = slices.DeleteFunc(slices.Clone(changes), func(c Change) bool {
		return !sameFile(root, c.Path, filepath.Join(before, "files", filepath.FromSlash(c.Path)))
	})
	return s.place(root, after, changes)
}

// sameFile reports whether a file of the user is as a staged one: a link with the same target, or a file with the same
// content that may be executed or not; or that both are missing. It looks at the disk, since ignore rules, filters and the
// size of a file hide it from snapshots.
func sameFile(root *os.Root, name, staged string) bool {
	is, isErr := root.Lstat(name)
	was, wasErr := os.Lstat(staged)
	if wasErr != nil || was.IsDir() {
		return isErr != nil || is.IsDir() // directories are made for what is below them
	}
	if isErr != nil || is.Mode().Type() != was.Mode().Type() {
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

// undo puts back what was written before a failure, and returns an error that says whether it could.
func (s *Slots) undo(ctx context.Context, root *os.Root, l landing, changes []Change, failure error) error {
	if errors.Is(failure, errKilled) {
		return failure
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.complete(ctx, root, landing{From: l.To, To: l.From}, reversed(changes)); err != nil {
		return fmt.Errorf("some of the files are written, and cannot be put back (%w): see to the cause, and land again: %w", err, failure)
	}
	for _, c := range changes {
		if c.old == "" {
			removeEmpty(root, path.Dir(c.Path))
		}
	}
	if err := s.landingEnds(); err != nil {
		return errors.Join(failure, err)
	}
	return fmt.Errorf("nothing is written: %w", failure)
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

// inTheWay lists files of the user that git ignores, where landing would write a file or a directory.
func inTheWay(root *os.Root, changes []Change) (files []string) {
	gone, seen := map[string]bool{}, map[string]bool{}
	for _, c := range changes {
		gone[c.Path] = gone[c.Path] || c.Deleted
	}
	blocks := func(name string) {
		if !gone[name] && !seen[name] {
			seen[name] = true
			files = append(files, name)
		}
	}
	for _, c := range changes {
		if c.Deleted {
			continue
		}
		for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
			if info, err := root.Lstat(dir); err == nil && !info.IsDir() {
				blocks(dir)
			}
		}
		info, err := root.Lstat(c.Path)
		switch {
		case err != nil || c.old != "":
		case !info.IsDir():
			blocks(c.Path)
		default:
			_ = fs.WalkDir(root.FS(), c.Path, func(name string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					blocks(name)
				}
				return nil
			})
		}
	}
	return files
}

// stage checks out the changed files of a tree into a new directory, which it returns.
func (s *Slots) stage(ctx context.Context, tree string, changes []Change) (dir string, err error) {
	if dir, err = os.MkdirTemp(filepath.Join(s.project.git.dir, stateDir), "land-"); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	g := s.project.top()
	g.index = filepath.Join(dir, "index")
	if _, err := g.output(ctx, "read-tree", tree); err != nil {
		return "", err
	}
	var paths strings.Builder
	for _, c := range changes {
		if !c.Deleted {
			paths.WriteString(c.Path + "\x00")
		}
	}
	_, err = g.feed(ctx, paths.String(), "checkout-index", "-z", "--stdin", "--prefix="+filepath.Join(dir, "files")+"/")
	return dir, err
}

// writable tries out each directory that will change, so that one that is read-only is found before the first write.
func (s *Slots) writable(root *os.Root, changes []Change) error {
	tried := map[string]bool{}
	for _, c := range changes {
		dir := path.Dir(c.Path)
		for dir != "." {
			if info, err := root.Lstat(dir); err == nil && info.IsDir() {
				break
			}
			dir = path.Dir(dir)
		}
		if tried[dir] {
			continue
		}
		tried[dir] = true
		probe := beside(dir + "/probe")
		_ = root.Remove(probe)
		f, err := root.OpenFile(probe, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			err = errors.Join(f.Close(), root.Remove(probe))
		}
		if err != nil {
			return fmt.Errorf("nothing is written: files of %s cannot be changed: %w", dir, err)
		}
	}
	return nil
}

// beside names a temporary file next to one that is about to be written. One that a crash left is used again.
func beside(name string) string { return path.Dir(name) + "/.manager-landing-" + path.Base(name) }

// errKilled is what a test's step returns to leave everything as a kill at that moment does.
var errKilled = errors.New("killed")

// place moves staged files to their places, each atomically. Deletions come last, unless they make way for a file. It
// follows no links that lead out of the project.
func (s *Slots) place(root *os.Root, staged string, changes []Change) error {
	gone, below := map[string]bool{}, map[string][]string{} // below: the deleted files of a directory
	for _, c := range changes {
		for name := c.Path; c.Deleted && name != "."; name = path.Dir(name) {
			below[name] = append(below[name], c.Path)
		}
	}
	remove := func(name string) error {
		if gone[name] {
			return nil
		}
		if err := s.step(); err != nil {
			return err
		}
		gone[name] = true
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removeEmpty(root, path.Dir(name))
		return nil
	}
	for _, c := range changes {
		if c.Deleted {
			continue
		}
		inTheWay := below[c.Path] // a directory gives way to a file, or a file to a directory
		for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
			if slices.Contains(below[dir], dir) {
				inTheWay = append(slices.Clip(inTheWay), dir)
			}
		}
		for _, name := range inTheWay {
			if err := remove(name); err != nil {
				return err
			}
		}
		if err := s.write(root, filepath.Join(staged, "files", filepath.FromSlash(c.Path)), c.Path); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if !c.Deleted {
			continue
		}
		if err := remove(c.Path); err != nil {
			return err
		}
	}
	return nil
}

// removeEmpty removes directories that are empty now.
func removeEmpty(root *os.Root, dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if info, err := root.Lstat(dir); err != nil || !info.IsDir() || root.Remove(dir) != nil {
			return
		}
	}
}

// removeDirs removes a directory that has only directories in it.
func removeDirs(root *os.Root, dir string) {
	var dirs []string
	_ = fs.WalkDir(root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, name)
		}
		return nil
	})
	for _, name := range slices.Backward(dirs) {
		_ = root.Remove(name)
	}
}

// write puts a staged file into its place. The place may be on another file system.
func (s *Slots) write(root *os.Root, staged, name string) error {
	if err := s.step(); err != nil {
		return err
	}
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	if err := s.step(); err != nil {
		return err
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() { // without files, or it would be in the way
		removeDirs(root, name)
	}
	from, err := filepath.Rel(s.project.root, staged)
	if err != nil {
		return err
	}
	if err = root.Rename(from, name); !errors.Is(err, syscall.EXDEV) {
		return err
	}
	temp := beside(name)
	_ = root.Remove(temp)
	if err = copyTo(root, staged, temp); err == nil {
		err = s.step()
	}
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil && !errors.Is(err, errKilled) {
		_ = root.Remove(temp)
	}
	return err
}

// copyTo copies a staged file or link.
func copyTo(root *os.Root, staged, to string) error {
	info, err := os.Lstat(staged)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(staged)
		if err != nil {
			return err
		}
		return root.Symlink(target, to)
	}
	in, err := os.Open(staged)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(info.Mode().Perm()), out.Sync(), out.Close())
}

// step is called before each change of the user's files.
func (s *Slots) step() error {
	if s.onStep == nil {
		return nil
	}
	return s.onStep()
}
