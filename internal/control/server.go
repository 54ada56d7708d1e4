package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/unixsock"
)

const (
	// maxWait bounds a request that waits for events; the client asks again.
	maxWait = time.Minute
	// answerTimeout bounds the reading of a request and the writing of an answer.
	answerTimeout = 10 * time.Second
	// orderPatience is how long an order may take; less than what the client waits, so that it gets an answer.
	orderPatience = 20 * time.Second
)

// Server serves a [Source] on a socket. Its methods may be called from any goroutine.
type Server struct {
	path   string
	file   fs.FileInfo // of the socket
	source Source
	log    *slog.Logger

	mu      sync.Mutex
	holder  Holder
	steerer Steerer       // nil until there is one
	closing bool          // no further order is taken
	news    chan struct{} // closed when events have come, and made anew
	grace   time.Duration // how long Close lets requests end that are being answered

	orders  sync.WaitGroup          // those that are being carried out
	abandon context.CancelCauseFunc // ends their patience
	patient context.Context         // theirs

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
	s := &Server{
		path: path, file: file, source: source, log: logger, holder: holder, end: end,
		news: make(chan struct{}), grace: 2 * time.Second,
	}
	s.patient, s.abandon = context.WithCancelCause(context.WithoutCancel(ctx))
	s.closed = sync.OnceValue(s.close)
	mux := http.NewServeMux()
	mux.Handle("POST "+prefix+"{name}", s)
	s.http = http.Server{
		Handler:           mux,
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
func (s *Server) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.news)
	s.news = make(chan struct{})
}

// Close removes the socket, ends requests that wait, lets the others end for two seconds, and returns when nothing of
// the server runs any more: no order touches the state after it. It may be called again.
func (s *Server) Close() error { return s.closed() }

func (s *Server) close() error {
	unlinkErr := unixsock.Unlink(s.path, s.file)
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
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

// ServeHTTP answers a request. What is not exactly one is answered with 400, and nothing is done. An error of the source is
// an answer as well.
func (s *Server) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	name := hr.PathValue("name")
	r, err := readRequest(w, hr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	result, err := s.answer(hr.Context(), name, r)
	switch {
	case errors.Is(err, errUnknown):
		http.NotFound(w, hr)
		return
	case errors.Is(err, errEmpty):
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, err := json.Marshal(response[any]{result, onWire(err)})
	if err != nil {
		s.log.Error("control: answer cannot be written", "request", name, "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		s.log.Debug("control: the other side left", "request", name, "error", err)
	}
}

var (
	errUnknown = errors.New("there is no such request")
	errEmpty   = errors.New("this cannot be carried out: it does not say what to do")
)

func (s *Server) answer(ctx context.Context, name string, r request) (any, error) {
	switch name {
	case "holder":
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.holder, nil
	case "listing":
		return s.source.Listing(ctx)
	case "get":
		return s.source.Get(ctx, r.ID)
	case "turns":
		return s.source.Turns(ctx, r.ID, r.SubTask)
	case "events":
		return s.events(ctx, r)
	case "export":
		return s.source.Export(ctx, r.ID)
	case "resolve":
		return s.source.Resolve(ctx, r.ID)
	case "unfinished":
		return s.source.NewestUnfinished(ctx)
	case "order", "submit":
		return s.carryOut(r)
	}
	return nil, errUnknown
}

// readRequest reads strictly: a field that this version does not know could be what the request is about.
func readRequest(w http.ResponseWriter, hr *http.Request) (r request, err error) {
	conn := http.NewResponseController(w)
	if err := conn.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return r, err
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, hr.Body, maxRequest))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, fmt.Errorf("this cannot be read: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("this cannot be read: there is more behind it")
	}
	return r, conn.SetReadDeadline(time.Time{})
}

// events answers at once if there are events, and otherwise waits for as long as the request allows.
func (s *Server) events(ctx context.Context, r request) ([]boulder.Event, error) {
	timeout := time.NewTimer(min(r.Wait, maxWait))
	defer timeout.Stop()
	for {
		s.mu.Lock()
		news := s.news // before looking, so that nothing is missed in between
		s.mu.Unlock()
		events, err := s.source.Events(ctx, r.ID, r.After, r.Limit)
		if len(events) > 0 || err != nil || r.Wait <= 0 {
			return events, err
		}
		select {
		case <-news:
		case <-timeout.C:
			return events, nil
		case <-ctx.Done(): // the client left, or the server closes
			return events, nil
		}
	}
}

// carryOut hands a request on. Once it was received whole it is carried out, even if the client goes away before the
// answer: closing a terminal at that moment takes nothing back. Only a server that closes meanwhile may end it.
func (s *Server) carryOut(r request) (result any, err error) {
	s.mu.Lock()
	steerer := s.steerer
	if steerer == nil || s.closing {
		s.mu.Unlock()
		return nil, ErrNotReady
	}
	s.orders.Add(1)
	s.mu.Unlock()
	defer s.orders.Done()
	ctx, cancel := context.WithTimeoutCause(s.patient, orderPatience, errNotHeard)
	defer cancel()
	submitter, takes := steerer.(Submitter)
	switch {
	case r.Order != nil:
		if err := r.Order.Validate(); err != nil {
			return nil, fmt.Errorf("%w: %w", boulder.ErrRefused, err)
		}
		err = steerer.Order(ctx, r.ID, *r.Order)
	case r.Submission == nil:
		return nil, errEmpty
	case !takes:
		return nil, ErrNoSubmitter
	default:
		result, err = submitter.Submit(ctx, *r.Submission)
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil, fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return result, err
}

var (
	errClosing  = errors.New("the process that holds the state has ended")
	errNotHeard = errors.New("the process that holds the state is very busy or hangs")
)
