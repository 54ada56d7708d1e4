package workspace

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
)

// A project has a directory for its slots below [Slots.Home], outside of its own tree, so that no test runner, indexer or
// watcher finds copies of its files. In it are directories, each of a boulder with slots or in the pool, and, while files
// land, land-….
//
//	<home>/<project>-<hash of its path>/project.json  whose it is
//	<home>/<project>-<hash of its path>/pool.json     which boulder has which directory
//	<home>/<project>-<hash of its path>/<m>/<n>       a slot
//
// The project may have several: Home was another one before, or could not be used. A boulder stays where its slots are.
const (
	slotDirsFile = "slots.json"   // in the state directory: where the project has slots
	ownerFile    = "project.json" // in a directory of slots: whose they are
)

// slotsDir is a directory with slots of a project.
type slotsDir struct {
	base  string   // trusted
	below []string // directories in it, which are not followed if they are links
}

func (d slotsDir) path() string { return filepath.Join(d.base, filepath.Join(d.below...)) }

func (d slotsDir) open(names ...string) (*os.Root, error) {
	return statedir.Open(d.base, slices.Concat(d.below, names)...)
}

func (d slotsDir) write(name string, data []byte) error {
	return statedir.Write(d.base, strings.Join(append(slices.Clip(d.below), name), "/"), data)
}

// in returns a directory in d.
func (d slotsDir) in(name string) slotsDir {
	return slotsDir{d.base, append(slices.Clip(d.below), name)}
}

func (d slotsDir) has(name string) bool { return isDir(filepath.Join(d.path(), name)) }

// isDir reports whether a directory is there. A link to one is none: agents can make links.
func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// removeStaged removes what a killed [Slots.LandFiles] left.
func (d slotsDir) removeStaged() error {
	root, err := d.open()
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, entry := range entries {
		if (entry.IsDir() || entry.Type() == fs.ModeSymlink) && staged().MatchString(entry.Name()) {
			_ = root.RemoveAll(entry.Name())
		}
	}
	return err
}

// removeSlots removes a boulder's directory, except for what has files that are nowhere else. An agent may have put a link in
// the place of the directory or of a slot: it is removed, and what it leads to is not touched.
func (d slotsDir) removeSlots(name string) error {
	in := d.in(name)
	if !exists(in.path()) {
		return nil
	}
	parent, err := d.open()
	if err != nil {
		return err
	}
	defer parent.Close()
	if !isDir(in.path()) {
		return parent.Remove(name)
	}
	root, err := in.open()
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	var goes []string
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), keptPrefix) {
			goes = append(goes, entry.Name())
		}
	}
	err = errors.Join(err, in.remove(goes...))
	_ = parent.Remove(name) // if it is empty now
	return err
}

// remove removes what is in a directory of slots, also directories that an agent or a tool, such as Go's module cache, made
// read-only.
func (d slotsDir) remove(names ...string) error {
	root, err := d.open()
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range names {
		if root.RemoveAll(name) == nil {
			continue
		}
		path := filepath.Join(d.path(), name)
		_ = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return nil //nolint:nilerr // one that cannot be read was not captured, and stays
			}
			name, err := filepath.Rel(d.path(), path)
			if info, lookErr := entry.Info(); err == nil && lookErr == nil {
				_ = root.Chmod(name, info.Mode().Perm()|0o200)
			}
			return nil
		})
		if removeErr := root.RemoveAll(name); removeErr != nil {
			err = fmt.Errorf("%w: its results are safe; remove %s yourself, with the rights of the files' owner", removeErr, path)
		}
	}
	return err
}

// holdsKept reports whether a boulder's directory has files that are nowhere else, which nothing removes.
func (d slotsDir) holdsKept() bool {
	entries, _ := os.ReadDir(d.path()) // none, if it is not there
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), keptPrefix) })
}

// Dirs returns the directories in which the project has slots.
func (s *Slots) Dirs() (paths []string) {
	for _, d := range s.dirs() {
		paths = append(paths, d.path())
	}
	return paths
}

// inState is the directory of slots in the project itself: of earlier versions, and if Home cannot be used.
func (s *Slots) inState() slotsDir {
	return slotsDir{s.project.git.dir, []string{stateDir, "slots"}}
}

func (s *Slots) dirs() (all []slotsDir) {
	for _, path := range listed(s.project.git.dir).Dirs {
		if s.owns(path) {
			all = append(all, slotsDir{filepath.Dir(path), []string{filepath.Base(path)}})
		}
	}
	if old := s.inState(); isDir(filepath.Dir(old.path())) && isDir(old.path()) {
		all = append(all, old)
	}
	return all
}

// list is what slotDirsFile says.
type list struct {
	ID   string   `json:"id"` // random, and in the ownerFile of each
	Dirs []string `json:"dirs"`
}

// listed reads a project's slotDirsFile. A repository may have brought it along.
func listed(project string) (l list) {
	if readJSON(filepath.Join(project, stateDir), slotDirsFile, &l) != nil || len(l.ID) != len(rand.Text()) {
		return list{}
	}
	l.Dirs = slices.DeleteFunc(l.Dirs, func(path string) bool { return !filepath.IsAbs(path) })
	return l
}

// owner is what ownerFile says.
type owner struct {
	Project string `json:"project"`       // its directory
	ID      string `json:"manager_slots"` // of its list
	State   uint64 `json:"state"`         // the inode of its state directory: stays if it is moved, and a copy has another
	Mount   string `json:"mount"`         // where the disk is mounted that it is on
}

func ownerOf(path string) (o owner) {
	if readJSON(path, ownerFile, &o) != nil {
		return owner{}
	}
	return o
}

// readJSON reads a file in a directory where agents can write.
func readJSON(dir, name string, to any) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	data, err := statedir.Read(root, name)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// owner returns what a directory of this project is to say.
func (s *Slots) owner(id string) owner {
	o := owner{Project: s.project.git.dir, ID: id, Mount: mountOf(s.project.git.dir)}
	if info, err := os.Lstat(filepath.Join(o.Project, stateDir)); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			o.State = stat.Ino
		}
	}
	return o
}

// owns reports whether a directory has slots of this project: both have the same id, and it names this project, or one that
// does not have the id any more, since it was moved here. In doubt, it does not: nothing is used or removed there.
func (s *Slots) owns(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || !statedir.Owned(info) {
		return false
	}
	of, mine := ownerOf(path), s.owner(listed(s.project.git.dir).ID)
	if mine.ID == "" || of.ID != mine.ID || !filepath.IsAbs(of.Project) {
		return false
	}
	return of.Project == mine.Project || of.State == mine.State && listed(of.Project).ID != mine.ID
}

// dirOf returns the directory of a boulder's slots, with the id of its lease; one without a path if it has none.
func (s *Slots) dirOf(boulderID string) (in slotsDir, lease string) {
	for _, d := range s.dirs() {
		if in, lease = d.ofBoulder(boulderID); in.base != "" && isDir(in.path()) {
			return in, lease
		}
	}
	return slotsDir{}, ""
}

// openDir opens the directory of a boulder's slots, and takes or makes one if needed.
func (s *Slots) openDir(boulderID string) (in slotsDir, lease string, root *os.Root, err error) {
	var d slotsDir
	for _, d = range s.dirs() {
		if in, lease = d.ofBoulder(boulderID); in.base != "" {
			break
		}
	}
	if in.base == "" {
		if d, err = s.newDir(); err != nil {
			return in, "", nil, err
		}
		if d.path() == s.inState().path() { // no copies stay in the project
			in = d.in(boulderID)
		} else if in, lease, err = s.take(d, boulderID); err != nil {
			return in, "", nil, err
		}
	}
	if root, err = in.open(); err == nil {
		err = s.claimDir(d) // after the boulder has its directory, see [Slots.leave]
	}
	return in, lease, root, err
}

// newDir returns the directory in which new slots are made.
func (s *Slots) newDir() (slotsDir, error) {
	if s.Home == nil {
		return s.inState(), nil
	}
	d, err := s.below()
	if err == nil {
		return d, nil
	}
	if s.Instead == nil {
		return d, fmt.Errorf("%w: %w", boulder.ErrSlots, err)
	}
	s.Instead(err)
	return s.inState(), nil
}

// Place returns the directory of Home, or why it cannot be used. It may not be there.
func (s *Slots) Place() (string, error) {
	if s.Home == nil {
		return "", errors.New("no place outside of the project is named")
	}
	home, err := s.Home()
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(home); err == nil {
		home = resolved // as OpenCode and git name it
	}
	if in, err := filepath.Rel(s.project.root, home); s.project.root != "" && err == nil && filepath.IsLocal(in) {
		return "", fmt.Errorf("%s is in the project itself", home)
	}
	return home, nil
}

// below makes the project's directory below home.
func (s *Slots) below() (slotsDir, error) {
	defer s.lockDirs()()
	home, err := s.Place()
	if err == nil {
		err = os.MkdirAll(home, 0o700)
	}
	if err == nil {
		home, err = s.Place() // its links can be resolved now
	}
	if err != nil {
		return slotsDir{}, err
	}
	for _, d := range s.dirs() { // it may be named after another path, if the project was moved
		if d.base == home {
			return d, s.claim(d)
		}
	}
	name := s.project.slotsName()
	for n := 2; ; n++ {
		d := slotsDir{home, []string{name}}
		free, err := s.free(d)
		if err == nil && free {
			err = s.claim(d)
		}
		if err != nil || free {
			return d, err
		}
		name = fmt.Sprintf("%s-%d", s.project.slotsName(), n) // of a project that was here before and has been moved away
	}
}

// free reports whether a directory is this project's or nobody's, and makes it if it is not there.
func (s *Slots) free(d slotsDir) (bool, error) {
	if info, err := os.Lstat(d.path()); err == nil && info.IsDir() && !statedir.Owned(info) {
		return false, nil
	}
	root, err := d.open()
	if err != nil {
		return false, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	return err == nil && len(entries) == 0 || s.owns(d.path()), err
}

// lockDirs keeps other processes and methods from changing whose the directories are, until unlock is called.
func (s *Slots) lockDirs() (unlock func()) {
	f, err := os.Open(filepath.Join(s.project.git.dir, stateDir))
	if err != nil {
		return func() {} // there is no state yet
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX) // without, two that begin at once might get a directory each
	return func() { _ = f.Close() }
}

// claimDir notes whose slots a directory has, there and in the project.
func (s *Slots) claimDir(d slotsDir) error {
	defer s.lockDirs()()
	return s.claim(d)
}

func (s *Slots) claim(d slotsDir) error {
	path, l := d.path(), listed(s.project.git.dir)
	if path == s.inState().path() {
		return nil
	}
	l.Dirs = slices.DeleteFunc(l.Dirs, func(path string) bool { return !s.owns(path) })
	if slices.Contains(l.Dirs, path) && ownerOf(path) == s.owner(l.ID) {
		return nil
	}
	if len(l.Dirs) == 0 { // the id may be that of a project of which this is a copy
		l.ID = rand.Text()
	}
	if !slices.Contains(l.Dirs, path) {
		l.Dirs = append(l.Dirs, path)
	}
	if err := s.list(l); err != nil { // first: an empty directory without an owner can be taken
		return err
	}
	data, err := json.Marshal(s.owner(l.ID))
	if err == nil {
		err = d.write(ownerFile, data)
	}
	return err
}

// list writes slotDirsFile.
func (s *Slots) list(l list) error {
	if len(l.Dirs) == 0 {
		err := os.Remove(filepath.Join(s.project.git.dir, stateDir, slotDirsFile))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	data, err := json.Marshal(l)
	if err == nil {
		err = statedir.Write(s.project.git.dir, stateDir+"/"+slotDirsFile, data)
	}
	return err
}

// leave removes a directory of slots that is empty. Another process may be about to make a slot there.
func (s *Slots) leave(d slotsDir) error {
	defer s.lockDirs()()
	path := d.path()
	entries, err := os.ReadDir(path)
	inUse := func(e os.DirEntry) bool { // not by what a killed process left of writing a file or of [Slots.take]
		return e.Name() != ownerFile && !strings.HasPrefix(e.Name(), "."+ownerFile+"-") && !strings.HasPrefix(e.Name(), "."+poolFile+"-") &&
			(!leasedName().MatchString(e.Name()) || !d.in(e.Name()).empty() || d.leases()[e.Name()] != (lease{}))
	}
	if err != nil || slices.ContainsFunc(entries, inUse) {
		return nil // perhaps it is gone
	}
	for _, e := range entries {
		_ = os.Remove(filepath.Join(path, e.Name()))
	}
	if os.Remove(path) != nil && exists(path) {
		return s.claim(d)
	}
	if d.below[0] == stateDir {
		return nil
	}
	l := listed(s.project.git.dir)
	l.Dirs = slices.DeleteFunc(l.Dirs, func(other string) bool { return other == path || !s.owns(other) })
	return s.list(l)
}

// unlistGone takes directories off the list that a process removed, or had begun to, and died before it did that. One on a disk
// that is not there now stays.
func (s *Slots) unlistGone() error {
	defer s.lockDirs()()
	l := listed(s.project.git.dir)
	all := len(l.Dirs)
	l.Dirs = slices.DeleteFunc(l.Dirs, func(path string) bool {
		entries, err := os.ReadDir(path)
		return err == nil && len(entries) == 0 || !exists(path) && exists(filepath.Dir(path))
	})
	if len(l.Dirs) == all {
		return nil
	}
	return s.list(l)
}

var notInName = text.Regexp(`[^A-Za-z0-9._-]+`)

// slotsName names the project's directory below home. It is short, since slots may have sockets, whose paths are limited.
func (w *Workspace) slotsName() string {
	base := notInName().ReplaceAllString(filepath.Base(w.git.dir), "-")
	return strings.TrimLeft(base[:min(len(base), 24)]+fmt.Sprintf("-%x", sha256.Sum256([]byte(w.git.dir)))[:9], ".-")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
