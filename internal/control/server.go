package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/bouldermgr/manager/internal/unixsock"
)

const (
	// maxWait bounds a request that waits for events; the client asks again.
	maxWait = time.Minute
	// answerTimeout bounds the reading of a request and the writing of an answer.
	answerTimeout = 10 * time.Second
	// orderPatience is how long an order may take; less than what the client waits, so that it gets an answer.
	orderPatience = 20 * time.Second
	// closeTimeout is how long Close lets requests end that are being answered.
	closeTimeout = 2 * time.Second
)

// Server serves a [Source] on a socket. Its methods may be called from any goroutine.
type Server struct {
	path   string
	file   fs.FileInfo // of the socket
	source Source
	log    *slog.Logger

	mu      sync.Mutex
	holder  Holder
	steerer Steerer // nil until there is one
	closing bool    // no further order is taken

	orders  sync.WaitGroup          // those that are being carried out
	abandon context.CancelCauseFunc // ends their patience
	patient context.Context         // theirs

	changes broadcast
	http    http.Server
	end     context.CancelFunc // ends requests that wait
	serving sync.WaitGroup
	closed  func() error
}

// Serve puts a socket at path and answers on it until [Server.Close]. The directory must exist. A socket that a dead
// process left is replaced; while a living one serves it, the error wraps [ErrServed]. Requests that wait end when
// ctx does. logger may be nil.
func Serve(ctx context.Context, path string, holder Holder, source Source, logger *slog.Logger) (*Server, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	l, file, err := unixsock.Listen(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	ctx, end := context.WithCancel(ctx)
	s := &Server{path: path, file: file, source: source, log: logger, holder: holder, end: end}
	s.patient, s.abandon = context.WithCancelCause(context.WithoutCancel(ctx))
	s.closed = sync.OnceValue(s.close)
	s.http = http.Server{
		Handler:           s.routes(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: answerTimeout, // no ReadTimeout: net/http ends the context of a handler that is still at work then
		WriteTimeout:      maxWait + answerTimeout,
		IdleTimeout:       maxWait,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	s.serving.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("control socket failed; other commands cannot look at this run", "path", path, "error", err)
		}
	})
	return s, nil
}

// SetBoulder says what the holder is running, once it is known.
func (s *Server) SetBoulder(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder.BoulderID = id
}

// SetRunning says what the holder runs for others.
func (s *Server) SetRunning(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder.Running = ids
}

// SetSteerer says who carries out orders from now on. Until then they are refused with [ErrNotReady].
func (s *Server) SetSteerer(steerer Steerer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steerer = steerer
}

// Notify wakes requests that wait for events. It is called after each commit, and does not block.
func (s *Server) Notify() { s.changes.notify() }

// Close removes the socket, ends requests that wait, lets the others end for two seconds, and returns when nothing of
// the server runs any more: no order touches the state after it. It may be called again.
func (s *Server) Close() error { return s.closed() }

func (s *Server) close() error {
	unlinkErr := unixsock.Unlink(s.path, s.file)
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.serving.Wait()
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.abandon(errClosing)
	s.orders.Wait()
	if err := errors.Join(unlinkErr, err); err != nil {
		return fmt.Errorf("close control socket %s: %w", s.path, err)
	}
	return nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, answer func(r *http.Request) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, answer) })
	}
	handle(pathHolder, func(*http.Request) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.holder, nil
	})
	handle(pathBoulders, func(r *http.Request) (any, error) { return s.source.Listing(r.Context()) })
	handle(pathExport, func(r *http.Request) (any, error) { return s.source.Export(r.Context(), r.FormValue("id")) })
	handle(pathBoulder, func(r *http.Request) (any, error) { return s.source.Get(r.Context(), r.FormValue("id")) })
	handle(pathTurns, func(r *http.Request) (any, error) {
		return s.source.Turns(r.Context(), r.FormValue("id"), r.FormValue("sub_task"))
	})
	handle(pathEvents, s.events)
	handle(pathResolve, func(r *http.Request) (any, error) { return s.source.Resolve(r.Context(), r.FormValue("ref")) })
	mux.HandleFunc("POST "+pathOrder, s.order)
	mux.HandleFunc("POST "+pathSubmit, s.submit)
	handle(pathUnfinished, func(r *http.Request) (any, error) { return s.source.NewestUnfinished(r.Context()) })
	return mux
}

// answer writes what a request gets. An error of the source is an answer as well.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, ask func(*http.Request) (any, error)) {
	result, err := ask(r)
	body, err := json.Marshal(answer[any]{result, encodeError(err)})
	if err != nil {
		s.log.Error("control: answer cannot be written", "path", r.URL.Path, "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		s.log.Debug("control: the other side left", "path", r.URL.Path, "error", err)
	}
}

// events answers at once if there are events, and otherwise waits for as long as the request allows.
func (s *Server) events(r *http.Request) (any, error) {
	q, err := parseEventsQuery(r)
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(min(q.wait, maxWait))
	defer timeout.Stop()
	for {
		changed := s.changes.wait() // before looking, so that nothing is missed in between
		events, err := s.source.Events(r.Context(), q.id, q.after, q.limit)
		if len(events) > 0 || err != nil || q.wait <= 0 {
			return events, err
		}
		select {
		case <-changed:
		case <-timeout.C:
			return events, nil
		case <-r.Context().Done(): // the client left, or the server closes
			return events, nil
		}
	}
}

type eventsQuery struct {
	id    string
	after uint64
	limit int
	wait  time.Duration
}

// parseEventsQuery reads the parameters, all of which a client sends.
func parseEventsQuery(r *http.Request) (eventsQuery, error) {
	after, afterErr := strconv.ParseUint(r.FormValue("after"), 10, 64)
	limit, limitErr := strconv.Atoi(r.FormValue("limit"))
	wait, waitErr := time.ParseDuration(r.FormValue("wait"))
	return eventsQuery{r.FormValue("id"), after, limit, wait}, errors.Join(afterErr, limitErr, waitErr)
}
