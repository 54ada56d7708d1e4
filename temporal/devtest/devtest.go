// Package devtest starts the Temporal server of temporal/devserver for tests.
package devtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

// BinaryVar is the environment variable that names another server binary.
const BinaryVar = "MANAGER_TEST_TEMPORAL"

// Server is a running dev server.
type Server struct {
	Address string

	args  []string
	log   io.Writer
	cmd   *exec.Cmd
	stdin io.Closer // the server stops at its end, so it does not outlive a killed test binary
}

// Start starts a server that stops when the test ends. file is its database; empty: in memory. A missing binary fails
// the test: a skip would hide that nothing was tested.
func Start(tb testing.TB, file string) *Server {
	tb.Helper()
	s := &Server{args: []string{"-until-eof", "-db-filename", file}, log: tb.Output()}
	if _, bench := tb.(*testing.B); bench {
		s.log = io.Discard
	}
	if err := s.start("0"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if s.cmd != nil {
			s.stdin.Close()
			_ = s.cmd.Wait()
		}
	})
	return s
}

// Process starts the test binary as a worker, selected by the environment variable (NAME=VALUE), and returns when it
// prints READY. The process is killed when the test ends. inside is a command prefix, such as ip netns exec NAME.
func Process(tb testing.TB, variable string, inside ...string) *exec.Cmd {
	tb.Helper()
	command := slices.Concat(inside, []string{os.Args[0]})
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), variable)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "READY\n" {
		tb.Fatalf("the process says %q: %v", line, err)
	}
	return cmd
}

// Kill ends the server with SIGKILL.
func (s *Server) Kill() error {
	err := s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
	return err
}

// Restart starts a killed server again, with the same file and at the same address.
func (s *Server) Restart() error {
	_, port, _ := strings.Cut(s.Address, ":")
	return s.start(port)
}

// PID returns the server's process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Signal sends the server a signal, such as SIGSTOP and SIGCONT for a freeze.
func (s *Server) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

// Dial connects a client, which is closed when the test ends.
func (s *Server) Dial(tb testing.TB) client.Client {
	tb.Helper()
	c, err := client.Dial(client.Options{HostPort: s.Address, Identity: "test", Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

func find() (string, error) {
	path := os.Getenv(BinaryVar)
	if path == "" {
		_, self, _, _ := runtime.Caller(0)
		path = filepath.Join(filepath.Dir(self), "../../bin/temporal-devserver")
	}
	path, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("no Temporal server to test with: run make temporal-devserver, or set %s: %w", BinaryVar, err)
	}
	return path, nil
}

// start starts a server. It retries, because another process may take a port that the server found free.
func (s *Server) start(port string) error {
	binary, err := find()
	if err != nil {
		return err
	}
	for range 5 {
		if err = s.once(binary, port); err == nil {
			break
		}
	}
	return err
}

func (s *Server) once(binary, port string) (err error) {
	s.cmd = exec.Command(binary, append(s.args, "-port", port)...)
	s.cmd.Stderr = s.log
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ready := strings.CutPrefix(strings.TrimSpace(line), "READY ")
	if !ready {
		return errors.Join(fmt.Errorf("the server said %q instead of READY", line), err, s.cmd.Process.Kill(), s.cmd.Wait())
	}
	s.Address = address
	return nil
}
