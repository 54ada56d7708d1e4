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

func init() {
	roles = map[string]func(string) error{"wait-at-step": playWait, "file-limit": playFileLimit}
}

// actor prepares this test binary to play a role in a directory.
func actor(t *testing.T, role, dir string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, dir)
	cmd.Env = append(append(os.Environ(), roleEnv+"="+role), env...)
	return cmd
}

// panicking is a fataler outside of a test, for roles.
type panicking struct{}

func (panicking) Helper()                           {}
func (panicking) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (panicking) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func playWait(dir string) error {
	d := (&project{dir, &clock{t: epoch}}).register(panicking{})
	d.failpoint = func(step string) {
		if step == os.Getenv(stepEnv) {
			fmt.Println("there")
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	}
	raise(panicking{}, d, hardInput("Which?"))
	return errors.New("it did not come to the step")
}

// A process killed between two steps loses nothing committed, writes nothing twice, and blocks no other process.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"committed", "appending", "appended"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			cmd := actor(t, "wait-at-step", p.dir, stepEnv+"="+step)
			in, inErr := cmd.StdinPipe()
			out, outErr := cmd.StdoutPipe()
			check(t, errors.Join(inErr, outErr, cmd.Start()))
			defer in.Close()
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "there\n" {
				t.Fatalf("%q, %v", line, err)
			}
			check(t, cmd.Process.Kill())
			_ = cmd.Wait() // killed
			d := p.register(t)
			if found := listed(t, d, Filter{}); len(found) != 1 {
				t.Fatalf("%d records", len(found))
			}
			p.checkList(t, d)
			raise(t, d, softInput("Who?"))
			p.checkList(t, d)
		})
	}
}

// A file size limit (`ulimit -f`) acts like a full disk for this process only, and cuts an item in two.
func TestFileLimit(t *testing.T) {
	t.Parallel()
	if out, err := actor(t, "file-limit", t.TempDir()).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func playFileLimit(dir string) error {
	const size, room = 512 << 10, 100
	p := &project{dir, &clock{t: epoch}}
	theirs := strings.Repeat("x", size-room-1) + "\n"
	p.write(panicking{}, theirs)
	d := p.register(panicking{})
	var l syscall.Rlimit
	check(panicking{}, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l))
	before := l.Cur
	limit := func(bytes uint64) {
		l.Cur = bytes
		check(panicking{}, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l))
	}
	// No room for the first pages of the database: the partial file must not remain.
	limit(8 << 10)
	if _, err := d.Raise(context.Background(), scope, hardInput("Too early?")); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("recorded without room: %w", err)
	}
	limit(size)
	raise(panicking{}, d, hardInput("Which?"))
	if s := status(panicking{}, d); s.Unwritten != 1 || !strings.Contains(s.Trouble, syscall.EFBIG.Error()) {
		return fmt.Errorf("%+v", s)
	}
	data := p.file(panicking{})
	if len(data) != size || !strings.Contains(data, "**B1** Which?") {
		return fmt.Errorf("no item was cut in two: %q", data[size-room:])
	}
	limit(before)
	b := mustGet(panicking{}, d, "B1")
	if data = p.file(panicking{}); !strings.HasPrefix(data, theirs) || !strings.Contains(data, raisedItem(&b).Text) {
		return errors.New("what people wrote is lost, or the item is not whole")
	}
	_, err := os.Stat(filepath.Join(dir, ".manager", FileName))
	return err
}
