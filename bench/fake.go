package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/opencode"
)

// runFake runs a fake OpenCode as a process that prints its address: fake EVENTS TURNS. A turn ends once it has sent
// EVENTS bytes and TURNS turns are ready to end: the worst moment for a client. A real OpenCode would take hours.
func runFake(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("fake: want the bytes of events of a turn, and how many turns end together")
	}
	events, eventsErr := strconv.Atoi(args[0])
	together, togetherErr := strconv.Atoi(args[1])
	if err := errors.Join(eventsErr, togetherErr); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	f := &fakeServer{
		ctx: ctx, events: events, together: together, ready: make(chan struct{}), sessions: map[string]*fakeSession{},
	}
	server := &http.Server{Handler: f.routes(), ReadHeaderTimeout: patience}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Println("fake server listening on http://" + listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// fakeServer keeps sessions in memory. Its events look like those of OpenCode 1.18.33, see package opencode.
type fakeServer struct {
	ctx              context.Context
	events, together int

	mu       sync.Mutex // also held while writing to streams: a slow client slows the turns down
	streams  []*fakeStream
	sessions map[string]*fakeSession
	ids      int
	waiting  int           // turns ready to end
	ready    chan struct{} // closed when enough turns are
}

// gather blocks until enough turns are ready to end.
func (f *fakeServer) gather() {
	f.mu.Lock()
	ready := f.ready
	if f.waiting++; f.waiting == f.together {
		close(ready)
		f.waiting, f.ready = 0, make(chan struct{})
	}
	f.mu.Unlock()
	select {
	case <-ready:
	case <-f.ctx.Done():
	}
}

type fakeStream struct {
	w    http.ResponseWriter
	gone bool
}

type fakeSession struct {
	info     map[string]any
	messages [][]byte
	busy     bool
}

func (f *fakeServer) routes() http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, value any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, value) })
	}
	answer("GET /global/health", map[string]any{"healthy": true, "version": opencode.TestedVersion})
	answer("GET /config", map[string]any{"model": agentModel})
	answer("GET /agent", []any{map[string]any{"name": "build", "mode": "primary"}})
	answer("GET /session/{id}/todo", []any{})
	answer("GET /session/{id}/children", []any{})
	answer("GET /permission", []any{})
	answer("GET /question", []any{})
	answer("POST /tui/show-toast", true)
	provider, model, _ := strings.Cut(agentModel, "/")
	answer("GET /config/providers", map[string]any{"default": map[string]any{}, "providers": []any{map[string]any{
		"id": provider, "name": provider, "models": map[string]any{model: map[string]any{
			"id": model, "providerID": provider, "name": model, "status": "active",
			"cost": map[string]any{"input": 1, "output": 2}, "limit": map[string]any{"context": 200000, "output": 8000},
		}},
	}}})
	mux.HandleFunc("GET /global/event", f.stream)
	mux.HandleFunc("POST /session", f.create)
	mux.HandleFunc("GET /session", f.all)
	mux.HandleFunc("GET /session/{id}", f.ofSession((*fakeSession).get))
	mux.HandleFunc("GET /session/status", f.statuses)
	mux.HandleFunc("GET /session/{id}/message", f.ofSession(f.list))
	mux.HandleFunc("POST /session/{id}/prompt_async", f.ofSession(f.prompt))
	return mux
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(value)) // the client may have disconnected
}

// encode does not escape < and >, like JavaScript.
func encode(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err) // maps of strings and numbers always marshal
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func (f *fakeServer) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	s := &fakeStream{w: w}
	f.mu.Lock()
	s.write(event("", "server.connected", map[string]any{}))
	f.streams = append(f.streams, s)
	f.mu.Unlock()
	heartbeat := time.NewTicker(10 * time.Second)
	defer heartbeat.Stop()
	for {
		select {
		case <-heartbeat.C:
			f.send(event("", "server.heartbeat", map[string]any{}))
		case <-r.Context().Done():
			f.mu.Lock()
			defer f.mu.Unlock()
			f.streams = slices.DeleteFunc(f.streams, func(other *fakeStream) bool { return other == s })
			return
		}
	}
}

func (s *fakeStream) write(data []byte) {
	if s.gone {
		return
	}
	if _, err := s.w.Write(data); err != nil {
		s.gone = true
		return
	}
	s.gone = http.NewResponseController(s.w).Flush() != nil
}

func (f *fakeServer) send(data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.streams {
		s.write(data)
	}
}

func (f *fakeServer) create(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	id := f.id("ses")
	s := &fakeSession{info: map[string]any{
		"id": id, "title": body["title"], "metadata": body["metadata"], "directory": r.URL.Query().Get("directory"),
		"version": opencode.TestedVersion, "time": map[string]any{"created": now(), "updated": now()},
	}}
	f.sessions[id] = s
	f.mu.Unlock()
	writeJSON(w, s.info)
}

func (f *fakeServer) all(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	infos := []any{}
	for _, s := range f.sessions {
		infos = append(infos, s.info)
	}
	writeJSON(w, infos)
}

// ofSession wraps a handler that needs the session, or answers 404.
func (f *fakeServer) ofSession(handle func(*fakeSession, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		s := f.sessions[r.PathValue("id")]
		f.mu.Unlock()
		if s == nil {
			http.Error(w, `{"name":"NotFoundError"}`, http.StatusNotFound)
			return
		}
		handle(s, w, r)
	}
}

func (s *fakeSession) get(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.info) }

// id returns the next id, in ascending order. The caller holds the lock.
func (f *fakeServer) id(kind string) string {
	f.ids++
	return fmt.Sprintf("%s_%026d", kind, f.ids)
}

func (f *fakeServer) statuses(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	busy := map[string]any{}
	for id, s := range f.sessions {
		if s.busy {
			busy[id] = map[string]any{"type": "busy"}
		}
	}
	writeJSON(w, busy)
}

// list answers with the newest messages, in pages if asked for, as OpenCode does.
func (f *fakeServer) list(s *fakeSession, w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	all := s.messages
	f.mu.Unlock()
	end, start := len(all), 0
	if before, err := strconv.Atoi(r.URL.Query().Get("before")); err == nil {
		end = before
	}
	if limit, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil {
		start = max(0, end-limit)
	}
	if start > 0 {
		w.Header().Set("X-Next-Cursor", strconv.Itoa(start))
	}
	w.Header().Set("Content-Type", "application/json")
	body := slices.Concat([]byte("["), bytes.Join(all[start:end], []byte(",")), []byte("]"))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may have disconnected
}

func (f *fakeServer) prompt(s *fakeSession, w http.ResponseWriter, r *http.Request) {
	var body struct {
		MessageID string           `json:"messageID"`
		Parts     []map[string]any `json:"parts"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := r.PathValue("id")
	for i, p := range body.Parts {
		p["id"], p["sessionID"], p["messageID"] = fmt.Sprintf("prt_%d", i), id, body.MessageID
	}
	info := map[string]any{"id": body.MessageID, "sessionID": id, "role": "user", "time": map[string]any{"created": now()}}
	f.mu.Lock()
	t := &fakeTurn{fakeServer: f, session: s, id: id, prompt: body.MessageID, dir: fmt.Sprint(s.info["directory"])}
	s.messages = append(s.messages, encode(map[string]any{"info": info, "parts": body.Parts}))
	s.busy = true
	f.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
	go t.run() // ends with the process
}

func now() int64 { return time.Now().UnixMilli() }

// event returns a server-sent event of /global/event, with its keys in OpenCode's order.
func event(dir, eventType string, properties any) []byte {
	const format = `{"id":%q,"type":%q,"properties":%s}`
	return enveloped(dir, fmt.Appendf(nil, format, fakeEvent, eventType, encode(properties)))
}

// repeated returns the copy that OpenCode sends after nearly every event.
func repeated(dir, eventType string, properties any) []byte {
	return enveloped(dir, fmt.Appendf(nil, `{"type":"sync","syncEvent":{"type":%q,"data":%s},"id":%q}`,
		eventType+".1", encode(properties), fakeEvent))
}

func enveloped(dir string, payload []byte) []byte {
	return fmt.Appendf(nil, "data: {\"directory\":%q,\"project\":%q,\"payload\":%s}\n\n", dir, fakeProject, payload)
}

// Ids as long as real ones.
const (
	fakeEvent   = "evt_1fe046a53001a20xDqajsUPH07"
	fakeProject = "020f09b88cadfa82a47fa534b22347c09178194d"
)
