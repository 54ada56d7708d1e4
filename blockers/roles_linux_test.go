package blockers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// stepEnv is the step at which a process waits to be killed.
const stepEnv = "MANAGER_BLOCKERS_TEST_STEP"

func roles() map[string]func(string) error {
	return map[string]func(string) error{
		"wait-at-step": playWait, "full-disk": playFullDisk, "file-limit": playFileLimit,
	}
}

// actor prepares this test binary to play a role in a directory.
func actor(t *testing.T, role, dir string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, dir)
	cmd.Env = append(append(os.Environ(), roleEnv+"="+role), env...)
	return cmd
}

func deskIn(dir, file string) (*Desk, error) {
	return Open(Config{Path: filepath.Join(dir, ".manager", FileName), Root: dir, File: file, Enabled: true})
}

func playWait(dir string) error {
	d, err := deskIn(dir, "")
	if err != nil {
		return err
	}
	d.failpoint = func(step string) {
		if step == os.Getenv(stepEnv) {
			fmt.Println("there")
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	}
	_, _, err = d.Raise(context.Background(), scope, hardInput("Which?"))
	return errors.Join(err, errors.New("it did not come to the step"))
}

// A process that is killed between any two steps loses nothing that was committed, does not write it twice, and keeps
// nobody waiting.
func TestKill(t *testing.T) {
	t.Parallel()
	for step, recorded := range map[string]int{"committed": 1, "appending": 1, "appended": 1} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := actor(t, "wait-at-step", dir, stepEnv+"="+step)
			in, inErr := cmd.StdinPipe()
			out, outErr := cmd.StdoutPipe()
			if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil || line != "there\n" {
				t.Fatalf("%q, %v", line, err)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // killed
			d, err := deskIn(dir, "")
			if err != nil {
				t.Fatal(err)
			}
			found := listed(t, d, Filter{})
			if len(found) != recorded {
				t.Fatalf("%d records", len(found))
			}
			p := &project{dir: dir}
			p.present(t, d)
			if n := strings.Count(p.file(t), "Which?"); n != recorded {
				t.Errorf("%d times in the file", n)
			}
			raise(t, d, softInput("Who?"))
			p.present(t, d)
		})
	}
}

// Full and read-only disks for once. They are tmpfs in a namespace of the process, which most systems allow everybody;
// where they do not, TestFileLimit shows the same with another errno.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	cmd := actor(t, "full-disk", t.TempDir())
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

// A limit on the size of files (`ulimit -f`) is a full disk to this process only, and cuts an item in two.
func TestFileLimit(t *testing.T) {
	t.Parallel()
	if out, err := actor(t, "file-limit", t.TempDir()).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func playFullDisk(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	ctx := context.Background()
	d, err := deskIn(dir, "notes/list.md")
	if err != nil {
		return err
	}
	// The disk of the database: nothing is recorded, which is said, and nothing half-made is left.
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is larger than it should be: %w", err)
	}
	if _, _, err := d.Raise(ctx, scope, hardInput("On a full disk?")); !errors.Is(err, store.ErrFull) {
		return fmt.Errorf("recorded on a full disk: %w", err)
	}
	if found, err := d.List(ctx, Filter{}); err != nil || len(found) > 0 {
		return fmt.Errorf("%d records on a full disk, %w", len(found), err)
	}
	notes := filepath.Join(dir, "notes")
	mount := func(options string, flags uintptr) error {
		return syscall.Mount("tmpfs", notes, "tmpfs", flags, options)
	}
	err = errors.Join(os.Remove(ballast), syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=8m"), os.Mkdir(notes, 0o700),
		mount("size=8k", 0))
	if err != nil {
		return err
	}
	// The disk of the list only.
	for i := range 5 {
		in := hardInput(fmt.Sprintf("Question %d?", i))
		in.Context = strings.Repeat("All that is known about it. ", 100)
		if _, _, err := d.Raise(ctx, scope, in); err != nil {
			return err
		}
	}
	waits := func(when string, want bool, cause error) error {
		s, err := d.Status(ctx)
		if err != nil || want != (s.Unwritten > 0) || want && !errors.Is(s.Trouble, cause) || !want && s.Trouble != nil {
			return fmt.Errorf("%s: %+v, %w", when, s, err)
		}
		return nil
	}
	if err := waits("full", true, store.ErrFull); err != nil {
		return err
	}
	if err := errors.Join(mount("size=1m", syscall.MS_REMOUNT), waits("room again", false, nil), whole(d, notes)); err != nil {
		return err
	}
	if err := mount("size=1m", syscall.MS_REMOUNT|syscall.MS_RDONLY); err != nil {
		return err
	}
	if _, err := d.Settle(ctx, "B1", Settlement{Status: boulder.BlockerAnswered, Answer: "Yes."}); err != nil {
		return err
	}
	if err := waits("read-only", true, syscall.EROFS); err != nil {
		return err
	}
	return errors.Join(mount("size=1m", syscall.MS_REMOUNT), waits("writable", false, nil), whole(d, notes))
}

func playFileLimit(dir string) error {
	ctx := context.Background()
	const size, room = 512 << 10, 100
	theirs := strings.Repeat("x", size-room-1) + "\n"
	if err := os.WriteFile(filepath.Join(dir, "list.md"), []byte(theirs), 0o600); err != nil {
		return err
	}
	d, err := deskIn(dir, "list.md")
	if err != nil {
		return err
	}
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		return err
	}
	before := l.Cur
	limit := func(bytes uint64) error {
		l.Cur = bytes
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
	}
	// No room for the database's first pages: what there is of them is not left to be taken for a damaged one.
	if err := limit(8 << 10); err != nil {
		return err
	}
	if _, _, err := d.Raise(ctx, scope, hardInput("Too early?")); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("recorded without room: %w", err)
	}
	if err := limit(size); err != nil {
		return err
	}
	if _, _, err := d.Raise(ctx, scope, hardInput("Which?")); err != nil {
		return err
	}
	s, err := d.Status(ctx)
	if err != nil || s.Unwritten != 1 || !errors.Is(s.Trouble, syscall.EFBIG) {
		return fmt.Errorf("%+v, %w", s, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "list.md"))
	if err != nil || len(data) != size || !strings.Contains(string(data), "**B1** Which?") {
		return fmt.Errorf("no item was cut in two: %q, %w", data[size-room:], err)
	}
	if err := limit(before); err != nil {
		return err
	}
	if _, err := d.Get(ctx, "B1"); err != nil {
		return err
	}
	if data, err = os.ReadFile(filepath.Join(dir, "list.md")); err != nil || !strings.HasPrefix(string(data), theirs) {
		return fmt.Errorf("what people wrote is lost, %w", err)
	}
	return whole(d, dir)
}

// whole fails unless the list in a directory has all items.
func whole(d *Desk, dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "list.md"))
	if err != nil {
		return err
	}
	found, err := d.List(context.Background(), Filter{})
	for _, b := range found {
		if !strings.Contains(string(data), raisedItem(&b).Text) ||
			b.Status.Settled() && !strings.Contains(string(data), settledItem(&b).Text) {
			err = errors.Join(err, fmt.Errorf("%s is not whole", b.ID))
		}
	}
	return err
}
