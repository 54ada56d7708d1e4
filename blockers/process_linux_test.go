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
	roles = map[string]func(string) error{
		"wait-at-step": playWait, "wait-in-run": playWaitInRun, "file-limit": playFileLimit,
	}
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
	raise(panicking{}, waitAtStep(&project{dir, &clock{t: epoch}}), hardInput("Which?"))
	return errors.New("it did not come to the step")
}

func playWaitInRun(dir string) error {
	p := &project{dir, &clock{t: epoch}}
	d := waitAtStep(p)
	write(panicking{}, d, raiseInRun(panicking{}, p, d))
	return errors.New("it did not come to the step")
}

func waitAtStep(p *project) *Register {
	d := p.register(panicking{})
	d.failpoint = func(step string) {
		if step == os.Getenv(stepEnv) {
			fmt.Println("there")
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	}
	return d
}

// killAt runs a role in a process, and kills it at a step.
func killAt(t *testing.T, step, role string, p *project) {
	t.Helper()
	cmd := actor(t, role, p.dir, stepEnv+"="+step)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	check(t, errors.Join(inErr, outErr, cmd.Start()))
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "there\n" {
		t.Fatalf("%q, %v", line, err)
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
}

// A process killed between two steps loses nothing committed, writes nothing twice, and blocks no other process.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"committed", "adding", "added"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			killAt(t, step, "wait-at-step", p)
			d := p.register(t)
			if found := listed(t, d, Filter{}); len(found) != 1 {
				t.Fatalf("%d records", len(found))
			}
			p.checkList(t, listed(t, d, Filter{}))
			raise(t, d, softInput("Who?"))
			p.checkList(t, listed(t, d, Filter{}))
		})
	}
}

// The same for what came up in a run: it is in the list once, however far the killed process came.
func TestKillInRun(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"adding", "made", "read", "written", "added"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			killAt(t, step, "wait-in-run", p)
			d := p.register(t)
			book := raiseInRun(t, newProject(t), d) // the same events, from the boulder's log
			for range 2 {
				write(t, d, book)
				p.checkList(t, book.all)
			}
		})
	}
}

// A file size limit (`ulimit -f`) acts like a full disk for this process only: nothing is written in part.
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
	if data != theirs {
		return fmt.Errorf("a part was written: %q", data[len(theirs):])
	}
	limit(before)
	b := mustGet(panicking{}, d, "W1")
	if data = p.file(panicking{}); !strings.HasPrefix(data, theirs) || !strings.Contains(data, raisedItem(&b).Text) {
		return errors.New("what people wrote is lost, or the item is not whole")
	}
	_, err := os.Stat(filepath.Join(dir, ".manager", FileName))
	return err
}
