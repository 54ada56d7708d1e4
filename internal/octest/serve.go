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

// Server is `opencode serve`, as the user runs it in a terminal, or what is used in its place.
type Server struct {
	URL  string
	cmd  *exec.Cmd
	done chan struct{}
}

// Serve starts a server of the pinned OpenCode in dir and waits until it listens. Port 0 is a free one.
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

// Listen starts a program that says where it listens, as a server of OpenCode does, and waits until it does.
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
		_, _ = io.Copy(io.Discard, out) // or it would wait for a reader
		_ = cmd.Wait()
	}()
	if s.URL == "" {
		s.Kill()
		return nil, fmt.Errorf("%s ended before it listened: %s", strings.Join(cmd.Args, " "), said.Bytes())
	}
	return s, nil
}

// Port is what follows the last colon of the URL.
func (s *Server) Port() string { return s.URL[strings.LastIndex(s.URL, ":")+1:] }

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill ends the server and what it started, without asking, and waits for that. It may be called again.
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
	guardVar = "MANAGER_TEST_GUARD" // of the guard: the mark to look for
)

// Guard sees to it that everything the test binary starts ends with it, also when the binary runs into go test's time
// limit or is killed: a test's cleanup does not run then. Call it first in TestMain. The guard is a process of its own,
// which waits for the end of this one.
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
	// The guard itself is not to be ended with the test that runs this one.
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

// held has what the guard reads, which this process alone holds open until it ends: it is not collected as garbage.
var held []io.Closer

// Mark is the entry by which the guard knows what the test binary started, for environments that are not made from
// os.Environ.
func Mark() string { return markVar + "=" + os.Getenv(markVar) }
