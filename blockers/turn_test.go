package blockers

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
)

// What comes after a turn, or of an attempt that has none here, is refused, and recorded nowhere.
func TestAfterTheTurn(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t, waiting)
	refused := func(at boulder.BlockerScope, id string) {
		t.Helper()
		_, raiseErr := d.Raise(t.Context(), at, hardInput("Which?"))
		_, divertErr := d.Divert(t.Context(), askedIn(at, *permission("per_1", "ls").Ask))
		_, rulingErr := d.Ruling(t.Context(), at, id)
		_, raisedErr := d.Raised(t.Context(), at)
		for _, err := range []error{raiseErr, divertErr, rulingErr, raisedErr, d.EndWait(t.Context(), at, id, false)} {
			if !errors.Is(err, ErrOver) {
				t.Errorf("%v", err)
			}
		}
	}
	book, next := &memory{clock: p.clock}, inRun
	next.Attempt++
	unbind := d.Bind(inRun, book)
	id := divert(t, d, askedIn(inRun, *permission("per_1", "ls").Ask)).BlockerID
	refused(next, id)
	unbind()
	refused(inRun, id)
	again := d.Bind(inRun, book)
	unbind() // of the turn before: it is over already
	if r, err := d.Ruling(t.Context(), inRun, id); err != nil || r.Reply != boulder.ReplyWaiting {
		t.Errorf("in the next turn: %+v, %v", r, err)
	}
	again()
	refused(inRun, id)
	if len(book.events) != 1 || len(listed(t, d, Filter{})) != 0 || len(d.turns) != 0 {
		t.Errorf("%d events, %d turns", len(book.events), len(d.turns))
	}
}

// slow is a book that records when it is told to.
type slow struct {
	memory
	begun, records chan struct{}
}

func (s *slow) Raise(ctx context.Context, b boulder.Blocker) (boulder.Blocker, error) {
	close(s.begun)
	<-s.records
	return s.memory.Raise(ctx, b)
}

// The end of a turn waits for the blocker that is being recorded. One that comes later is refused, and another attempt's
// is not held up.
func TestUnbindWaits(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t)
	book, other := &slow{memory{clock: p.clock}, make(chan struct{}), make(chan struct{})}, inRun
	other.SubTaskID = "web"
	unbind := d.Bind(inRun, book)
	d.Bind(other, &memory{clock: p.clock})
	recorded, known := make(chan error, 1), make(chan int, 1)
	go func() {
		_, err := d.Raise(t.Context(), inRun, hardInput("Which?"))
		recorded <- err
	}()
	<-book.begun
	go func() {
		unbind()
		all, _ := book.Blockers(t.Context())
		known <- len(all)
	}()
	_, err := d.Raise(t.Context(), other, hardInput("Which?"))
	check(t, err)
	close(book.records)
	if n := <-known; n != 1 {
		t.Errorf("the turn is over with %d blockers", n)
	}
	check(t, <-recorded)
	if _, err := d.Raise(t.Context(), inRun, hardInput("Who?")); !errors.Is(err, ErrOver) || len(book.all) != 1 {
		t.Errorf("%d blockers, %v", len(book.all), err)
	}
}

// Calls of one turn are recorded one by one: of the same question, and of those beyond the limit, no two get through.
// Outside of runs that holds for all processes.
func TestSameCallsAtOnce(t *testing.T) {
	t.Parallel()
	for _, at := range []boulder.BlockerScope{scope, inRun} {
		p := newProject(t)
		registers := []*Register{p.register(t, func(c *Config) { c.Max = 2 }), p.register(t, func(c *Config) { c.Max = 2 })}
		book := p.turn(registers[0], inRun)
		var g errgroup.Group
		for i := range 12 {
			d, question := registers[0], []string{"Which?", "Who?", "When?"}[i%3]
			if at == scope {
				d = registers[i%2]
			}
			g.Go(func() error {
				if _, err := d.Raise(t.Context(), at, hardInput(question)); !errors.Is(err, ErrTooMany) {
					return err
				}
				return nil
			})
		}
		check(t, g.Wait())
		if all := append(listed(t, registers[0], Filter{}), book.all...); len(all) != 2 || all[0].Question == all[1].Question {
			t.Errorf("%+v", all)
		}
	}
}
