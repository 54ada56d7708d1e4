package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// faultyRoles are the roles of processes that lack space.
func faultyRoles() map[string]func(string) error {
	return map[string]func(string) error{"full-disk": playFullDisk}
}

// TestFullDisk: a full disk loses nothing that was stored, and reads work. Once there is space, the same handle can
// commit again. The disk is a tmpfs in a mount namespace of the process, which most systems allow to every user.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	cmd := otherProcess(t, "full-disk", scratch(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) || strings.Contains(string(out), "mount: operation not permitted") {
		t.Skip("this system does not let a process have a file system of its own: ", err)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func playFullDisk(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2560k"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	fill, err := ballast(dir, 3<<20)
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is larger than it should be: %w", err)
	}
	if _, err := Open(filepath.Join(dir, FileName), Options{}); !errors.Is(err, ErrFull) {
		return fmt.Errorf("open without room: %w", err)
	}
	if left, err := os.ReadDir(dir); len(left) > 1 || err != nil { // the ballast
		return fmt.Errorf("something was left of a database that could not be made: %v, %w", left, err)
	}
	ignored := filepath.Join(dir, DirName, ".gitignore")
	if _, err := EnsureDir(dir); !errors.Is(err, ErrFull) || exists(ignored) {
		return fmt.Errorf("a state directory without room is left unfinished, %w", err)
	}
	if err := fill(); err != nil {
		return err
	}
	if _, err := EnsureDir(dir); err != nil || !exists(ignored) {
		return fmt.Errorf("the state directory is not finished later, %w", err)
	}
	free, err := ballast(dir, 400<<10)
	if err != nil {
		return err
	}
	return commitUntilFull(dir, func() error {
		return errors.Join(free(), syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=64m"))
	})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// actorT is the tb of a process with a role.
type actorT struct{}

func (actorT) Helper()                           {}
func (actorT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// commitUntilFull commits until the disk is full, checks what is stored, frees space and commits again.
func commitUntilFull(dir string, room func() error) error {
	path, t := filepath.Join(dir, FileName), actorT{}
	db, err := Open(path, Options{})
	if err != nil {
		return err
	}
	w := newWorld(t, "id", epoch, spec("a"))
	stored := ""
	for n := 0; ; n++ {
		err = db.Commit(context.Background(), w.State, w.TakeEvents())
		if err != nil && n > 1 {
			break
		}
		if err != nil || n > 1000 {
			return fmt.Errorf("commit %d: %w", n, err)
		}
		stored = picture(t, w.State)
		for range 10 {
			w.must(t, boulder.Noted{Text: strings.Repeat("done. ", 600)})
		}
	}
	if !errors.Is(err, ErrFull) {
		return fmt.Errorf("the commit ended with: %w", err)
	}
	if got := picture(t, restore(t, db, "id")); got != stored {
		return fmt.Errorf("on the full disk there is\n%s\nwanted was\n%s", got, stored)
	}
	if err := room(); err != nil {
		return err
	}
	w = &world{State: restore(t, db, "id"), id: "id", now: w.now}
	w.start(t, ref("a", 1))
	w.commit(t, db)
	if err := db.Close(); err != nil {
		return err
	}
	if db, err = Open(path, Options{}); err != nil {
		return err
	}
	if got, want := picture(t, restore(t, db, "id")), picture(t, w.State); got != want {
		return fmt.Errorf("with room there is\n%s\nwanted was\n%s", got, want)
	}
	return db.Close()
}

// ballast takes up space until release.
func ballast(dir string, size int) (release func() error, err error) {
	path := filepath.Join(dir, "ballast")
	return func() error { return os.Remove(path) }, os.WriteFile(path, make([]byte, size), 0o600)
}

// asPlainUser runs a test as a user to whom file permissions apply. If root, it becomes nobody for file access, on one
// thread that ends with the test.
func asPlainUser(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if os.Geteuid() != 0 {
		test(t)
		return
	}
	const nobody = 65534
	dir := t.TempDir()
	for d := dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("nobody", func(t *testing.T) {
		runtime.LockOSThread() // never unlocked: the thread must not be reused
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
		test(t)
	})
}
