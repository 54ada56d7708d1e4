// Package mcptool offers agents manager's own tools, as an MCP server. That with which they report blockers is there over
// HTTP for the sessions of an OpenCode server, and over standard input and output for whoever starts it; a todo list over
// HTTP, for an OpenCode that has none.
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

// DefaultName is the server's name within OpenCode. With it the tool is called [boulder.BlockerTool].
const DefaultName = "manager"

const (
	path       = "/mcp"
	setKey     = "tools"          // of the query
	maxMessage = 1 << 20          // in bytes; a longer call is answered with a text up to there
	closeGrace = 10 * time.Second // for calls that are being recorded
	// patience is how long a call waits for its session to be told. It has been some ten milliseconds: OpenCode sends its
	// events in batches, and makes the call in the meantime.
	patience = 5 * time.Second
	// keepCall is how long an announced call waits for its other half. In between lie OpenCode's own steps, a few
	// milliseconds; one that was aborted there never comes, and must not be taken for another's that says the same.
	keepCall = time.Minute
)

// Config of a [Server]. Register is needed.
type Config struct {
	Register *blockers.Register
	// Logger defaults to none. It is told ids, and never what a blocker says.
	Logger *slog.Logger
}

// Server has the tools "blocker" and "todo". It is safe for concurrent use.
//
// A call over HTTP does not say which session makes it (OpenCode 1.18.33); whoever follows the sessions tells, see
// [Server.Called]. Equal inputs make the two halves one; each call of a session is claimed once, so that of two sessions
// which say the same each gets one. Either half may be first.
type Server struct {
	cfg      Config
	patience time.Duration

	mu         sync.Mutex
	http       *http.Server // nil before it is served
	url, token string
	sets       map[string]*mcp.Server // with the tools of that name; several with commas in between
	closed     bool
	serving    sync.WaitGroup

	told *sync.Cond  // that open has grown; of mu
	open []announced // calls that are not claimed, oldest first
	// known calls are announced again and again, and are not new ones then. Providers number the calls of a conversation as
	// they like: another session, or another call of the same, may have the same CallID.
	known map[[3]string]bool // session, CallID, input
}

type announced struct {
	input string
	scope boulder.BlockerScope
	at    time.Time
}

// New makes a server. Nothing listens before [Server.Tools].
func New(cfg Config) *Server {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Server{cfg: cfg, patience: patience, sets: map[string]*mcp.Server{}, known: map[[3]string]bool{}}
	s.told = sync.NewCond(&s.mu)
	return s
}

// Tools begins to listen on a free port of 127.0.0.1 and says where these tools are, named as agents know them, and with
// which headers: without them nobody is let in. Called again it says the same. ctx bounds the beginning only; the server
// goes on until [Server.Close], after which this is an error.
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
		// Stateless, since OpenCode does not end its MCP sessions; plain JSON, since nothing is told in between.
		handler := mcp.NewStreamableHTTPHandler(s.chosen, &mcp.StreamableHTTPOptions{
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

// chosen has the tools that a request is about; nil: nobody was told of such a set.
func (s *Server) chosen(r *http.Request) *mcp.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sets[r.URL.Query().Get(setKey)]
}

// Called says which session makes a call, as soon as the session shows it with its whole input. The call may have
// arrived already, or arrive up to a minute later. The same call may be told again: it is one with its session, its
// CallID and its input. It does not block.
func (s *Server) Called(call boulder.BlockerCall) {
	input, err := canonical(call.Input)
	if err != nil {
		return // it cannot be equal to what arrived, which was JSON
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := [3]string{call.SessionID, call.CallID, input}; !s.known[key] {
		s.known[key] = true
		s.open = append(s.open, announced{input, call.BlockerScope, time.Now()})
		s.told.Broadcast()
	}
}

// claim finds the session of a call that arrived. It waits for it to be announced; then it reports false.
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
		s.mu.Lock() // whoever has it is about to wait, and would not hear it
		defer s.mu.Unlock()
		s.told.Broadcast()
	})()
	for {
		s.open = slices.DeleteFunc(s.open, func(a announced) bool { return time.Since(a.at) > keepCall })
		if i := slices.IndexFunc(s.open, func(a announced) bool { return a.input == input }); i >= 0 {
			scope := s.open[i].scope
			s.open = slices.Delete(s.open, i, i+1)
			return scope, true
		}
		if ctx.Err() != nil {
			return boulder.BlockerScope{}, false
		}
		s.told.Wait()
	}
}

// canonical is the same for inputs that are equal as JSON: whatever the order of the keys, the white space, and the ways
// to write a number or a letter. Numbers are compared as JavaScript has them, since OpenCode has read them.
func canonical(input json.RawMessage) (string, error) {
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("{}") // how OpenCode calls a tool without arguments
	}
	var value any
	if err := json.Unmarshal(input, &value); err != nil {
		return "", err
	}
	data, err := json.Marshal(value) // with sorted keys
	return string(data), err
}

// Close stops listening, and waits up to ten seconds for calls that are being recorded. It may be called twice.
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

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// ServeStdio offers the tool over in and out, to one client, until in ends, which is no error, or ctx does, whose cause
// it then returns. What the client reports is one session, named after the client and this process, of which each client
// has one of its own. OpenCode has one for a directory, so that all its sessions there are one.
//
// A read of in may go on after the return; out is not written to any more.
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
	// The library reads on until the reader ends, also when it is told to stop, and a read of a terminal or a file cannot
	// be ended from here. So it reads from a pipe.
	reader, writer := io.Pipe()
	go func() {
		_, err := io.Copy(writer, in)
		writer.CloseWithError(err) // nil is the end
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
