package opencode

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/internal/freeport"
	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/internal/text"
)

var (
	// ErrNoBinary says that there is no OpenCode to start.
	ErrNoBinary = errors.New("OpenCode is not installed or not in PATH")
	// ErrStartTimeout says that the server did not get ready in time.
	ErrStartTimeout = errors.New("OpenCode did not get ready in time")
)

const (
	defaultBinary       = "opencode"
	defaultStartTimeout = 2 * time.Minute // 1.5 s on an idle machine of two cores, over 30 s at load 20
	defaultStopGrace    = 5 * time.Second
	healthPause         = 50 * time.Millisecond
	markVariable        = "MANAGER_OPENCODE_SERVER"
	outputKept          = 8 << 10
	drainAfter          = time.Second
)

// ServerConfig says how to start a server.
type ServerConfig struct {
	Binary string   // a path or a name in PATH. Defaults to "opencode".
	Dir    string   // the working directory, an absolute path. Defaults to the caller's.
	Env    []string // the environment. Defaults to os.Environ().
	// ConfigContent is OpenCode configuration (JSON) that is laid over the user's files. Empty leaves
	// OPENCODE_CONFIG_CONTENT in Env as it is.
	ConfigContent string
	StartTimeout  time.Duration // defaults to 2 min
	CallTimeout   time.Duration // of its client, see [AttachConfig]
	StopGrace     time.Duration // how long [Server.Stop] waits for each gentle step. Defaults to 5 s.
	Logger        *slog.Logger  // defaults to none
}

// Server is an OpenCode server that was started here. It is bound to 127.0.0.1, protected by a random password, and
// runs in a process group of its own, so that Ctrl-C in the terminal reaches this program only.
type Server struct {
	cfg    ServerConfig
	mark   string // in the environment of everything that it starts
	client *Client
	lease  io.Closer // the server ends when it is closed; nil: this one does not
	stop   sync.Once

	pid    int
	done   chan struct{} // closed when the process and all that it started are gone
	output printed
	state  string // how it ended; read after done
}

// ExitError says that the server process ended without being asked to.
type ExitError struct {
	State  string // such as "exit status 1", "signal: killed"
	Output string // the end of what it printed
}

func (e *ExitError) Error() string {
	if e.Output == "" {
		return "the OpenCode server ended: " + e.State
	}
	return fmt.Sprintf("the OpenCode server ended: %s; its last output:\n%s", e.State, e.Output)
}

// Start starts a server and waits until it answers. ctx bounds the start only; the server runs until [Server.Stop].
// The error matches [ErrNoBinary] or [ErrStartTimeout], is an [*ExitError] if the process ended, a [*VersionError] if it
// cannot be used, or ctx's; nothing is left running then.
func Start(ctx context.Context, cfg ServerConfig) (*Server, error) {
	cfg.StartTimeout = cmp.Or(cfg.StartTimeout, defaultStartTimeout)
	cfg.StopGrace = cmp.Or(cfg.StopGrace, defaultStopGrace)
	path, err := lookUp(cfg.Binary)
	if err != nil {
		return nil, err
	}
	version, err := launched(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("opencode: start %s: %w", path, err)
	}
	port, err := freeport.Find()
	if err != nil {
		return nil, fmt.Errorf("opencode: start %s: %w", path, err)
	}
	password := rand.Text()
	s := &Server{
		cfg: cfg, mark: markVariable + "=" + rand.Text(), done: make(chan struct{}),
		output: printed{LastBytes: text.LastBytes{Limit: outputKept}, listening: make(chan string, 1)},
	}
	started := make(chan error)
	cmd := s.command(path, port, password)
	if major, _, _ := numbers(version); major == 2 {
		// It ends when its standard input does, whatever becomes of this program, and keeps the password from its tools.
		cmd.Args = append(cmd.Args, "--stdio")
		if s.lease, err = cmd.StdinPipe(); err != nil {
			return nil, fmt.Errorf("opencode: start %s: %w", path, err)
		}
	}
	go s.run(cmd, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("opencode: start %s: %w", path, err)
	}
	if err := s.getReady(ctx, password); err != nil {
		s.signal(syscall.SIGKILL)
		<-s.done
		return nil, fmt.Errorf("opencode: start %s: %w", path, err)
	}
	return s, nil
}

func lookUp(binary string) (string, error) {
	path, err := exec.LookPath(cmp.Or(binary, defaultBinary))
	if err != nil {
		return "", fmt.Errorf("%w: %w; install it with `npm install -g opencode-ai@%s`, or say where it is",
			ErrNoBinary, err, TestedVersion)
	}
	// The server runs in a directory of its own, from which a relative path would lead elsewhere.
	return filepath.Abs(path)
}

func (s *Server) command(path, port, password string) *exec.Cmd {
	cmd := exec.Command(path, "serve", "--hostname", "127.0.0.1", "--port", port)
	cmd.Dir = s.cfg.Dir
	cmd.Env = s.cfg.Env
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)],
		"OPENCODE_SERVER_USERNAME="+defaultUsername,
		"OPENCODE_SERVER_PASSWORD="+password,
		"OPENCODE_PASSWORD="+password, // which OpenCode 2 reads first
		"OPENCODE_DISABLE_AUTOUPDATE=1",
		// It hangs where it gets no inotify instance for its watcher (1.18.33, seen). A user has 128 with Linux's
		// defaults, and its index of files takes one for each directory.
		"OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER=1",
		"OPENCODE_DISABLE_FFF=1",
		s.mark,
	)
	if s.cfg.Dir != "" {
		// OpenCode believes PWD, not the real working directory.
		cmd.Env = append(cmd.Env, "PWD="+s.cfg.Dir)
	}
	if s.cfg.ConfigContent != "" {
		cmd.Env = append(cmd.Env, "OPENCODE_CONFIG_CONTENT="+s.cfg.ConfigContent)
	}
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	cmd.WaitDelay = drainAfter // a process that it leaves may hold its output open
	cmd.SysProcAttr = processAttributes()
	return cmd
}

func (s *Server) getReady(ctx context.Context, password string) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.StartTimeout, ErrStartTimeout)
	defer cancel()
	ask := time.NewTicker(healthPause)
	defer ask.Stop()
	for {
		select {
		case address := <-s.output.listening:
			if s.client, err = newClient(address, AttachConfig{
				Password: password, CallTimeout: s.cfg.CallTimeout, Logger: s.cfg.Logger,
			}); err != nil {
				return err
			}
			continue
		case <-ask.C:
			if s.client == nil {
				continue
			}
			if err = s.client.handshake(ctx); errors.Is(err, ErrUnavailable) {
				continue // not yet
			}
		case <-s.done:
			err = &ExitError{State: s.state, Output: s.output.String()}
		case <-ctx.Done():
			if err = context.Cause(ctx); s.output.String() != "" {
				err = fmt.Errorf("%w; its last output:\n%s", err, s.output.String())
			}
		}
		if err != nil && s.client != nil {
			s.client.Close()
		}
		return err
	}
}

// run starts the process and stays until it is gone.
//
// It keeps its thread, because on Linux the parent death signal is sent when the thread that started the process
// ends, which in Go happens at any time (go.dev/issue/27505). Nobody waits for this goroutine's last instruction, but
// for done, which it closes.
func (s *Server) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	if err == nil {
		s.pid = cmd.Process.Pid
	}
	if started <- err; err != nil {
		return
	}
	_ = cmd.Wait() // how it ended is in ProcessState
	s.state = cmd.ProcessState.String()
	s.signal(syscall.SIGKILL) // what is left of the group
	// OpenCode starts each tool in a session of its own; these live on, outside of the group, with no parent to find
	// them by. What cannot be ended now has the mark of this program's own registration, too, if it has one.
	_, _ = orphan.End(s.mark)
	close(s.done)
}

// printed is the end of what the server prints, and finds its address in the beginning.
type printed struct {
	text.LastBytes
	listening chan string // gets the address once
	begin     []byte      // until then
	told      bool
}

func (p *printed) Write(b []byte) (int, error) {
	if !p.told {
		p.begin = append(p.begin, b...)
		lines := strings.Split(string(p.begin), "\n")
		for _, line := range lines[:len(lines)-1] { // what follows the last line break is not whole
			if address := addressIn(line); address != "" {
				p.told, p.begin = true, nil
				p.listening <- address
				break
			}
		}
	}
	return p.LastBytes.Write(b)
}

// addressIn is the address in the line with which a server says that it is ready; empty: it is another line. OpenCode 1
// has "opencode" before the words, OpenCode 2 says it in JSON if it was started with --stdio.
func addressIn(line string) string {
	if _, address, found := strings.Cut(line, "server listening on "); found {
		return strings.TrimSpace(address)
	}
	var ready struct{ URL string }
	_ = json.Unmarshal([]byte(line), &ready) // most lines are no JSON
	return ready.URL
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

// Client is the connection to the server. It is closed by [Server.Stop].
func (s *Server) Client() *Client { return s.client }

// PID is the id of the server's process, and of its process group.
func (s *Server) PID() int { return s.pid }

// Done is closed when the process has ended, for whatever reason, and everything that it started has been ended too.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends the server, its turns and the tools that they run, and waits for that. It first asks the server to end
// all turns, then kills it; only if the server does not answer is it sent SIGTERM and given time. OpenCode 2 ends by
// itself when its turns have ended. When ctx ends it is killed at once. Stop may be called more than once and at the same
// time from several goroutines; each call returns when the process is gone, and the first ctx to end hurries all.
func (s *Server) Stop(ctx context.Context) {
	calm := context.AfterFunc(ctx, func() { s.signal(syscall.SIGKILL) })
	defer calm()
	s.stop.Do(func() {
		// After that there is nothing left that SIGTERM could save, so the server is killed.
		err := s.client.backend.endWork(ctx, s.cfg.StopGrace)
		switch {
		case s.lease != nil:
			_ = s.lease.Close()
			s.await(ctx)
		case err != nil:
			s.signal(syscall.SIGTERM)
			s.await(ctx)
		}
		s.signal(syscall.SIGKILL)
		<-s.done
		s.client.Close()
	})
}

// await gives the server time to end by itself.
func (s *Server) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StopGrace)
	defer cancel()
	select {
	case <-s.done:
	case <-ctx.Done():
	}
}
