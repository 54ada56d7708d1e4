package scriptmodel

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Handler answers one request. It is called from many goroutines at once. ctx ends when the caller goes away or the
// server is closed, so a handler may block on it.
type Handler func(ctx context.Context, req Request) Reply

// Option changes how a [Server] behaves.
type Option func(*Server)

// RequireKey makes the server refuse requests with another bearer token than key the way OpenAI does: 401,
// invalid_api_key.
func RequireKey(key string) Option { return func(s *Server) { s.key = key } }

// Listen sets the address to listen on. Defaults to 127.0.0.1:0.
func Listen(address string) Option { return func(s *Server) { s.address = address } }

// maxBody bounds a request. The largest that OpenCode was seen to send are long conversations of a few megabytes.
const maxBody = 64 << 20

// Server is a running model server.
type Server struct {
	handler Handler
	address string
	key     string
	url     string
	http    *http.Server
	cancel  context.CancelFunc // ends the requests that are still being answered
	served  chan struct{}      // closed when Serve has returned

	mu       sync.Mutex
	requests []Request
}

// Start starts a server that answers with handler. The caller closes it.
func Start(handler Handler, options ...Option) (*Server, error) {
	s := &Server{handler: handler, address: "127.0.0.1:0", served: make(chan struct{})}
	for _, option := range options {
		option(s)
	}
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return nil, fmt.Errorf("start scripted model: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.url = "http://" + listener.Addr().String() + "/v1"
	s.http = &http.Server{
		Handler:           s.routes(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(listener) // returns when the server is closed; there is nothing else to learn
	}()
	return s, nil
}

// Routes answers what a [Server] does, for a test with a server of its own.
func Routes(handler Handler) http.Handler { return (&Server{handler: handler}).routes() }

// URL is the base URL for OpenAI clients. It ends in /v1.
func (s *Server) URL() string { return s.url }

// Requests returns the chat completion requests so far, in the order in which they arrived. Requests that were
// refused for their key or their form are not among them.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Close ends all requests that are still waiting and stops the server. It may be called twice.
func (s *Server) Close() {
	s.cancel()
	// A moment for the handlers to notice; connections that were opened and never used would hold it up for longer.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-s.served
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.chatCompletions)
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, fmt.Sprintf("unknown request: %s %s", r.Method, r.URL.Path))
	})
	return mux
}

func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request) {
	key, ok := s.authorize(w, r)
	if !ok {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	req, err := parseRequest(body)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	req.Key, req.SessionID = key, r.Header.Get(sessionHeader)
	seq := s.record(req)

	reply := s.handler(r.Context(), req)
	if !reply.wait(r.Context()) {
		return // nobody is there to read an answer
	}
	reply.write(w, req, seq)
}

// authorize returns the bearer token of r, or refuses r.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) (key string, ok bool) {
	key, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if s.key != "" && subtle.ConstantTimeCompare([]byte(key), []byte(s.key)) == 0 {
		writeError(w, http.StatusUnauthorized, "Incorrect API key provided.")
		return "", false
	}
	return key, true
}

// record logs req and returns its number, counted from 1.
func (s *Server) record(req Request) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	return int64(len(s.requests))
}

func (s *Server) models(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.authorize(w, r); !ok {
		return
	}
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		OwnedBy string `json:"owned_by"`
	}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list"}
	for _, name := range Models() {
		list.Data = append(list.Data, model{ID: name, Object: "model", OwnedBy: ProviderID})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// wait lets Delay and Wait pass. It reports false when ctx ended first.
func (r Reply) wait(ctx context.Context) bool {
	if r.Delay > 0 {
		timer := time.NewTimer(r.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	if r.Wait != nil {
		select {
		case <-r.Wait:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// write sends the reply to req, which was the seq-th request.
func (r Reply) write(w http.ResponseWriter, req Request, seq int64) {
	if r.Status != 0 {
		for name, values := range r.Header {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		writeBody(w, r.Status, r.Body)
		return
	}
	a, err := newAnswer(req, r, seq, time.Now().Unix())
	switch {
	case err != nil:
		writeError(w, http.StatusInternalServerError, err.Error())
	case req.Stream:
		a.writeStream(w, req.IncludeUsage)
	default:
		a.writeWhole(w)
	}
}

func writeError(w http.ResponseWriter, status int, message string) {
	writeBody(w, status, errorBody(status, message))
}

// writeBody answers with status and body, or with OpenAI's error when there is no body.
func writeBody(w http.ResponseWriter, status int, body string) {
	if body == "" {
		body = errorBody(status, "")
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
