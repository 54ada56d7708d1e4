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
	"syscall"
	"time"

	"github.com/bouldermgr/manager/internal/orphan"
)

const drainAfter = time.Second

// startProcess starts the command in a process group of its own.
func (s *Server) startProcess(cmd *exec.Cmd) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = w, w // files, not writers: Wait must not wait for heirs of the pipe
	cmd.SysProcAttr = processAttributes()
	started := make(chan error)
	go s.run(cmd, r, w, started)
	return <-started
}

// run starts the process and stays until it is gone.
//
// It keeps its thread, because on Linux the parent death signal is sent when the thread that started the process
// ends, which in Go happens at any time (go.dev/issue/27505). Nobody waits for this goroutine's last instruction, but
// for done, which it closes.
func (s *Server) run(cmd *exec.Cmd, r, w *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer r.Close()
	err := cmd.Start()
	w.Close()
	if err != nil {
		started <- err
		return
	}
	s.pid = cmd.Process.Pid
	started <- nil

	var reader sync.WaitGroup
	reader.Go(func() { s.follow(r) })
	_ = cmd.Wait() // how it ended is in ProcessState
	s.state = cmd.ProcessState.String()
	s.signal(syscall.SIGKILL) // what is left of the group
	// OpenCode starts each tool in a session of its own; these live on, outside of the group, with no parent to find
	// them by. What cannot be ended now has the mark of this program's own registration, too, if it has one.
	_, _ = orphan.End(s.mark)
	// A process that escaped both may hold the pipe open.
	_ = r.SetReadDeadline(time.Now().Add(drainAfter))
	reader.Wait()
	close(s.done)
}

// follow reads the output until its end. Lines longer than the buffer come in pieces; nothing is ever left unread,
// since the server would block on a full pipe.
func (s *Server) follow(r io.Reader) {
	lines := bufio.NewReader(r)
	listening := false
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			_, _ = s.output.Write(line)
			if _, address, ok := strings.Cut(string(line), "opencode server listening on "); ok && !listening {
				listening = true
				s.listening <- strings.TrimSpace(address)
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// signal reaches the whole group. Its id cannot belong to others as long as done is open: either the leader is not
// reaped yet or this is run's own, immediate call.
func (s *Server) signal(sig syscall.Signal) {
	select {
	case <-s.done:
	default:
		_ = syscall.Kill(-s.pid, sig) // the only possible failure is that nobody is left
	}
}
