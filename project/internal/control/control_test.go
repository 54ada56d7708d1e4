package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// A read through the socket returns what the database does, errors included.
func TestClientSeesWhatTheDatabaseHas(t *testing.T) {
	t.Parallel()
	db, err := store.Open(filepath.Join(t.TempDir(), store.FileName), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	fill(t, db)
	_, client := serve(t, db)
	for name, ask := range map[string]func(Source) (any, error){
		"list":        func(s Source) (any, error) { return s.Listing(t.Context()) },
		"get":         func(s Source) (any, error) { return s.Get(t.Context(), "01 a/b?&%") },
		"get nothing": func(s Source) (any, error) { return s.Get(t.Context(), "none") },
		"events":      func(s Source) (any, error) { return s.Events(t.Context(), "01 a/b?&%", 2, 2) },
		"all events": func(s Source) (any, error) {
			events, err := s.Events(t.Context(), "01 a/b?&%", 0, 0)
			return store.NewExport(events), err // with what only the log has
		},
		"no events": func(s Source) (any, error) { return s.Events(t.Context(), "01 a/b?&%", 1<<64-1, 0) },
	} {
		want, wantErr := ask(db)
		got, gotErr := ask(client)
		if diff := cmp.Diff(text(t, want), text(t, got)); diff != "" {
			t.Errorf("%s: database (-) and client (+):\n%s", name, diff)
		}
		if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) ||
			errors.Is(wantErr, boulder.ErrNotFound) != errors.Is(gotErr, boulder.ErrNotFound) {
			t.Errorf("%s: database says %v, client %v", name, wantErr, gotErr)
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fill stores two boulders whose names need escaping, above all in a URL.
func fill(t *testing.T, db *store.DB) {
	t.Helper()
	for i, id := range []string{"02", "01 a/b?&%"} {
		s := boulder.NewState()
		plan := boulder.Plan{Version: 1, SubTasks: []boulder.Spec{{ID: "../x", Subject: "<Do & be>"}, {ID: "y"}}}
		rev := boulder.PlanRevision{Number: 1, Plan: plan, Hash: plan.Hash()}
		ref := boulder.AttemptRef{SubTaskID: "../x", Attempt: 1}
		for _, body := range []boulder.Body{
			boulder.Created{Boulder: boulder.Boulder{ID: id, Task: "task"}}, boulder.Planned{Plan: rev},
			boulder.Decomposed{Plan: rev}, boulder.Starting{AttemptRef: ref, Prompt: "brief"},
		} {
			e := boulder.Event{Time: since.Add(time.Duration(i) * time.Hour), BoulderID: id, Body: body}
			if _, err := s.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Commit(t.Context(), s, s.TakeEvents()); err != nil {
			t.Fatal(err)
		}
	}
}

// Follow yields stored events, then waits, and yields new ones when the holder notifies.
func TestFollow(t *testing.T) {
	t.Parallel()
	source := &fake{looked: make(chan struct{}, 100)}
	source.add("one")
	source.add("two")
	source.add("three")
	s, c := serve(t, source)

	got := make(chan string)
	result := make(chan error, 1)
	go func() {
		defer close(got)
		for e, err := range c.Follow(t.Context(), "id", 1) {
			if err != nil {
				result <- err
				return
			}
			got <- fmt.Sprintf("%d %s", e.Seq, e.Body.(boulder.SubTaskProgress).Activity)
		}
	}()
	expect := func(want string) {
		t.Helper()
		if e := <-got; e != want {
			t.Errorf("%q, want %q", e, want)
		}
	}
	<-source.looked
	expect("2 two")
	expect("3 three")
	<-source.looked // the next look finds nothing, and waits
	source.add("four")
	s.Notify()
	<-source.looked
	expect("4 four")
	<-source.looked
	s.Notify() // for another boulder's event: it looks, and waits again
	<-source.looked
	s.Grace = 24 * time.Hour // longer than all tests may run: Close must not wait for a waiting request
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if e, open := <-got; open {
		t.Errorf("after the end: %q", e)
	}
	if err := <-result; !errors.Is(err, ErrNotServed) {
		t.Errorf("it ended with %v", err)
	}
}

// Follow ends with its context. A single wait for events ends by itself, without events.
func TestWaitForEventsEnds(t *testing.T) {
	t.Parallel()
	source := &fake{looked: make(chan struct{}, 1)}
	_, c := serve(t, source)
	r := request{Do: "events", ID: "id", Wait: time.Millisecond}
	if events, err := ask[[]boulder.Event](t.Context(), c, r, 0); len(events) != 0 || err != nil {
		t.Errorf("%v, %v", events, err)
	}
	<-source.looked
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-source.looked
		cancel(enough)
	}()
	for e, err := range c.Follow(ctx, "id", 0) {
		if !errors.Is(err, enough) {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

// Follow ends some time after the server stopped running the boulder, and not while it runs it.
func TestFollowEndsWithTheRun(t *testing.T) {
	t.Parallel()
	source := &fake{looked: make(chan struct{})}
	s, c := serve(t, source)
	s.mu.Lock()
	s.holder.Serves, c.wait = true, time.Millisecond
	s.mu.Unlock()
	s.Began("id")
	ended := make(chan error)
	go func() {
		for _, err := range c.Follow(t.Context(), "id", 0) {
			ended <- err
		}
	}()
	for range 3 {
		select {
		case <-source.looked:
		case err := <-ended:
			t.Fatalf("it ended while the boulder was run: %v", err)
		}
	}
	s.Ended("id")
	if err := <-ended; !errors.Is(err, ErrNotServed) {
		t.Errorf("it ended with %v", err)
	}
}

// A reader learns that the holder is closing, and can then read from the database.
func TestReadingWhileItEnds(t *testing.T) {
	t.Parallel()
	source := &endless{asked: make(chan struct{})}
	s, c := serve(t, source)
	read := make(chan error)
	go func() {
		_, err := c.Get(t.Context(), "id")
		read <- err
	}()
	<-source.asked
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-read; !errors.Is(err, ErrNotServed) {
		t.Errorf("%v", err)
	}
}

type endless struct {
	fake
	asked chan struct{}
}

func (e *endless) Get(ctx context.Context, _ string) (d boulder.Snapshot, err error) {
	close(e.asked)
	<-ctx.Done()
	return d, ctx.Err()
}

// A hung holder does not hang its readers.
func TestCallsTimeOut(t *testing.T) {
	t.Parallel()
	source := &fake{block: make(chan struct{})}
	_, c := serve(t, source)
	c.timeout = 20 * time.Millisecond
	if _, err := c.Listing(t.Context()); !errors.Is(err, errNoAnswer) {
		t.Errorf("%v", err)
	}
	c.timeout = callTimeout
	close(source.block)
	if all, err := c.Listing(t.Context()); len(all) != 1 || err != nil {
		t.Errorf("afterwards: %v, %v", all, err)
	}
}

// fake is a source whose log the test extends.
type fake struct {
	mu     sync.Mutex
	events []boulder.Event
	looked chan struct{} // gets a value after each read of the log, if there is room
	block  chan struct{} // Listing returns when it is closed
}

func (f *fake) add(activity string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, boulder.Event{
		BoulderID: "id", Seq: uint64(len(f.events) + 1), Body: boulder.SubTaskProgress{Activity: activity},
	})
}

func (f *fake) Events(_ context.Context, _ string, after uint64, _ int) ([]boulder.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case f.looked <- struct{}{}:
	default:
	}
	return f.events[min(after, uint64(len(f.events))):], nil
}

func (f *fake) Listing(ctx context.Context) ([]store.Item, error) {
	select {
	case <-f.block:
		return make([]store.Item, 1), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (f *fake) Get(context.Context, string) (d boulder.Snapshot, err error) { return d, nil }

var since = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
