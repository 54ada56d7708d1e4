package blockers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// stepEnv is the step at which a process waits to be killed.
const stepEnv = "MANAGER_BLOCKERS_TEST_STEP"

func roles() map[string]func(string) error {
	return map[string]func(string) error{
		"wait-at-step": playWait, "file-limit": playFileLimit,
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

// A limit on the size of files (`ulimit -f`) is a full disk to this process only, and cuts an item in two.
func TestFileLimit(t *testing.T) {
	t.Parallel()
	if out, err := actor(t, "file-limit", t.TempDir()).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
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
	if err != nil || s.Unwritten != 1 || !strings.Contains(s.Trouble, syscall.EFBIG.Error()) {
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
