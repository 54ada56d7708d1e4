// Package mcptool offers the tool with which agents report blockers, as an MCP server: over HTTP to the sessions of an
// OpenCode server, and over standard input and output to whoever starts it.
//
// A call over HTTP does not say which session makes it. Who watches the sessions tells, see [Server.Called].
package mcptool

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
)

// DefaultName is the server's name within OpenCode. With it the tool is called [blockers.DefaultTool].
const DefaultName = "manager"

const (
	path       = "/mcp"
	maxBody    = 1 << 20          // of a request; a longer call is answered with a text up to there
	closeGrace = 10 * time.Second // for calls that are being taken down
)

// ErrClosed is returned for the use of a server that was closed.
var ErrClosed = errors.New("the blocker tool's server was closed")

// Desk takes blockers down. Its methods may be called from any goroutine.
type Desk interface {
	// On reports whether blockers of the session are taken down at this moment.
	On(scope boulder.BlockerScope) bool
	// Raise takes one down: it is on disk when Raise returns. One that is there already is a duplicate. The error is an
	// [*blockers.InputError], matches [blockers.ErrOff] or [blockers.ErrTooMany], or says why it could not be stored.
	Raise(ctx context.Context, scope boulder.BlockerScope, in blockers.Input) (_ boulder.Blocker, duplicate bool, _ error)
}

var _ Desk = (*blockers.Desk)(nil)

// Config of a [Server]. Desk is needed.
type Config struct {
	Desk Desk
	// Logger defaults to none. It is told ids, and never what a blocker says.
	Logger *slog.Logger
}

// Server has the tool "blocker". It is safe for concurrent use.
type Server struct {
	cfg    Config
	claims *claims
	// patience is how long a call waits for its session, see the constant.
	patience time.Duration

	mu         sync.Mutex
	http       *http.Server // nil before it is served
	url, token string
	closed     bool
	serving    sync.WaitGroup
}

// New makes a server. Nothing listens before [Server.Serve].
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, claims: newClaims(time.Now), patience: patience}
}

// Serve begins to listen on a free port of 127.0.0.1 and says where, for streamable HTTP, and with which headers:
// without them nobody is let in. Called again it says the same. ctx bounds the beginning only; the server goes on until
// [Server.Close], after which the error matches [ErrClosed].
func (s *Server) Serve(ctx context.Context) (url string, headers map[string]string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", nil, ErrClosed
	}
	if s.http == nil {
		if err := s.listen(ctx); err != nil {
			return "", nil, fmt.Errorf("serve the blocker tool: %w", err)
		}
	}
	return s.url, map[string]string{"Authorization": "Bearer " + s.token}, nil
}

func (s *Server) listen(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.token, s.url = rand.Text(), "http://"+listener.Addr().String()+path
	tools := s.tools(func(ctx context.Context, r *mcp.CallToolRequest) (boulder.BlockerScope, bool) {
		input, err := canonical(r.Params.Arguments)
		if err != nil {
			return boulder.BlockerScope{}, false
		}
		limited, cancel := context.WithTimeout(ctx, s.patience)
		defer cancel()
		return s.claims.claim(limited, input)
	})
	// Stateless, since OpenCode does not end its MCP sessions; plain JSON, since nothing is told in between.
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody,
	})
	s.http = &http.Server{
		Handler:           guarded(handler, listener.Addr().String(), s.token),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn),
	}
	server := s.http
	s.serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Logger.Error("the blocker tool is not served any more", "error", err)
		}
	})
	return nil
}

// Called says which session makes a call, as soon as the session shows it with its whole input. The call may have
// arrived already, or arrive up to a minute later. The same call may be told again: it is one with its session, its
// CallID and its input. It does not block.
func (s *Server) Called(call boulder.BlockerCall) { s.claims.announce(call) }

// Close stops listening, and waits up to ten seconds for calls that are being taken down. It may be called twice.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	server := s.http
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	err := server.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("close the blocker tool's server: %w", errors.Join(err, server.Close()))
	}
	s.serving.Wait()
	return err
}

// guarded lets in who has the token. Browsers are kept out besides: they may be made to call any port of this machine by
// any page, and tell that page's origin, or the name by which it leads here.
func guarded(next http.Handler, host, token string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		want, got := "Bearer "+token, r.Header.Get("Authorization")
		switch {
		case r.Host != host || r.Header.Get("Origin") != "":
			http.Error(w, "this is not for browsers", http.StatusForbidden)
		case subtle.ConstantTimeCompare([]byte(want), []byte(got)) != 1:
			http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
		case r.URL.Path != path:
			http.NotFound(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	}
}
