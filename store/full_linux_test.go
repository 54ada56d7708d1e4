package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// faultyRoles are the roles of processes that have little room.
func faultyRoles() map[string]func(string) error {
	return map[string]func(string) error{"full-disk": playFullDisk}
}

// A disk that is full for once: nothing that was stored is lost, it can be read, and when there is room again the same handle
// goes on. The disk is a tmpfs in a namespace of the process, which most systems allow everybody.
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
	if err := noRoomForANewOne(dir); err != nil {
		return err
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
