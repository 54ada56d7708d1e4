// Package scriptmodel is a scripted language model: an OpenAI-compatible server on the loopback interface, whose
// answers come from a [Handler] or a YAML [Script].
//
// Tests, benchmarks and the offline demo point the real OpenCode at it ([OpenCodeConfig], [OpenCodeEnv]), so that real
// sessions run real tools on real files with known answers. The ledgers use it as any other OpenAI-compatible endpoint.
//
// It distinguishes three kinds of request, see [Kind]. The step of an agent is counted from the conversation
// ([Request.AssistantTurns]), so an agent continues correctly after a restart of either side. Only structured answers
// and faults are counted by the script.
package scriptmodel

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Handler answers a request. It must be safe for concurrent use, and may block: ctx ends when the caller is gone or the
// server is closed.
type Handler func(ctx context.Context, req Request) Reply

// maxBody bounds a request, in bytes. The largest from OpenCode are conversations of a few megabytes (observed).
const maxBody = 64 << 20

// Server is a running model server.
type Server struct {
	handler Handler
	url     string
	http    *http.Server
	cancel  context.CancelFunc // ends running requests
	served  chan struct{}      // closed when Serve has returned

	mu       sync.Mutex
	requests []Request
}

// Start starts a server that answers with handler. The caller closes it.
func Start(handler Handler) (*Server, error) {
	s := &Server{handler: handler, served: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
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
		_ = s.http.Serve(listener) // until Close
	}()
	return s, nil
}

// Routes returns the handler of a [Server], for tests with their own HTTP server.
func Routes(handler Handler) http.Handler { return (&Server{handler: handler}).routes() }

// URL returns the base URL for OpenAI clients, which ends in /v1.
func (s *Server) URL() string { return s.url }

// Requests returns the well-formed chat completion requests so far, in order of arrival. It leaves out checks of a whole
// request that the handler had no answer for: they are answered all the same, with all met ([Request.IsCheck]).
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Close ends all running requests and stops the server. It is idempotent.
func (s *Server) Close() {
	s.cancel()
	// Gives the handlers a moment. Unused open connections would block Shutdown for longer.
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
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fault(http.StatusNotFound, fmt.Sprintf("unknown request: %s %s", r.Method, r.URL.Path)).writeFault(w)
	})
	return mux
}

func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request) {
	req, err := parseRequest(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		Errorf("%v", err).writeFault(w)
		return
	}
	req.Key, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	req.SessionID = r.Header.Get(sessionHeader)
	seq := 0
	record := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, req)
		seq = len(s.requests)
	}
	if !req.IsCheck() {
		record()
	}
	reply := s.handler(r.Context(), req)
	said, _ := reply.JSON.(map[string]any)
	switch {
	case said != nil && req.AsksFacts() && said["request"] == nil && said["needs_plan"] == nil:
		reply = Facts(said["sub_tasks"] != nil) // of a handler that knows plans and verdicts only
	case !req.IsCheck():
	case reply.answersCheck():
		record()
	default:
		reply = allMet(req)
	}
	if !reply.wait(r.Context()) {
		return // the caller is gone
	}
	reply.write(w, req, seq)
}

// wait waits for Delay and Wait. It returns false if ctx ended first.
func (r Reply) wait(ctx context.Context) bool {
	select {
	case <-time.After(r.Delay):
	case <-ctx.Done():
	}
	if r.Wait != nil {
		select {
		case <-r.Wait:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// write sends the reply to req, the seq-th request.
func (r Reply) write(w http.ResponseWriter, req Request, seq int) {
	answer, err := r.answer(req, seq)
	switch {
	case r.Status != 0:
		r.writeFault(w)
	case err != nil:
		fault(http.StatusInternalServerError, err.Error()).writeFault(w)
	case req.stream:
		writeStream(w, answer, r.Cut)
	default:
		writeWhole(w, answer, r.Cut)
	}
}

// writeFault sends the Status, with OpenAI's error if there is no Body.
func (r Reply) writeFault(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	for name, value := range r.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(r.Status)
	_, _ = io.WriteString(w, cmp.Or(r.Body, errorBody(r.Status, "")))
}
