package opencode

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/internal/orphan"
)

const (
	tailSize   = 8 << 10
	drainAfter = time.Second // how long to read output that the dead server left behind
)

// process is a server's process: its group, its output, its end.
type process struct {
	pid       int
	listening chan string   // gets the address once
	done      chan struct{} // closed when the process and all that it started are gone
	expected  atomic.Bool   // its end was asked for
	tail      tail
	state     string // how it ended; read after done
}

// startProcess starts the command in a process group of its own. Processes that
// carry the mark ("NAME=value") in their environment are ended with it. Everything
// printed goes to output, if not nil.
func startProcess(cmd *exec.Cmd, mark string, output io.Writer) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w // files, not writers: Wait must not wait for heirs of the pipe
	cmd.SysProcAttr = processAttributes()
	p := &process{listening: make(chan string, 1), done: make(chan struct{})}
	started := make(chan error)
	go p.run(cmd, mark, r, w, output, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the process and stays until it is gone.
//
// It keeps its thread, because on Linux the parent death signal is sent when the
// thread that started the process ends, which in Go happens at any time
// (go.dev/issue/27505). Nobody waits for this goroutine's last instruction, but for
// done, which it closes.
func (p *process) run(cmd *exec.Cmd, mark string, r, w *os.File, output io.Writer, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer r.Close()
	err := cmd.Start()
	w.Close()
	if err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil

	var reader sync.WaitGroup
	reader.Go(func() { p.follow(r, output) })
	_ = cmd.Wait() // how it ended is in ProcessState
	p.state = cmd.ProcessState.String()
	p.signal(syscall.SIGKILL) // what is left of the group
	// OpenCode starts each tool in a session of its own; these live on, outside of the group, with no parent to find them
	// by. What cannot be ended now has the mark of this program's own registration, too, if it has one.
	_, _ = orphan.End(mark)
	// A process that escaped both may hold the pipe open.
	_ = r.SetReadDeadline(time.Now().Add(drainAfter))
	reader.Wait()
	close(p.done)
}

// follow reads the output until its end. Lines longer than the buffer come in
// pieces; nothing is ever left unread, since the server would block on a full pipe.
func (p *process) follow(r io.Reader, output io.Writer) {
	lines := bufio.NewReader(r)
	listening := false
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			p.tail.write(line)
			if output != nil {
				_, _ = output.Write(line) // a broken sink must not stop the server
			}
			if address, ok := listeningAddress(string(line)); ok && !listening {
				listening = true
				p.listening <- address
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (p *process) expectExit() { p.expected.Store(true) }
func (p *process) terminate()  { p.signal(syscall.SIGTERM) }
func (p *process) kill()       { p.signal(syscall.SIGKILL) }

// signal reaches the whole group. Its id cannot belong to others as long as done is
// open: either the leader is not reaped yet or this is run's own, immediate call.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.pid, sig) // the only possible failure is that nobody is left
	}
}

func (p *process) output() string { return p.tail.String() }

func (p *process) exitError() error { return &ExitError{State: p.state, Output: p.output()} }

// unexpected is for after done.
func (p *process) unexpected() error {
	if p.expected.Load() {
		return nil
	}
	return p.exitError()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

func (t *tail) write(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, b...)
	if over := len(t.data) - tailSize; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.data)), "")
}
