// Package mcptool serves manager's own tools to agents over MCP: the blocker tool over HTTP for an OpenCode server, or
// over standard input and output for any client; and a todo list over HTTP, for an OpenCode without one.
package mcptool

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

// DefaultName is the server's name within OpenCode. With it the blocker tool is called [boulder.BlockerTool].
const DefaultName = "manager"

const (
	path       = "/mcp"
	setKey     = "tools"          // of the query
	maxMessage = 1 << 20          // in bytes; a longer call gets an error text up to there
	closeGrace = 10 * time.Second // for calls that are being recorded
	// patience is how long a call waits for its session to be announced. That took some ten milliseconds (observed):
	// OpenCode batches its events, and makes the call meanwhile.
	patience = 5 * time.Second
	// keepCall is how long an announcement waits for its call, which OpenCode makes within milliseconds. An aborted call
	// never comes, and its announcement must not claim an equal one of another session.
	keepCall = time.Minute
	// keepKnown is more than the time between two repeats of an announcement.
	keepKnown = 24 * time.Hour
)

// Config of a [Server]. Register is required.
type Config struct {
	Register *blockers.Register
	// Logger defaults to none. It gets ids, never what a blocker says.
	Logger *slog.Logger
}

// Server has the tools "blocker" and "todo". It is safe for concurrent use.
//
// A call over HTTP does not say which session makes it (OpenCode 1.18.33), so the follower of the sessions announces
// it, see [Server.Called]. Call and announcement, in either order, are matched by equal inputs. Each announcement is
// claimed once, so that equal calls of two sessions get one each.
type Server struct {
	cfg      Config
	patience time.Duration

	mu         sync.Mutex
	http       *http.Server // nil before the first Tools
	url, token string
	sets       map[string]*mcp.Server // by comma-separated tool names
	closed     bool
	serving    sync.WaitGroup

	added     *sync.Cond  // signals additions to unclaimed; uses mu
	unclaimed []announced // oldest first
	// known holds past announcements, which are repeated. Providers choose CallIDs freely, so they are not unique.
	known map[[3]string]time.Time // when last announced, by session, CallID, input
}

type announced struct {
	input string
	scope boulder.BlockerScope
	at    time.Time
}

// New returns a server, which does not listen before [Server.Tools].
func New(cfg Config) *Server {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Server{cfg: cfg, patience: patience, sets: map[string]*mcp.Server{}, known: map[[3]string]time.Time{}}
	s.added = sync.NewCond(&s.mu)
	return s
}

// Tools listens on a free port of 127.0.0.1, once, and returns the address of these tools (named as agents know them)
// and the headers with the token. ctx only bounds the start. After [Server.Close] it fails.
func (s *Server) Tools(ctx context.Context, names ...string) (tools opencode.MCPServer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return tools, errors.New("the server of manager's tools was closed")
	}
	if s.http == nil {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return tools, fmt.Errorf("serve manager's tools: %w", err)
		}
		s.token, s.url = rand.Text(), "http://"+listener.Addr().String()+path
		// Stateless, since OpenCode does not end its MCP sessions; plain JSON, since no progress is reported.
		handler := mcp.NewStreamableHTTPHandler(s.toolSet, &mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxMessage,
		})
		s.http = &http.Server{
			Handler:           guarded(handler, listener.Addr().String(), s.token),
			ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
			MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn),
		}
		server := s.http
		s.serving.Go(func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				s.cfg.Logger.Error("manager's tools are not served any more", "error", err)
			}
		})
	}
	set := strings.Join(names, ",")
	if s.sets[set] == nil {
		s.sets[set] = s.tools(s.claim, names...)
	}
	headers := map[string]string{"Authorization": "Bearer " + s.token}
	return opencode.MCPServer{Name: DefaultName, URL: s.url + "?" + setKey + "=" + set, Headers: headers}, nil
}

// toolSet returns the tools that a request's query names, or nil if Tools never returned that set.
func (s *Server) toolSet(r *http.Request) *mcp.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sets[r.URL.Query().Get(setKey)]
}

// Called announces which session makes a call, once the session shows its whole input. The call may have arrived
// already, or arrive up to a minute later. Repeats (same session, CallID and input) are ignored. It does not block.
func (s *Server) Called(call boulder.BlockerCall) {
	input, err := canonical(call.Input)
	if err != nil {
		return // what arrived was JSON, so it cannot be equal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(s.known, func(_ [3]string, at time.Time) bool { return now.Sub(at) > keepKnown })
	key := [3]string{call.SessionID, call.CallID, input}
	if s.known[key].IsZero() {
		s.unclaimed = append(s.unclaimed, announced{input, call.BlockerScope, now})
		s.added.Broadcast()
	}
	s.known[key] = now
}

// claim returns the session that announced a call. It reports false if none does within the patience.
func (s *Server) claim(ctx context.Context, r *mcp.CallToolRequest) (boulder.BlockerScope, bool) {
	input, err := canonical(r.Params.Arguments)
	if err != nil {
		return boulder.BlockerScope{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock() // without it, the broadcast could come between the check and the wait
		defer s.mu.Unlock()
		s.added.Broadcast()
	})()
	for {
		s.unclaimed = slices.DeleteFunc(s.unclaimed, func(a announced) bool { return time.Since(a.at) > keepCall })
		if i := slices.IndexFunc(s.unclaimed, func(a announced) bool { return a.input == input }); i >= 0 {
			scope := s.unclaimed[i].scope
			s.unclaimed = slices.Delete(s.unclaimed, i, i+1)
			return scope, true
		}
		if ctx.Err() != nil {
			return boulder.BlockerScope{}, false
		}
		s.added.Wait()
	}
}

// canonical returns the same text for equal JSON values, whatever their key order, white space or escapes. Numbers
// become float64, as in OpenCode's JavaScript.
func canonical(input json.RawMessage) (string, error) {
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("{}") // what OpenCode sends for a tool without arguments
	}
	var value any
	if err := json.Unmarshal(input, &value); err != nil {
		return "", err
	}
	data, err := json.Marshal(value) // with sorted keys
	return string(data), err
}

// Close stops listening, and waits up to ten seconds for calls that are being recorded. Idempotent.
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
		err = fmt.Errorf("close the server of manager's tools: %w", errors.Join(err, server.Close()))
	}
	s.serving.Wait()
	return err
}

// guarded requires the token. It also refuses browsers, which any page can make call a local port: their requests have
// an Origin, or a Host that is not ours (DNS rebinding).
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

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// ServeStdio offers the blocker tool over in and out to one client, until in ends (no error) or ctx does (its cause).
// Client and process make one session; OpenCode has one process per directory, for all sessions there.
//
// A read of in may outlast the return; writes to out do not.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	tools := s.tools(func(_ context.Context, r *mcp.CallToolRequest) (boulder.BlockerScope, bool) {
		client := "mcp"
		if p := r.Session.InitializeParams(); p != nil && p.ClientInfo != nil && p.ClientInfo.Name != "" {
			client = notInNames.ReplaceAllString(p.ClientInfo.Name, "_")
		}
		return boulder.BlockerScope{SessionID: fmt.Sprintf("%.60s-%d", client, os.Getpid())}, true
	}, boulder.BlockerTool)
	return Stdio(ctx, tools, in, out)
}

// Stdio runs a server of tools over in and out, as [Server.ServeStdio] does.
func Stdio(ctx context.Context, tools *mcp.Server, in io.Reader, out io.Writer) error {
	// The library reads until EOF even when stopped, and a read from a terminal cannot be interrupted: hence the pipe.
	reader, writer := io.Pipe()
	go func() {
		_, err := io.Copy(writer, in)
		writer.CloseWithError(err) // nil means EOF
	}()
	defer reader.CloseWithError(io.ErrClosedPipe) // ends the copying with its next read
	defer context.AfterFunc(ctx, func() { reader.CloseWithError(context.Cause(ctx)) })()
	err := tools.Run(ctx, &mcp.IOTransport{Reader: reader, Writer: keepOpen{out}, MaxLineLength: maxMessage})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil, errors.Is(err, io.EOF):
		return nil
	}
	return fmt.Errorf("serve tools over standard input and output: %w", err)
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
