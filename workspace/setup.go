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

// includeFile names ignored files that belong into copies of a work tree, by a convention of several tools.
const includeFile = ".worktreeinclude"

// SetUp is what slots get besides the files of a commit.
type SetUp struct {
	// Copy are patterns as in .gitignore, from the top of the work tree. Files of the project that one fits are copied if git
	// ignores and does not track them. Links are neither copied nor followed, and nothing is overwritten. Nil: the patterns of
	// .worktreeinclude.
	Copy []string
	// Commands run in a slot when it is made, and again when a file changed that a pattern of When fits (git's glob).
	Commands, When []string
	// Env is for commands in slots: NAME=VALUE.
	Env []string
	// Run runs a command in a directory, with variables besides the usual ones.
	Run func(ctx context.Context, dir string, env []string, line string) boulder.Gate
}

// setUp copies files and runs commands, unless done, which is what it returned before, says that the slot has all of it.
func (s *Slot) setUp(ctx context.Context, done string) (string, error) {
	with := s.slots.SetUp
	if with == nil {
		return done, nil
	}
	patterns := slices.Clone(with.Copy)
	if patterns == nil {
		data, err := os.ReadFile(filepath.Join(s.slots.project.root, includeFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		patterns = strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	}
	patterns = slices.DeleteFunc(patterns, func(p string) bool { return strings.TrimSpace(p) == "" || p[0] == '#' })
	watched := ""
	if len(with.When) > 0 {
		args := []string{"ls-files", "-z", "--stage", "--"}
		for _, pattern := range with.When {
			args = append(args, ":(glob)"+pattern)
		}
		var err error
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

// copyIgnored copies files of the project that git ignores and a pattern fits.
func (s *Slot) copyIgnored(ctx context.Context, patterns []string) error {
	if len(patterns) == 0 {
		return nil
	}
	p := s.slots.project
	args := []string{"ls-files", "-z", "--others", "--ignored"}
	for _, pattern := range patterns {
		args = append(args, "--exclude="+pattern)
	}
	matching, err := p.top().output(ctx, append(args, "--", ".", ":(exclude,literal)"+p.prefix+stateDir)...)
	if err != nil || matching == "" {
		return err
	}
	ignored, err := p.top().feed(ctx, matching, "check-ignore", "-z", "--stdin")
	if err != nil && exitCode(err) != 1 {
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
	for _, name := range records(ignored) {
		if err := copyFile(from, to, name); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	return nil
}

// copyFile copies a regular file that is not there yet; where the file system can, its blocks are shared.
func copyFile(from, to *os.Root, name string) (err error) {
	info, err := from.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil // an embedded repository ends with a slash, and is none either
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

// Missing are the ignored files of the project, and directories of nothing else, that are not in the slot.
func (s *Slot) Missing(ctx context.Context) (missing []string, err error) {
	out, err := s.slots.project.git.output(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory",
		"--", ".", ":(exclude)"+stateDir)
	for _, name := range records(out) {
		if _, lookErr := os.Lstat(filepath.Join(s.Dir(), name)); errors.Is(lookErr, fs.ErrNotExist) {
			missing = append(missing, name)
		}
	}
	return missing, err
}

// Env is what commands in the slot find in their environment: ports, names and temporary files that no other slot uses, and
// what is configured.
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

// tempDir is that of a slot. It is not below the project: programs put sockets there, whose paths must be short.
func tempDir(slot string) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("manager-%x", sha256.Sum256([]byte(slot)))[:len("manager-")+12])
}

// makeTempDir makes that of a slot, which others can write to in the same place.
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
