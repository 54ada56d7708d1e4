package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

// fakeSteerer records orders. If gate is set, each order sends on arrived, then waits for the gate.
type fakeSteerer struct {
	err     error
	arrived chan struct{}
	gate    chan struct{}
	done    []string // of calls that have returned
}

func (f *fakeSteerer) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	if f.gate != nil {
		f.arrived <- struct{}{}
		select {
		case <-f.gate:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if f.err != nil {
		return f.err
	}
	f.done = append(f.done, fmt.Sprintf("%s: %+v", boulderID, o))
	return nil
}

// An order arrives unchanged, whatever it contains.
func TestOrder(t *testing.T) {
	t.Parallel()
	s, c := serve(t, &fake{})
	steerer := &fakeSteerer{}
	s.SetSteerer(steerer)
	const id = "01 a/b?&%"
	var want []string
	for _, o := range []boulder.Order{
		{Do: boulder.OrderPause, Now: true},
		{Do: boulder.OrderSkip, SubTaskID: "../x"},
		{Do: boulder.OrderNote, Text: "<b>\"do\"</b> & \u2028 主题\nnext"},
		{Do: boulder.OrderNote, Text: strings.Repeat("\u0001", 4_000)}, // the longest possible body
	} {
		want = append(want, fmt.Sprintf("%s: %+v", id, o))
		if err := c.Order(t.Context(), id, o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if diff := cmp.Diff(want, steerer.done); diff != "" {
		t.Errorf("given (-) and carried out (+):\n%s", diff)
	}
}

// The client can tell apart all reasons why an order was not carried out.
func TestOrderIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	s, c := serve(t, &fake{})
	pause := boulder.Order{Do: boulder.OrderPause}
	kinds := []error{
		boulder.ErrRefused, boulder.ErrNotFound, boulder.ErrFinished, ErrNotReady, ErrNotServed, ErrUnanswered,
	}
	expect := func(name string, err, kind error, text string) {
		t.Helper()
		for _, k := range kinds {
			if errors.Is(err, k) != errors.Is(kind, k) {
				t.Errorf("%s: %v is %q: %v", name, err, k, errors.Is(err, k))
			}
		}
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	expect("too early", c.Order(t.Context(), "id", pause), ErrNotReady, "try again")
	for _, test := range []struct {
		err, kind error
		text      string
	}{
		{fmt.Errorf("%w: it is paused already", boulder.ErrRefused), boulder.ErrRefused, "it is paused already"},
		{fmt.Errorf("%w: id", boulder.ErrNotFound), boulder.ErrNotFound, "id"},
		{fmt.Errorf("boulder id is failed: %w", boulder.ErrFinished), boulder.ErrFinished, "boulder id is failed"},
		{errors.New("the disk is full"), nil, "the disk is full"},
	} {
		s.SetSteerer(&fakeSteerer{err: test.err})
		expect(test.text, c.Order(t.Context(), "id", pause), test.kind, test.text)
	}
	steerer := &fakeSteerer{}
	s.SetSteerer(steerer)
	expect("means nothing", c.Order(t.Context(), "id", boulder.Order{Do: "sing"}), boulder.ErrRefused, "sing")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	expect("nobody is there", c.Order(t.Context(), "id", pause), ErrNotServed, c.path)
	if len(steerer.done) > 0 {
		t.Errorf("carried out: %q", steerer.done)
	}
}

// Anything that is not exactly an order does nothing.
func TestOrdersAreReadStrictly(t *testing.T) {
	t.Parallel()
	s, c := serve(t, &fake{})
	steerer := &fakeSteerer{}
	s.SetSteerer(steerer)
	const order = `{"version":5,"do":"order","id":"x","order":{"do":"pause"}}`
	for _, test := range []struct {
		request string
		taken   bool
	}{
		{order, true},
		{"", false},
		{order[:len(order)-1], false},
		{order + " {}", false},
		{strings.Replace(order, "5", "3", 1), false},
		{strings.Replace(order, `"order",`, `"sing",`, 1), false},
		{strings.Replace(order, `"order",`, `"submit",`, 1), false},
		{strings.Replace(order, `}}`, `,"later":true}}`, 1), false},
		{strings.Replace(order, `}}`, `},"force":true}`, 1), false},
		{`{"version":5,"do":"order","id":"x"}`, false},
		{`{"version":5,"do":"submit","id":"x"}`, false},
		{`{"version":5,"do":"order","id":"` + strings.Repeat("x", 8<<20) + `"}`, false},
	} {
		conn, err := net.Dial("unix", c.path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, test.request) // a request that is too long is not read to its end
		_ = conn.(*net.UnixConn).CloseWrite()
		text, _ := io.ReadAll(conn)
		conn.Close()
		if refused := strings.Contains(string(text), "another version of manager"); refused == test.taken && len(text) > 0 {
			t.Errorf("%.80s: %s", test.request, text)
		}
	}
	if len(steerer.done) != 1 {
		t.Errorf("carried out: %q", steerer.done)
	}
}

// held is an order that the steerer has received but not carried out.
func held(t *testing.T) (s *Server, steerer *fakeSteerer, leave context.CancelCauseFunc, result <-chan error) {
	t.Helper()
	s, c := serve(t, &fake{})
	steerer = &fakeSteerer{arrived: make(chan struct{}), gate: make(chan struct{})}
	s.SetSteerer(steerer)
	ctx, leave := context.WithCancelCause(t.Context())
	got := make(chan error, 1)
	go func() { got <- c.Order(ctx, "id", boulder.Order{Do: boulder.OrderPause}) }()
	<-steerer.arrived
	return s, steerer, leave, got
}

// An order is carried out even if its client has gone.
func TestOrderOutlivesItsClient(t *testing.T) {
	t.Parallel()
	s, steerer, leave, result := held(t)
	gone := errors.New("gone")
	leave(gone)
	if err := <-result; !errors.Is(err, gone) || !errors.Is(err, ErrUnanswered) {
		t.Errorf("the client got %v", err)
	}
	close(steerer.gate)
	if err := s.Close(); err != nil || len(steerer.done) != 1 { // Close waits for the order
		t.Errorf("carried out: %q, %v", steerer.done, err)
	}
}

// Close waits for an order only for the grace period. The client learns that the outcome is unknown.
func TestCloseEndsOrders(t *testing.T) {
	t.Parallel()
	s, steerer, leave, result := held(t)
	defer leave(nil)
	s.Grace = time.Millisecond
	if err := s.Close(); err != nil || len(steerer.done) > 0 {
		t.Errorf("carried out after all: %q, %v", steerer.done, err)
	}
	if err := <-result; !errors.Is(err, ErrUnanswered) {
		t.Errorf("%v", err)
	}
}

// The outcome is unknown if the holder dies or answers nonsense, but not if it does not know the request.
func TestOrderToForeignServers(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]struct {
		unanswered bool
		says       string
	}{
		"":                            {true, ErrNotServed.Error()},
		`{"result":`:                  {true, ErrNotServed.Error()},
		"hello":                       {true, "invalid character"},
		`{"error":{"message":"old"}}`: {false, "old"},
		`{"result":null}`:             {false, ""},
	} {
		path := socketPath(t)
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				_, err = io.ReadAll(conn)
				_, writeErr := io.WriteString(conn, answer)
				err = errors.Join(err, writeErr, conn.Close())
			}
			served <- err
		}()
		c := &Client{path, callTimeout, followWait}
		err = c.Order(t.Context(), "id", boulder.Order{Do: boulder.OrderPause})
		if errors.Is(err, ErrUnanswered) != want.unanswered || !strings.Contains(fmt.Sprint(err), want.says) {
			t.Errorf("%q: %v", answer, err)
		}
		l.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
