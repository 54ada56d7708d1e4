// Package fakeopencode is a stand-in for the OpenCode 2 server, for tests: no released 2.x can be installed there. It
// has durable state, real tools on real files, and the scripted model. [Main] takes the place of OpenCode's program.
//
// It does what 2.0.21 is known to do, surprises included; [Behaviour] selects other versions'. Most of it was seen on a
// branch before 2.0.0 (OPENCODE2.md, not in this repository): it does not prove that a real server does the same.
//
// [Server.mu] guards all state. Requests, executions and tool calls hold it, except while they wait for the model, a
// program or the user; see [Server.unlocked].
package fakeopencode

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

var (
	errShutdown    = errors.New("shutdown")
	errInterrupted = errors.New("user")
)

// Config configures a server.
type Config struct {
	Behaviour
	Dir      string            // of calls that name no directory
	Environ  map[string]string // XDG_DATA_HOME, OPENCODE_CONFIG_CONTENT and the like; tools get all of it
	Password string            // of HTTP basic authentication, for the user opencode
}

// Server is a running stand-in. Serve its [Server.Handler], then close it.
type Server struct {
	behaviour Behaviour
	cfg       Config
	data      string // directory of the durable state
	ctx       context.Context
	cancel    context.CancelCauseFunc
	work      sync.WaitGroup // executions and what they started

	mu        sync.Mutex
	newest    int64 // newest number in an id
	listeners map[listener]struct{}
	sessions  map[string]*session
	locations map[string]*location
	asked     []*request
	shells    []*shell
}

// New starts a server, with the sessions of an earlier one on the same data.
func New(cfg Config) (*Server, error) {
	home := cmp.Or(cfg.Environ["XDG_DATA_HOME"], filepath.Join(cfg.Environ["HOME"], ".local", "share"))
	s := &Server{
		behaviour: cfg.Behaviour.withDefaults(), cfg: cfg, data: filepath.Join(home, "opencode"),
		listeners: map[listener]struct{}{}, sessions: map[string]*session{}, locations: map[string]*location{},
	}
	for _, dir := range []string{"session", "shell", "snapshot"} {
		if err := os.MkdirAll(filepath.Join(s.data, dir), 0o700); err != nil {
			return nil, err
		}
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s, nil
}

// Close interrupts all executions, ends their tools, and waits for both.
func (s *Server) Close() {
	s.cancel(errShutdown)
	s.mu.Lock()
	for _, sh := range s.shells {
		sh.kill()
	}
	s.mu.Unlock()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.locations {
		for _, m := range l.mcp {
			m.disconnect()
		}
	}
}

// unlocked calls wait without the lock, which the caller holds before and after.
func (s *Server) unlocked(wait func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	wait()
}

// await waits for c or the end of ctx, without the lock as in [Server.unlocked].
func await[T any](ctx context.Context, s *Server, c <-chan T) {
	s.unlocked(func() {
		select {
		case <-c:
		case <-ctx.Done():
		}
	})
}

// location is the server's state for one directory.
type location struct {
	server *Server
	ref    locationRef
	config *config
	mcp    map[string]*mcpServer
	looks  int // requests for the list of plugins
}

type locationRef struct {
	Directory string `json:"directory"`
}

// at returns a directory's location, which it makes at the first call.
func (s *Server) at(dir string) *location {
	if s.locations[dir] == nil {
		s.locations[dir] = &location{
			server: s, ref: locationRef{dir}, config: readConfig(dir, s.cfg.Environ),
			mcp: map[string]*mcpServer{},
		}
	}
	return s.locations[dir]
}

// rules returns an agent's rules. The last match decides, and the session's come last.
func (l *location) rules(a *agent, ofSession ...rule) []rule {
	return slices.Concat(defaultRules, l.config.Permission, a.Permission, ofSession)
}

func (l *location) answer(data any) (any, error) {
	dir := l.ref.Directory
	project := fields{"id": "global", "directory": dir, "canonical": dir}
	return bare{fields{"location": fields{"directory": dir, "project": project}, "data": data}}, nil
}

func now() int64 { return time.Now().UnixMilli() }

// newID returns an id in OpenCode's format that sorts after all earlier ones, and by time among ids of clients.
func (s *Server) newID(prefix string) string {
	const steps = 1 << 12 // per millisecond
	s.newest = max(s.newest+1, now()*steps)
	return fmt.Sprintf("%s%012x%s", prefix, s.newest&(1<<48-1), rand.Text()[:14])
}
