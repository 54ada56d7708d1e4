package opencode

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/freeport"
	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/internal/text"
)

var (
	// ErrNoBinary says that there is no OpenCode binary to start.
	ErrNoBinary = errors.New("OpenCode is not installed or not in PATH")
	// ErrStartTimeout says that the server was not ready in time.
	ErrStartTimeout = errors.New("OpenCode did not get ready in time")
)

const (
	defaultBinary       = "opencode"
	defaultStartTimeout = 2 * time.Minute // a start takes 1.5 s on an idle machine with two cores, over 30 s at load 20
	defaultStopGrace    = 5 * time.Second
	healthPause         = 50 * time.Millisecond
	markVariable        = "MANAGER_OPENCODE_SERVER"
	outputKept          = 8 << 10
	drainAfter          = time.Second
)

// ServerConfig configures a server to start.
type ServerConfig struct {
	Binary string   // a path or a name in PATH. Defaults to "opencode".
	Dir    string   // the working directory, an absolute path. Defaults to the caller's.
	Env    []string // the environment. Defaults to os.Environ(). Proxies are not used for this machine.
	// ConfigContent returns OpenCode configuration (JSON) over the user's files, for a generation (0: unknown). nil keeps
	// OPENCODE_CONFIG_CONTENT in Env.
	ConfigContent func(generation int) string
	StartTimeout  time.Duration // of the server, and then of each directory in it. Defaults to 2 min.
	CallTimeout   time.Duration // of its client, as Slow, see [AttachConfig]
	Slow          func(text string)
	StopGrace     time.Duration // how long [Server.Stop] waits for each gentle step. Defaults to 5 s.
	Logger        *slog.Logger  // defaults to none
}

// Server is an OpenCode server that this program started. It is bound to 127.0.0.1, protected by a random password, and
// runs in its own process group, so that Ctrl-C in the terminal reaches this program only.
type Server struct {
	cfg    ServerConfig
	mark   string // an environment entry of every process that it starts
	client *Client
	lease  io.Closer // closing it ends OpenCode 2; nil for OpenCode 1
	stop   sync.Once

	pid    int
	done   chan struct{} // closed when the process and all that it started are gone
	output printed
	state  string // how the process ended; read it after done
}

// ExitError says that the server process ended unexpectedly.
type ExitError struct {
	State  string // such as "exit status 1", "signal: killed"
	Output string // the end of its output
}

func (e *ExitError) Error() string {
	if e.Output == "" {
		return "the OpenCode server ended: " + e.State
	}
	return fmt.Sprintf("the OpenCode server ended: %s; its last output:\n%s", e.State, e.Output)
}

// Start starts a server and waits until it answers. ctx bounds only the start; the server runs until [Server.Stop]. The
// error matches [ErrNoBinary], [ErrStartTimeout] or ctx's cause, is an [*ExitError] if the process ended, or a
// [*VersionError] if it cannot be used. On an error nothing is left running.
func Start(ctx context.Context, cfg ServerConfig) (*Server, error) {
	cfg.StartTimeout = cmp.Or(cfg.StartTimeout, defaultStartTimeout)
	cfg.StopGrace = cmp.Or(cfg.StopGrace, defaultStopGrace)
	path, err := lookUp(cfg.Binary)
	if err != nil {
		return nil, err
	}
	version, err := binaryVersion(ctx, path)
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
	generation, _, _ := numbers(version)
	cmd := s.command(generation, path, port, password)
	if generation == 2 {
		// Ends OpenCode 2 even if this program is killed, and hides the password from its tools.
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
		why := ErrNoBinary
		if binary != "" {
			cause := fs.ErrNotExist
			if failed, ok := errors.AsType[*fs.PathError](err); ok {
				cause = failed.Err
			}
			why = fmt.Errorf("%w: %s: %w", ErrNoBinary, binary, cause)
		}
		return "", fmt.Errorf("%w; install it with `npm install -g opencode-ai@%s`, or say where it is (--opencode PATH)", why, TestedVersion)
	}
	// A relative path would lead elsewhere from the server's working directory.
	return filepath.Abs(path)
}

func (s *Server) command(generation int, path, port, password string) *exec.Cmd {
	cmd := exec.Command(path, "serve", "--hostname", "127.0.0.1", "--port", port)
	cmd.Dir = s.cfg.Dir
	env := s.cfg.Env
	if env == nil {
		env = os.Environ()
	}
	cmd.Env = append(command.Environ(env),
		"OPENCODE_SERVER_USERNAME="+defaultUsername,
		"OPENCODE_SERVER_PASSWORD="+password,
		"OPENCODE_PASSWORD="+password, // OpenCode 2 reads this one first
		"OPENCODE_DISABLE_AUTOUPDATE=1",
		// OpenCode 1.18.33 hangs if it gets no inotify instance for its file watcher (seen). Linux allows 128 per user
		// by default, and OpenCode's file index takes one per directory.
		"OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER=1",
		"OPENCODE_DISABLE_FFF=1",
		s.mark,
	)
	if s.cfg.Dir != "" {
		// OpenCode trusts PWD, not the real working directory.
		cmd.Env = append(cmd.Env, "PWD="+s.cfg.Dir)
	}
	if s.cfg.ConfigContent != nil {
		cmd.Env = append(cmd.Env, "OPENCODE_CONFIG_CONTENT="+s.cfg.ConfigContent(generation))
	}
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	cmd.WaitDelay = drainAfter // a process that it left behind may hold its output open
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
				Password: password, CallTimeout: s.cfg.CallTimeout, BootTimeout: s.cfg.StartTimeout, Logger: s.cfg.Logger,
				Slow: s.cfg.Slow,
			}); err != nil {
				return err
			}
			continue
		case <-ask.C:
			if s.client == nil {
				continue
			}
			if err = s.client.handshake(ctx); errors.Is(err, ErrUnavailable) {
				continue // not ready yet
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

// run starts the process and returns when it is gone. It locks its thread: on Linux the parent death signal is sent
// when the thread that started the process ends, which in Go may happen at any time (go.dev/issue/27505). Callers wait
// for done, which it closes, not for its return.
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
	_ = cmd.Wait() // ProcessState says how it ended
	s.state = cmd.ProcessState.String()
	s.signal(syscall.SIGKILL) // the rest of the group
	// OpenCode starts each tool in a session of its own, where it survives outside the group, without a parent to find
	// it by. What cannot be ended now also carries the mark of this program's registration, if it has one.
	_, _ = orphan.End(s.mark)
	close(s.done)
}

// printed keeps the end of the server's output, and finds the address at its beginning.
type printed struct {
	text.LastBytes
	listening chan string // receives the address once
	begin     []byte      // the output until then
	told      bool
}

func (p *printed) Write(b []byte) (int, error) {
	if !p.told {
		p.begin = append(p.begin, b...)
		lines := strings.Split(string(p.begin), "\n")
		for _, line := range lines[:len(lines)-1] { // the last element is an incomplete line
			if address := addressIn(line); address != "" {
				p.told, p.begin = true, nil
				p.listening <- address
				break
			}
		}
	}
	return p.LastBytes.Write(b)
}

// addressIn returns the address in the line with which a server reports that it is ready, or "". OpenCode 1 puts
// "opencode" before the words, OpenCode 2 prints JSON if it was started with --stdio.
func addressIn(line string) string {
	if _, address, found := strings.Cut(line, "server listening on "); found {
		return strings.TrimSpace(address)
	}
	var ready struct{ URL string }
	_ = json.Unmarshal([]byte(line), &ready) // most lines are not JSON
	return ready.URL
}

// signal signals the whole group. The group's id cannot be reused while done is open: either the leader is not reaped
// yet, or this is the immediate call in run.
func (s *Server) signal(sig syscall.Signal) {
	select {
	case <-s.done:
	default:
		_ = syscall.Kill(-s.pid, sig) // fails only if no process is left
	}
}

// Client returns the connection to the server. [Server.Stop] closes it.
func (s *Server) Client() *Client { return s.client }

// PID returns the id of the server's process, which is also that of its process group.
func (s *Server) PID() int { return s.pid }

// Done is closed when the process has ended, for any reason, and all that it started has been ended too.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends the server, its turns and their tools, and waits for that. It asks the server to end all turns, then kills
// it. A server that does not answer gets SIGTERM and time first. OpenCode 2 ends by itself after its turns. When ctx
// ends, the server is killed at once. Stop may be called repeatedly and concurrently: each call returns when the
// process is gone, and the first ctx to end counts for all.
func (s *Server) Stop(ctx context.Context) {
	calm := context.AfterFunc(ctx, func() { s.signal(syscall.SIGKILL) })
	defer calm()
	s.stop.Do(func() {
		// After endWork there is nothing left that SIGTERM could save.
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

func (s *Server) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StopGrace)
	defer cancel()
	select {
	case <-s.done:
	case <-ctx.Done():
	}
}
