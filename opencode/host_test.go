package opencode_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/bouldermgr/manager/opencode"
)

// fakeServer does nothing but live and die.
type fakeServer struct {
	client  *opencode.Client
	done    chan struct{}
	die     func()
	stopped atomic.Bool
}

func newFakeServer(t testing.TB) *fakeServer {
	s := &fakeServer{client: opencode.IdleClient(t), done: make(chan struct{})}
	s.die = sync.OnceFunc(func() { close(s.done) })
	return s
}

func (s *fakeServer) stop(context.Context) {
	s.stopped.Store(true)
	s.die()
	s.client.Close()
}

// closed reports whether the client of the server was closed: its subscriptions then are born closed.
func (s *fakeServer) closed(t *testing.T) bool {
	t.Helper()
	sub := s.client.Subscribe(opencode.Filter{})
	defer sub.Close()
	select {
	case _, open := <-sub.C():
		return !open
	default:
		return false
	}
}

// launcher is a start function that a test steers.
type launcher struct {
	t      *testing.T
	starts atomic.Int32
	// result says how the start with the number, from 1, ends.
	result func(ctx context.Context, number int32) error

	mu      sync.Mutex
	servers []*fakeServer
}

func (l *launcher) start(ctx context.Context) (opencode.Connection, func(context.Context), error) {
	number := l.starts.Add(1)
	if l.result != nil {
		if err := l.result(ctx, number); err != nil {
			return opencode.Connection{}, nil, err
		}
	}
	s := newFakeServer(l.t)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = append(l.servers, s)
	return opencode.Connection{Client: s.client, Down: s.done}, s.stop, nil
}

// server gives the one with the number, from 0.
func (l *launcher) server(i int) *fakeServer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.servers[i]
}

// connections has n callers connect at once, and gives what they got when all have it.
func connections(ctx context.Context, h *opencode.Host, n int) ([]opencode.Connection, []error) {
	conns, errs := make([]opencode.Connection, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { conns[i], errs[i] = h.Connect(ctx) })
	}
	wg.Wait()
	return conns, errs
}

func TestHostSharesOneStart(t *testing.T) {
	t.Parallel()
	l := &launcher{t: t}
	h := opencode.NewHostOf(l.start)
	defer h.Stop(t.Context())
	h.Warm()
	conns, errs := connections(t.Context(), h, 8)
	h.Warm() // nothing to do
	if n := l.starts.Load(); n != 1 {
		t.Errorf("%d starts", n)
	}
	want := l.server(0)
	for i, conn := range conns {
		if errs[i] != nil || conn.Client != want.client || conn.Down != want.done {
			t.Errorf("caller %d: %+v, %v", i, conn, errs[i])
		}
	}
}

func TestHostTriesAFailedStartAgain(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is full")
	l := &launcher{t: t, result: func(_ context.Context, number int32) error {
		if number == 1 {
			return broken
		}
		return nil
	}}
	h := opencode.NewHostOf(l.start)
	defer h.Stop(t.Context())
	if _, err := h.Connect(t.Context()); !errors.Is(err, broken) {
		t.Errorf("the first start: %v", err)
	}
	if _, err := h.Connect(t.Context()); err != nil {
		t.Errorf("the second start: %v", err)
	}
}

func TestHostReplacesADeadServer(t *testing.T) {
	t.Parallel()
	l := &launcher{t: t}
	h := opencode.NewHostOf(l.start)
	defer h.Stop(t.Context())
	first, err := h.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sub := first.Client.Subscribe(opencode.Filter{})
	l.server(0).die()
	<-first.Down
	conns, errs := connections(t.Context(), h, 4)
	for i, conn := range conns {
		if errs[i] != nil || conn.Client != l.server(1).client {
			t.Errorf("caller %d: %+v, %v", i, conn, errs[i])
		}
	}
	if n := l.starts.Load(); n != 2 {
		t.Errorf("%d starts", n)
	}
	for range sub.C() { // ends only if the client of the dead server was closed
	}
	if l.server(1).closed(t) {
		t.Error("the client of the new server is closed")
	}
}

func TestHostStartGoesOnWithoutACallerWhoLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := &launcher{t: t, result: func(ctx context.Context, _ int32) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		h := opencode.NewHostOf(l.start)
		leaving, leave := context.WithCancelCause(t.Context())
		left, stayed := make(chan error, 1), make(chan error, 1)
		go func() { _, err := h.Connect(leaving); left <- err }()
		synctest.Wait() // the start is the leaving caller's
		go func() { _, err := h.Connect(t.Context()); stayed <- err }()
		synctest.Wait()
		cause := errors.New("had to go")
		leave(cause)
		if err := <-left; !errors.Is(err, cause) {
			t.Errorf("who left was told %v", err)
		}
		close(release)
		if err := <-stayed; err != nil || l.starts.Load() != 1 {
			t.Errorf("who stayed got %v after %d starts", err, l.starts.Load())
		}
		h.Stop(t.Context())
	})
}

func TestHostStartsNothingForACallerWhoHasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &launcher{t: t}
		h := opencode.NewHostOf(l.start)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := h.Connect(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Connect: %v", err)
		}
		synctest.Wait()
		if n := l.starts.Load(); n != 0 {
			t.Errorf("%d starts", n)
		}
		h.Stop(t.Context())
	})
}

// Whoever waits for a start is told that the host was stopped, not that a context of no concern to them was
// cancelled.
func TestHostStopDuringStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &launcher{t: t, result: func(ctx context.Context, _ int32) error { <-ctx.Done(); return ctx.Err() }}
		h := opencode.NewHostOf(l.start)
		waited := make(chan error, 1)
		go func() { _, err := h.Connect(t.Context()); waited <- err }()
		synctest.Wait()
		h.Stop(t.Context())
		if err := <-waited; !errors.Is(err, opencode.ErrClosed) || errors.Is(err, context.Canceled) {
			t.Errorf("who waited was told %v", err)
		}
	})
}

// Warm does not wait for the start, and a start that wins against Stop must not leave a server running.
func TestHostStopEndsAServerThatGotReadyMeanwhile(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	l := &launcher{t: t, result: func(ctx context.Context, _ int32) error { close(began); <-ctx.Done(); return nil }}
	h := opencode.NewHostOf(l.start)
	h.Warm()
	<-began
	h.Stop(t.Context())
	if !l.server(0).stopped.Load() {
		t.Error("the server still runs")
	}
}

func TestHostAfterStop(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*opencode.Host){
		"never used": func(*opencode.Host) {},
		"used":       func(h *opencode.Host) { _, _ = h.Connect(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &launcher{t: t}
			h := opencode.NewHostOf(l.start)
			before(h)
			started := l.starts.Load()
			h.Stop(t.Context())
			h.Stop(t.Context()) // nothing more happens
			h.Warm()
			if _, err := h.Connect(t.Context()); !errors.Is(err, opencode.ErrClosed) {
				t.Errorf("Connect: %v", err)
			}
			if n := l.starts.Load(); n != started {
				t.Errorf("%d starts after Stop", n-started)
			}
			for _, s := range l.servers {
				if !s.stopped.Load() {
					t.Error("a server still runs")
				}
			}
		})
	}
}

// Everything at once: at the end no server may be alive, and no client of a dead one open.
func TestHostUnderStress(t *testing.T) {
	t.Parallel()
	l := &launcher{t: t, result: func(ctx context.Context, number int32) error {
		if number%3 == 0 {
			return errors.New("out of luck")
		}
		return ctx.Err()
	}}
	h := opencode.NewHostOf(l.start)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				conn, err := h.Connect(t.Context())
				if err != nil {
					continue
				}
				l.mu.Lock()
				mine := slices.IndexFunc(l.servers, func(s *fakeServer) bool { return s.client == conn.Client })
				victim := l.servers[mine]
				l.mu.Unlock()
				if i%2 == 0 {
					victim.die()
				}
			}
			if i == 0 {
				h.Stop(context.Background())
			}
		})
	}
	wg.Wait()
	for i, s := range l.servers {
		select {
		case <-s.done:
		default:
			t.Errorf("server %d of %d is alive", i, len(l.servers))
		}
		if !s.closed(t) {
			t.Errorf("the client of server %d of %d is open", i, len(l.servers))
		}
	}
}

func TestAttachedHost(t *testing.T) {
	t.Parallel()
	client := opencode.IdleClient(t)
	defer client.Close()
	h := opencode.AttachedHost(client)
	h.Warm()
	h.Stop(t.Context())
	conn, err := h.Connect(t.Context())
	if err != nil || conn.Client != client || conn.Down != nil {
		t.Errorf("%+v, %v", conn, err)
	}
}
