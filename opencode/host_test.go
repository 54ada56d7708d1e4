package opencode

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// launcher starts fake servers that only run until stopped.
type launcher struct {
	// result returns the outcome of start 1, 2, …; nil means success.
	result func(ctx context.Context, number int) error

	used    atomic.Int64 // memory that each server reports, in bytes
	mu      sync.Mutex
	starts  int
	servers []Connection // their stop also simulates a crash
}

func (l *launcher) start(ctx context.Context) (Connection, error) {
	l.mu.Lock()
	l.starts++
	number := l.starts
	l.mu.Unlock()
	if l.result != nil {
		if err := l.result(ctx, number); err != nil {
			return Connection{}, err
		}
	}
	c, err := newClient("http://127.0.0.1:1", AttachConfig{})
	down := make(chan struct{})
	die := sync.OnceFunc(func() { close(down) })
	s := Connection{Client: c, Down: down, stop: func(context.Context) { die() }, memory: func() int64 { return l.used.Load() }}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = append(l.servers, s)
	return s, err
}

func connect(ctx context.Context, h *Host) <-chan error {
	got := make(chan error, 1)
	go func() { _, err := h.Connect(ctx); got <- err }()
	return got
}

func isDown(s Connection) bool {
	select {
	case <-s.Down:
		return true
	default:
		return false
	}
}

// A failed start is retried, and a running server shared. A dead server is replaced and its client closed.
func TestHostStarts(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is full")
	l := &launcher{result: func(_ context.Context, number int) error {
		if number == 1 {
			return broken
		}
		return nil
	}}
	h := newHost(l.start)
	defer h.Stop(t.Context())
	if _, err := h.Connect(t.Context()); !errors.Is(err, broken) {
		t.Errorf("the first start: %v", err)
	}
	for i := range 2 {
		h.Warm()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if conn, err := h.Connect(t.Context()); err != nil || conn.Client != l.servers[i].Client {
					t.Errorf("server %d: %+v, %v", i, conn, err)
				}
			})
		}
		all.Wait()
		h.Warm() // no effect: it runs
		l.servers[i].stop(t.Context())
	}
	if first := l.servers[0].Client; l.starts != 3 || first.events.ctx.Err() == nil {
		t.Errorf("%d starts, the client of the dead server: %v", l.starts, first.events.ctx.Err())
	}
}

func TestHostStartGoesOnWithoutACallerWhoLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := &launcher{result: func(ctx context.Context, _ int) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		h := newHost(l.start)
		leaving, leave := context.WithCancelCause(t.Context())
		left := connect(leaving, h)
		synctest.Wait() // the leaving caller's start is under way
		stayed := connect(t.Context(), h)
		synctest.Wait()
		cause := errors.New("had to go")
		leave(cause)
		if err := <-left; !errors.Is(err, cause) {
			t.Errorf("who left was told %v", err)
		}
		close(release)
		if err := <-stayed; err != nil || l.starts != 1 {
			t.Errorf("who stayed got %v after %d starts", err, l.starts)
		}
		l.servers[0].stop(t.Context())
		if err := <-connect(leaving, h); !errors.Is(err, cause) {
			t.Errorf("who comes after having left: %v", err)
		}
		if synctest.Wait(); l.starts != 1 {
			t.Error("a server was started for nobody")
		}
		h.Stop(t.Context())
	})
}

// After Stop nothing runs, even if a start finishes meanwhile. A waiting Connect gets ErrClosed, not context.Canceled.
func TestHostStop(t *testing.T) {
	t.Parallel()
	ended := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	ready := func(ctx context.Context, _ int) error { <-ctx.Done(); return nil }
	for name, test := range map[string]struct {
		result  func(context.Context, int) error
		starts  int
		waiting error
	}{
		"never used":        {},
		"used":              {starts: 1},
		"during a start":    {ended, 1, ErrClosed},
		"ready in spite of": {ready, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &launcher{result: test.result}
				h := newHost(l.start)
				if test.starts > 0 {
					waits := connect(t.Context(), h)
					defer func() {
						if err := <-waits; !errors.Is(err, test.waiting) || errors.Is(err, context.Canceled) {
							t.Errorf("who waited was told %v", err)
						}
					}()
				}
				synctest.Wait()
				h.Stop(t.Context())
				h.Stop(t.Context()) // no effect
				h.Warm()
				if _, err := h.Connect(t.Context()); !errors.Is(err, ErrClosed) {
					t.Errorf("Connect: %v", err)
				}
				if l.starts != test.starts || slices.ContainsFunc(l.servers, func(s Connection) bool { return !isDown(s) }) {
					t.Errorf("%d starts; servers: %+v", l.starts, l.servers)
				}
			})
		})
	}
}

// Under concurrent use, crashes and Stop, no server stays alive and no replaced client stays open.
func TestHostUnderStress(t *testing.T) {
	t.Parallel()
	l := &launcher{result: func(ctx context.Context, number int) error {
		if number%3 == 0 {
			return errors.New("out of luck")
		}
		return ctx.Err()
	}}
	h := newHost(l.start)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				conn, err := h.Connect(t.Context())
				if err != nil {
					continue
				}
				l.mu.Lock()
				mine := slices.IndexFunc(l.servers, func(s Connection) bool { return s.Client == conn.Client })
				victim := l.servers[mine]
				l.mu.Unlock()
				if i%2 == 0 {
					victim.stop(t.Context())
				}
			}
			if i == 0 {
				h.Stop(context.Background())
			}
		})
	}
	wg.Wait()
	for i, s := range l.servers {
		if last := i == len(l.servers)-1; !isDown(s) || !last && s.Client.events.ctx.Err() == nil {
			t.Errorf("server %d of %d is alive, or its client open", i, len(l.servers))
		}
	}
}

func TestAttachedHost(t *testing.T) {
	t.Parallel()
	client, err := newClient("http://127.0.0.1:1", AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	h := AttachedHost(client)
	h.Warm()
	h.Stop(t.Context())
	conn, err := h.Connect(t.Context())
	if err != nil || conn.Client != client || conn.Down != nil {
		t.Errorf("%+v, %v", conn, err)
	}
}

// A server above its memory bound stops when its last use ends. Later uses get a new server.
func TestHostReplacesBetweenUses(t *testing.T) {
	t.Parallel()
	l := &launcher{}
	h := newHost(l.start)
	h.Memory = 100
	use := func() (Connection, func()) {
		t.Helper()
		conn, done, err := h.Use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return conn, done
	}
	l.used.Store(100)
	first, endFirst := use()
	second, endSecond := use()
	if first.Client != second.Client {
		t.Error("a server within its bound was replaced")
	}
	l.used.Store(101)
	if conn, err := h.Connect(t.Context()); err != nil || conn.Client != first.Client {
		t.Errorf("who only looks has it replaced: %v", err)
	}
	third, endThird := use()
	if third.Client == first.Client || isDown(first) {
		t.Errorf("the same server: %v, ended under its users: %v", third.Client == first.Client, isDown(first))
	}
	endFirst()
	endFirst()
	if isDown(first) {
		t.Error("it ended under the second of its users")
	}
	if endSecond(); !isDown(first) || isDown(third) {
		t.Errorf("without users the first is down: %v, and the other: %v", isDown(first), isDown(third))
	}
	endThird()
	fourth, _ := use() // an unused server stops before another starts
	if !isDown(third) || l.starts != 3 {
		t.Errorf("the unused server is down: %v, after %d starts", isDown(third), l.starts)
	}
	fifth, _ := use()
	h.Stop(t.Context())
	if !isDown(fourth) || !isDown(fifth) {
		t.Error("a server outlives its host")
	}
}
