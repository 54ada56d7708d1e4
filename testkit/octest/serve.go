package octest

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/bouldermgr/manager/internal/freeport"
	"github.com/bouldermgr/manager/internal/orphan"
)

// Server is a running `opencode serve`, or a program in its place.
type Server struct {
	URL  string
	cmd  *exec.Cmd
	done chan struct{}
}

// Serve starts a server of the pinned OpenCode in dir and waits until it listens. Port "0" picks a free one.
func Serve(dir string, env []string, port string) (*Server, error) {
	binary, err := Find()
	if err != nil {
		return nil, err
	}
	return ServeWith(binary, dir, env, port)
}

// ServeWith is [Serve] for another binary.
func ServeWith(binary, dir string, env []string, port string) (*Server, error) {
	if port == "0" {
		free, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		port = free
	}
	cmd := exec.Command(binary, "serve", "--hostname", "127.0.0.1", "--port", port)
	cmd.Dir = dir
	cmd.Env = slices.Concat(env, []string{"OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER=1", "OPENCODE_DISABLE_FFF=1"}) // as opencode.Server does
	return Listen(cmd)
}

// Listen starts a program and waits until it prints "listening on" and its URL, as OpenCode does.
func Listen(cmd *exec.Cmd) (*Server, error) {
	var said bytes.Buffer
	cmd.Stderr, cmd.SysProcAttr = &said, &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{cmd: cmd, done: make(chan struct{})}
	lines := bufio.NewScanner(out)
	for s.URL == "" && lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			s.URL = strings.TrimSpace(url)
		}
	}
	go func() {
		defer close(s.done)
		_, _ = io.Copy(io.Discard, out) // else a full pipe would block it
		_ = cmd.Wait()
	}()
	if s.URL == "" {
		s.Kill()
		return nil, fmt.Errorf("%s ended before it listened: %s", strings.Join(cmd.Args, " "), said.Bytes())
	}
	return s, nil
}

// Port returns the port of the URL.
func (s *Server) Port() string { return s.URL[strings.LastIndex(s.URL, ":")+1:] }

// PID returns the server's process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill kills the server's process group and waits for the server. It may be called again.
func (s *Server) Kill() {
	select {
	case <-s.done:
		return
	default:
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	<-s.done
}

const (
	markVar  = "MANAGER_TEST_RUN"
	guardVar = "MANAGER_TEST_GUARD" // of the guard: the entry to look for
)

// Guard ends everything that the test binary starts when the binary ends, also if go test's time limit or a signal
// kills it and no cleanup runs. Call it first in TestMain. The guard is another process of the test binary.
func Guard() {
	PlayStandIn()
	if mark := os.Getenv(guardVar); mark != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		if _, err := orphan.End(mark); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := startGuard(); err != nil {
		fmt.Fprintln(os.Stderr, "what a test leaves behind will not be ended:", err)
	}
}

func startGuard() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// Without the mark, the guard of a test that runs this binary does not end this guard.
	if err := os.Unsetenv(markVar); err != nil {
		return err
	}
	mark := rand.Text()
	guard := exec.Command(self)
	guard.Env = append(os.Environ(), guardVar+"="+markVar+"="+mark)
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := guard.StdinPipe()
	if err != nil {
		return err
	}
	held = append(held, input)
	if err := guard.Start(); err != nil {
		return err
	}
	return os.Setenv(markVar, mark)
}

// held keeps the guard's input open until this process ends: garbage collection would close it.
var held []io.Closer

// Mark returns the entry by which the guard finds what to end, for environments that are not made from os.Environ.
func Mark() string { return markVar + "=" + os.Getenv(markVar) }
