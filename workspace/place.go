package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/bouldermgr/manager/internal/text"
)

// obstacles looks for what stands in the way of changes, before any is made.
func (s *Slots) obstacles(root *os.Root, changes []Change) error {
	if files := s.twins(root, changes); len(files) > 0 {
		return fmt.Errorf("%w: names that differ in case only are one file here: %s", ErrConflict, named(files))
	}
	if files := inTheWay(root, changes); len(files) > 0 {
		refused := &ConflictError{With: "ignored files of yours"}
		for _, name := range files {
			refused.Conflicts = append(refused.Conflicts, Conflict{Path: name, Why: whyIgnored})
		}
		return refused
	}
	return s.writable(root, changes)
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
		info := look(root, c.Path)
		switch {
		case info == nil || c.old != "":
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

// twins lists new files with those from which they differ in case only, where the file system takes both for one.
func (s *Slots) twins(root *os.Root, changes []Change) (files []string) {
	added := map[string]map[string]bool{} // names of files and directories by their directory
	for _, c := range changes {
		for name := c.Path; c.old == "" && name != "."; name = path.Dir(name) {
			dir := path.Dir(name)
			if added[dir] == nil {
				added[dir] = map[string]bool{}
			}
			added[dir][path.Base(name)] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(added)) {
		if !s.foldsCase(root, dir) {
			continue
		}
		is := map[string]string{}
		for _, name := range slices.Concat(namesIn(root, dir), slices.Sorted(maps.Keys(added[dir]))) {
			key := strings.ToLower(strings.ToUpper(name))
			if other := is[key]; other != "" && other != name {
				files = append(files, path.Join(dir, other)+" and "+path.Join(dir, name))
			}
			is[key] = name
		}
	}
	return files
}

// foldsCase reports whether names that differ in case are one file in a directory, or where it will be made.
func (s *Slots) foldsCase(root *os.Root, dir string) bool {
	if s.ignoresCase {
		return true
	}
	names := namesIn(root, dir)
	for _, name := range names {
		other := strings.Map(func(r rune) rune {
			if unicode.IsUpper(r) {
				return unicode.ToLower(r)
			}
			return unicode.ToUpper(r)
		}, name)
		if other != name {
			one, two := look(root, path.Join(dir, name)), look(root, path.Join(dir, other))
			return !slices.Contains(names, other) && one != nil && two != nil && os.SameFile(one, two)
		}
	}
	return dir != "." && s.foldsCase(root, path.Dir(dir))
}

func namesIn(root *os.Root, dir string) (names []string) {
	entries, _ := fs.ReadDir(root.FS(), dir) // it may be a file, or not be there
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// writable looks at each directory that will change, so that one that is read-only is found before the first write.
func (s *Slots) writable(root *os.Root, changes []Change) error {
	seen := map[string]bool{}
	for _, c := range changes {
		dir := path.Dir(c.Path)
		for info := look(root, dir); dir != "." && (info == nil || !info.IsDir()); info = look(root, dir) {
			dir = path.Dir(dir)
		}
		if seen[dir] {
			continue
		}
		seen[dir] = true
		const write, enter = 2, 1
		if err := syscall.Access(filepath.Join(s.project.root, dir), write|enter); err != nil {
			return fmt.Errorf("files of %s cannot be changed: %w", text.OneLine(dir), err)
		}
	}
	return nil
}

// placing are staged files on their way to their places in the project.
type placing struct {
	root    *os.Root // of the project
	dir     string   // what is staged
	leave   func()   // what is to be done when it is gone
	changes []Change
	found   map[string]fs.FileInfo // what was in the places when they were compared with a tree; see look
	modes   modes                  // of files that come back
	temp    string                 // name of a file beside one that is written: no file of anybody
	step    func() error           // before each change of a file; nil: nothing
}

// stage checks out the changed files of a tree into a new directory beside the slots.
func (s *Slots) stage(ctx context.Context, root *os.Root, tree string, changes []Change) (p *placing, err error) {
	in, err := s.newDir()
	if err != nil {
		return nil, err
	}
	parent, err := in.open()
	if err != nil {
		return nil, err
	}
	parent.Close()
	dir, err := os.MkdirTemp(in.path(), stagedPrefix)
	if err != nil {
		return nil, err
	}
	p = &placing{
		root: root, dir: dir, changes: changes, found: map[string]fs.FileInfo{}, temp: ".manager-landing-" + tree, step: s.onStep,
		leave: func() { _ = s.leave(in) }, // an empty directory disturbs nobody
	}
	defer func() {
		if err != nil {
			p.discard()
		}
	}()
	g := s.project.top()
	g.index = filepath.Join(dir, "index")
	if _, err := g.output(ctx, "read-tree", tree); err != nil {
		return nil, err
	}
	var paths strings.Builder
	for _, c := range changes {
		if !c.Deleted {
			paths.WriteString(c.Path + "\x00")
		}
	}
	_, err = g.feed(ctx, paths.String(), "checkout-index", "-z", "--stdin", "--prefix="+filepath.Join(dir, "files")+"/")
	return p, err
}

// stagedPrefix begins the names of directories in which files are staged.
const stagedPrefix = "land-"

func (p *placing) file(name string) string {
	return filepath.Join(p.dir, "files", filepath.FromSlash(name))
}

// discard removes what is staged. What is left goes with the boulder's slots.
func (p *placing) discard() {
	_ = os.RemoveAll(p.dir)
	p.leave()
}

// clean removes what a killed landing left beside files.
func (p *placing) clean() {
	for _, c := range p.changes {
		_ = p.root.Remove(path.Join(path.Dir(c.Path), p.temp))
	}
}

// errKilled is what a test's step returns to leave everything as a kill at that moment does.
var errKilled = errors.New("killed")

// place moves staged files to their places, each atomically. Deletions come last, unless they make way for a file. It
// follows no links that lead out of the project. When it returns, all is on disk.
func (p *placing) place() error {
	gone, below := map[string]bool{}, map[string][]string{} // below: the deleted files of a directory
	for _, c := range p.changes {
		for name := c.Path; c.Deleted && name != "."; name = path.Dir(name) {
			below[name] = append(below[name], c.Path)
		}
	}
	remove := func(name string) error {
		if gone[name] {
			return nil
		}
		gone[name] = true
		return p.remove(name)
	}
	for _, c := range p.changes {
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
		if err := p.write(c.Path); err != nil {
			return err
		}
	}
	for _, c := range p.changes {
		if !c.Deleted {
			continue
		}
		if err := remove(c.Path); err != nil {
			return err
		}
	}
	return p.sync()
}

// sync returns when the changed directories are on disk.
func (p *placing) sync() error {
	done := map[string]bool{}
	for _, c := range p.changes {
		for dir := path.Dir(c.Path); !done[dir]; dir = path.Dir(dir) {
			done[dir] = true
			if info := look(p.root, dir); info == nil || !info.IsDir() {
				continue
			}
			f, err := p.root.Open(dir)
			if err == nil {
				err = f.Sync()
				f.Close()
			}
			if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) { // not every file system can
				return err
			}
		}
	}
	return nil
}

// begin is called before each change of a file.
func (p *placing) begin() error {
	if p.step == nil {
		return nil
	}
	return p.step()
}

// unchanged returns an error if somebody has changed what is in a place since it was compared. Only an edit after this look
// and before the system call that follows it is lost.
func (p *placing) unchanged(name string) error {
	is, was := look(p.root, name), p.found[name]
	file := func(info fs.FileInfo) bool { return info != nil && !info.IsDir() } // directories are made and removed for files
	if !file(is) && !file(was) {
		return nil
	}
	if file(is) && file(was) && os.SameFile(is, was) && is.Mode() == was.Mode() && is.Size() == was.Size() && is.ModTime().Equal(was.ModTime()) {
		return nil
	}
	return fmt.Errorf("%s was changed meanwhile: land once more", text.OneLine(name))
}

// look returns what is in a place of the project; nil if nothing is, or if a link is on the way to it.
func look(root *os.Root, name string) fs.FileInfo {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if info, err := root.Lstat(name[:i]); err != nil || !info.IsDir() {
			return nil
		}
	}
	info, err := root.Lstat(name)
	if err != nil {
		return nil
	}
	return info
}

func (p *placing) remove(name string) error {
	if err := p.begin(); err != nil {
		return err
	}
	if err := p.unchanged(name); err != nil {
		return err
	}
	if look(p.root, name) == nil {
		return nil
	}
	if err := p.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	removeEmpty(p.root, path.Dir(name))
	return nil
}

// removeEmpty removes a directory and those that it is in, as far as they are empty now.
func removeEmpty(root *os.Root, dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if info := look(root, dir); info != nil && (!info.IsDir() || root.Remove(dir) != nil) {
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

// write puts a staged file into its place, which may be on another file system: it is copied beside it, and renamed.
func (p *placing) write(name string) error {
	if err := p.begin(); err != nil {
		return err
	}
	if err := p.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	if info := look(p.root, path.Dir(name)); info == nil || !info.IsDir() {
		return fmt.Errorf("%s was changed meanwhile: land once more", text.OneLine(path.Dir(name)))
	}
	if err := p.begin(); err != nil {
		return err
	}
	if info := look(p.root, name); info != nil && info.IsDir() { // without files, or it would be in the way
		removeDirs(p.root, name)
	}
	temp := path.Join(path.Dir(name), p.temp)
	_ = p.root.Remove(temp)
	err := p.copyTo(name, temp)
	if err == nil {
		err = p.begin()
	}
	if err == nil {
		err = p.unchanged(name)
	}
	if err == nil {
		err = p.root.Rename(temp, name)
	}
	if err != nil && !errors.Is(err, errKilled) {
		_ = p.root.Remove(temp)
	}
	return err
}

// copyTo copies a staged file or link.
func (p *placing) copyTo(name, to string) error {
	root, staged := p.root, p.file(name)
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
	mode := p.mode(name, info)
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Sync(), out.Close())
}
