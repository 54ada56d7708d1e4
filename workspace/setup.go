package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/statedir"
)

// includeFile names ignored files to copy into new work trees, by a convention of several tools.
const includeFile = ".worktreeinclude"

// SetUp is what slots get in addition to the files of a commit.
type SetUp struct {
	// Copy has patterns as in .gitignore, from the top of the work tree, of untracked ignored files to copy. Links are
	// neither copied nor followed; nothing is overwritten. Nil: the patterns of .worktreeinclude.
	Copy []string
	// Commands run in a new slot, and again when a file that matches a pattern of When (git's glob) has changed.
	Commands, When []string
	Env            []string // NAME=VALUE, for commands in slots
	// Keep has patterns as in .gitignore, from the top of the work tree, of ignored files that the next boulder finds in a slot
	// of [Slots.Pool], and results in the slot in which they are tested together. All others are removed before.
	Keep []string
	// Run runs a command in a directory, with env in addition to the usual variables.
	Run func(ctx context.Context, dir string, env []string, line string) boulder.Gate
}

// prepareIgnored sets the slot up, and notes what of the ignored files is from there. What sub-tasks left stays, except in
// the slot for combined trees, which has nothing else than what is to be kept.
func (s *Slot) prepareIgnored(ctx context.Context, m marker) (marker, error) {
	s.setup = m.Ignored
	left, err := s.ignored(ctx)
	if err == nil && s.claim.SubTaskID == "" && s.claim.Slot == combined {
		var keep []string
		if keep, err = s.keeps(ctx); err == nil {
			left = slices.DeleteFunc(left, func(name string) bool { return within(keep, name) })
			left, err = nil, s.removeIgnored(left)
		}
	}
	with := s.slots.SetUp
	if err != nil || with == nil {
		return m, err
	}
	patterns, err := s.slots.Patterns()
	if err != nil {
		return m, err
	}
	watched, err := s.watched(ctx)
	if err != nil {
		return m, err
	}
	about, err := json.Marshal([]any{patterns, with.Commands, with.Env, watched})
	if err != nil {
		return m, err
	}
	now := fmt.Sprintf("%x", sha256.Sum256(about))
	ready := now == m.SetUp
	if s.foreign && m.SetUp != "" {
		known := watched != "" && len(m.Made) > 0 || len(with.Commands) == 0
		ready = ready && known && slices.Equal(m.Keep, with.Keep) && s.hasAll(m.Made)
		if !ready { // nothing of before is among what they make now
			err = s.removeIgnored(m.Made)
		}
	}
	if err != nil || ready && !s.foreign {
		return m, err
	}
	s.setup = left
	copied, err := s.copyIgnored(ctx, patterns)
	if err == nil && !ready {
		err = s.run(ctx, with)
	}
	if err != nil {
		return m, err
	}
	m.SetUp = now
	if m.Ignored, err = s.ignored(ctx); err != nil || ready {
		return m, err
	}
	m.Made, m.Keep, err = s.made(ctx, slices.Clone(m.Ignored), copied)
	return m, err
}

// made returns what set-up commands made: the new names, and those of before that are kept, into which they may have written. keep
// is what SetUp.Keep is if it names all of that, and they changed no file that git does not ignore.
func (s *Slot) made(ctx context.Context, names []string, copied map[string]bool) (made, keep []string, err error) {
	kept, err := s.keeps(ctx)
	if err != nil || len(s.slots.SetUp.Commands) == 0 {
		return nil, s.slots.SetUp.Keep, err
	}
	for _, name := range s.setup {
		if within(kept, name) {
			names = append(names, name)
		}
	}
	made = slices.DeleteFunc(names, func(name string) bool { return isCopy(s.dir, name, copied) })
	changed, err := s.top().output(ctx, "ls-files", "-z", "--modified", "--others", "--exclude-standard")
	if err != nil || changed != "" || slices.ContainsFunc(made, func(name string) bool { return !within(kept, name) }) {
		return made, nil, err
	}
	return made, s.slots.SetUp.Keep, nil
}

// watched lists what set-up commands depend on: files that match a pattern of SetUp.When, with their contents.
func (s *Slot) watched(ctx context.Context) (string, error) {
	when := s.slots.SetUp.When
	if len(when) == 0 {
		return "", nil
	}
	args := []string{"ls-files", "-z", "--stage", "--"}
	for _, pattern := range when {
		args = append(args, ":(glob)"+pattern)
	}
	return s.git.output(ctx, args...)
}

func (s *Slot) run(ctx context.Context, with *SetUp) error {
	for _, line := range with.Commands {
		g := with.Run(ctx, s.Dir(), s.Env(), line)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !g.Green():
			return &boulder.SetUpError{Gate: g}
		}
	}
	return nil
}

// sweep removes all files from a slot that git ignores, except for those to keep. What git does not ignore is not there.
func (s *Slots) sweep(ctx context.Context, dir string) error {
	args := []string{"clean", "-ffdxq"}
	for _, pattern := range s.keep() {
		args = append(args, "--exclude="+pattern)
	}
	_, err := s.in(dir).top().output(ctx, args...)
	return err
}

func (s *Slots) keep() []string {
	if s.SetUp == nil {
		return nil
	}
	return s.SetUp.Keep
}

// keeps lists what is in the slot and to be kept: files, and directories of nothing else, which end with a slash.
func (s *Slot) keeps(ctx context.Context) ([]string, error) {
	if len(s.slots.keep()) == 0 {
		return nil, nil
	}
	args := []string{"ls-files", "-z", "--others", "--ignored", "--directory"}
	for _, pattern := range s.slots.keep() {
		args = append(args, "--exclude="+pattern)
	}
	out, err := s.top().output(ctx, args...)
	return records(out), err
}

// within reports whether a file or directory is one of the names, or in a directory of them.
func within(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return n == name || strings.HasSuffix(n, "/") && strings.HasPrefix(name, n) })
}

// hasAll reports whether files, and directories, which end with a slash, are there. An agent may have put a link to a directory in
// the place of one.
func (s *Slot) hasAll(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		path := filepath.Join(s.dir, name)
		return !exists(path) || isDir(path) != strings.HasSuffix(name, "/")
	})
}

// removeIgnored removes files, and directories, which may end with a slash.
func (s *Slot) removeIgnored(names []string) error {
	var all []string
	for _, name := range names {
		all = append(all, strings.TrimSuffix(name, "/"))
	}
	return s.where.in(filepath.Base(s.dir)).remove(all...)
}

// inPlaceOf returns what is to go before a file can be copied: the file, or what another boulder left on the way to it that is not a
// directory, such as a link.
func (s *Slot) inPlaceOf(name string) string {
	for i, c := range name {
		dir := name[:i]
		if c == '/' && !s.hasAll([]string{dir + "/"}) && slices.Contains(s.setup, dir) {
			return dir
		}
	}
	return name
}

// isCopy reports whether a file, or each file of a directory, was copied.
func isCopy(root, name string, copied map[string]bool) bool {
	err := filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(root, path)
		if err == nil && relErr == nil && !entry.IsDir() && !copied[filepath.ToSlash(name)] {
			err = fs.ErrExist
		}
		return errors.Join(err, relErr)
	})
	return err == nil
}

// Patterns returns those of the ignored files to copy.
func (s *Slots) Patterns() (patterns []string, err error) {
	if s.SetUp != nil {
		patterns = slices.Clone(s.SetUp.Copy)
	}
	if patterns == nil {
		data, err := os.ReadFile(filepath.Join(s.project.root, includeFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		patterns = strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	}
	return slices.DeleteFunc(patterns, func(p string) bool { return strings.TrimSpace(p) == "" || p[0] == '#' }), nil
}

// SetUpKey identifies what set-up brings into slots at present: its configuration, and the files to copy with their sizes and
// times. What its commands bring depends on files of the tree.
func (s *Slots) SetUpKey(ctx context.Context) (string, error) {
	patterns, err := s.Patterns()
	if err != nil {
		return "", err
	}
	files, err := s.matching(ctx, patterns)
	if err != nil {
		return "", err
	}
	about := []any{patterns}
	if s.SetUp != nil {
		about = append(about, s.SetUp.Commands, s.SetUp.Env, s.SetUp.Keep)
	}
	for _, name := range files {
		if info, err := os.Lstat(filepath.Join(s.project.root, name)); err == nil { // else it is not copied either
			about = append(about, name, info.Size(), info.ModTime().UnixNano())
		}
	}
	data, err := json.Marshal(about)
	return fmt.Sprintf("%x", sha256.Sum256(data)), err
}

// matching lists the ignored files of the work tree that match a pattern.
func (s *Slots) matching(ctx context.Context, patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	p := s.project
	args := []string{"ls-files", "-z", "--others", "--ignored"}
	for _, pattern := range patterns {
		args = append(args, "--exclude="+pattern)
	}
	matching, err := p.top().output(ctx, append(args, "--", ".", ":(exclude,literal)"+p.prefix+stateDir)...)
	if err != nil || matching == "" {
		return nil, err
	}
	ignored, err := p.top().feed(ctx, matching, "check-ignore", "-z", "--stdin")
	if exitCode(err) == 1 { // none is ignored
		err = nil
	}
	return records(ignored), err
}

// copyIgnored copies ignored files of the project that match a pattern, and returns their names. What another boulder left in
// their places goes.
func (s *Slot) copyIgnored(ctx context.Context, patterns []string) (copied map[string]bool, err error) {
	names, err := s.slots.matching(ctx, patterns)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	if s.foreign {
		var goes []string
		for _, name := range names {
			goes = append(goes, s.inPlaceOf(name))
		}
		if err := s.removeIgnored(goes); err != nil {
			return nil, err
		}
	}
	from, err := os.OpenRoot(s.slots.project.root)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	copied = map[string]bool{}
	for _, name := range names {
		if err := copyFile(from, to, name); err != nil {
			return nil, fmt.Errorf("copy %s: %w", name, err)
		}
		copied[name] = true
	}
	return copied, nil
}

// copyFile copies a regular file that is not there yet. Blocks are shared if the file system can.
func copyFile(from, to *os.Root, name string) (err error) {
	info, err := from.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil // nor is an embedded repository, whose name ends with a slash
	}
	if err != nil {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if there, err := to.Lstat(dir); err == nil && !there.IsDir() {
			return nil
		}
	}
	in, err := from.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := to.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), to.Chtimes(name, info.ModTime(), info.ModTime()))
}

// Lacking returns the project's ignored files, and directories of nothing else, that are not copied into slots.
func (s *Slots) Lacking(ctx context.Context) (lacking []string, err error) {
	all, err := s.ignoredHere(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	patterns, err := s.Patterns()
	if err != nil {
		return nil, err
	}
	copied, err := s.matching(ctx, patterns)
	return slices.DeleteFunc(all, func(name string) bool {
		return slices.ContainsFunc(copied, func(path string) bool {
			return path == s.project.prefix+name || strings.HasSuffix(name, "/") && strings.HasPrefix(path, s.project.prefix+name)
		})
	}), err
}

// ignoredHere lists the ignored files in the project's directory, and directories of nothing else, with a slash.
func (s *Slots) ignoredHere(ctx context.Context) ([]string, error) {
	out, err := s.project.git.output(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory",
		"--", ".", ":(exclude)"+stateDir)
	return slices.DeleteFunc(records(out), func(name string) bool { // the exclusion misses directories, if git tracks a file beside them
		return strings.HasPrefix(name, stateDir+"/")
	}), err
}

// Missing returns the project's ignored files, and directories of nothing else, that the slot lacks.
func (s *Slot) Missing(ctx context.Context) (missing []string, err error) {
	all, err := s.slots.ignoredHere(ctx)
	for _, name := range all {
		if _, lookErr := os.Lstat(filepath.Join(s.Dir(), name)); errors.Is(lookErr, fs.ErrNotExist) {
			missing = append(missing, name)
		}
	}
	return missing, err
}

// Env returns variables for commands in the slot: ports, names and a TMPDIR that no other slot uses, and SetUp.Env.
func (s *Slot) Env() []string {
	env := []string{
		"MANAGER_SLOT=" + strconv.Itoa(s.claim.Slot), "MANAGER_PORT_BASE=" + strconv.Itoa(41000+100*s.claim.Slot),
		"COMPOSE_PROJECT_NAME=manager-" + s.claim.BoulderID + "-" + strconv.Itoa(s.claim.Slot), "TMPDIR=" + tempDir(s.dir),
	}
	if s.slots.SetUp != nil {
		env = append(env, s.slots.SetUp.Env...)
	}
	return env
}

// tempDir returns a slot's temporary directory. It is not below the project, since paths of sockets must be short.
func tempDir(slot string) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("manager-%x", sha256.Sum256([]byte(slot)))[:len("manager-")+12])
}

// makeTempDir makes that directory, in a place where other users can write too.
func makeTempDir(slot string) error {
	dir := tempDir(slot)
	err := os.Mkdir(dir, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || !statedir.Owned(info) {
		return fmt.Errorf("%s is in the way, where the slot's temporary files go: remove it, or set TMPDIR", dir)
	}
	return nil
}
