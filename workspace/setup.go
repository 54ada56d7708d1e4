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
	// Run runs a command in a directory, with env in addition to the usual variables.
	Run func(ctx context.Context, dir string, env []string, line string) boulder.Gate
}

// setUp copies files and runs commands, unless done, its earlier result, says that the slot has all of it.
func (s *Slot) setUp(ctx context.Context, done string) (string, error) {
	with := s.slots.SetUp
	if with == nil {
		return done, nil
	}
	patterns, err := s.slots.Patterns()
	if err != nil {
		return "", err
	}
	watched := ""
	if len(with.When) > 0 {
		args := []string{"ls-files", "-z", "--stage", "--"}
		for _, pattern := range with.When {
			args = append(args, ":(glob)"+pattern)
		}
		if watched, err = s.git.output(ctx, args...); err != nil {
			return "", err
		}
	}
	about, err := json.Marshal([]any{patterns, with.Commands, watched})
	if err != nil {
		return "", err
	}
	now := fmt.Sprintf("%x", sha256.Sum256(about))
	if now == done {
		return now, nil
	}
	if err := s.copyIgnored(ctx, patterns); err != nil {
		return "", err
	}
	for _, line := range with.Commands {
		g := with.Run(ctx, s.Dir(), s.Env(), line)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case !g.Green():
			return "", &boulder.SetUpError{Gate: g}
		}
	}
	return now, nil
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
		about = append(about, s.SetUp.Commands, s.SetUp.Env)
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

// copyIgnored copies ignored files of the project that match a pattern.
func (s *Slot) copyIgnored(ctx context.Context, patterns []string) error {
	p := s.slots.project
	ignored, err := s.slots.matching(ctx, patterns)
	if err != nil || len(ignored) == 0 {
		return err
	}
	from, err := os.OpenRoot(p.root)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, name := range ignored {
		if err := copyFile(from, to, name); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	return nil
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
