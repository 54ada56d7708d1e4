// Package fakeopencode is a stand-in for the server of OpenCode 2, for tests: no released 2.x can be installed where they
// run. It is a real server with a state that survives it, real tools on real files, and the scripted model for a model.
// [Main] is used in the place of OpenCode's program.
//
// It does what version 2.0.21 is known to do, surprises included; [Behaviour] takes some of them away and has those of
// other versions. What a fact is worth is said in the notes that it was made from (OPENCODE2.md, not part of this
// repository): most were seen on a branch older than 2.0.0. The server is no proof that a real one behaves like that.
//
// All state is guarded by [Server.mu], which each request, execution and tool call has while it works. It gives the lock up
// while it waits, for the model, a program or the user; see [Server.unlocked].
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

// errShutdown and errInterrupted are why an execution is ended from outside.
var (
	errShutdown    = errors.New("shutdown")
	errInterrupted = errors.New("user")
)

// Config is what a server is started with.
type Config struct {
	Behaviour
	Dir      string            // for calls that name no directory
	Environ  map[string]string // XDG_DATA_HOME, OPENCODE_CONFIG_CONTENT and the like; tools get all of it
	Password string            // of HTTP basic authentication, for the user opencode
}

// Server is a running stand-in. Serve it with net/http; close it afterwards.
type Server struct {
	behaviour Behaviour
	cfg       Config
	data      string // directory of what outlives the server
	ctx       context.Context
	cancel    context.CancelCauseFunc
	work      sync.WaitGroup // executions and what they started

	mu        sync.Mutex
	newest    int64 // of the numbers in ids
	listeners map[listener]struct{}
	sessions  map[string]*session
	locations map[string]*location
	asked     []*request
}

// New starts a server with the sessions that an earlier one left.
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

// Close interrupts what runs, ends its tools, and waits for that.
func (s *Server) Close() {
	s.cancel(errShutdown)
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.locations {
		for _, m := range l.mcp {
			m.disconnect()
		}
	}
}

// unlocked calls what waits for something. The caller has the lock, and has it again afterwards.
func (s *Server) unlocked(wait func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	wait()
}

// await waits for a channel, or for the end of ctx. The caller has the lock, as for [Server.unlocked].
func await[T any](ctx context.Context, s *Server, c <-chan T) {
	s.unlocked(func() {
		select {
		case <-c:
		case <-ctx.Done():
		}
	})
}

// location is what the server knows of one directory.
type location struct {
	server *Server
	ref    locationRef
	config *config
	mcp    map[string]*mcpServer
	listed map[string]bool // kinds of lists that are complete by now
}

type locationRef struct {
	Directory string `json:"directory"`
}

// at boots a directory, if that was not done yet.
func (s *Server) at(dir string) *location {
	if s.locations[dir] == nil {
		s.locations[dir] = &location{
			server: s, ref: locationRef{dir}, config: readConfig(dir, s.cfg.Environ),
			mcp: map[string]*mcpServer{}, listed: map[string]bool{},
		}
	}
	return s.locations[dir]
}

// rules are what decides for an agent, the last that fits: those of the session come last.
func (l *location) rules(a *agent, ofSession ...rule) []rule {
	return slices.Concat(defaultRules, l.config.Permission, a.Permission, ofSession)
}

// answer is a thing of the directory as it is sent.
func (l *location) answer(data any) (any, error) {
	dir := l.ref.Directory
	project := fields{"id": "global", "directory": dir, "canonical": dir}
	return bare{fields{"location": fields{"directory": dir, "project": project}, "data": data}}, nil
}

func now() int64 { return time.Now().UnixMilli() }

// newID makes an id that sorts after those before it, in OpenCode's format: who sorts by ids finds those of clients, made
// likewise, in their place.
func (s *Server) newID(prefix string) string {
	const steps = 1 << 12 // within a millisecond
	s.newest = max(s.newest+1, now()*steps)
	return fmt.Sprintf("%s%012x%s", prefix, s.newest&(1<<48-1), rand.Text()[:14])
}
