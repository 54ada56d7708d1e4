package blockers

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/bouldermgr/manager/boulder"
)

// memory is the book of a run, with the events that its boulder would have.
type memory struct {
	clock  *clock
	mu     sync.Mutex
	all    []boulder.Blocker
	events []boulder.Event
}

var _ boulder.BlockerBook = (*memory)(nil)

func (m *memory) Blockers(context.Context) ([]boulder.Blocker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all), nil
}

func (m *memory) Raise(_ context.Context, b boulder.Blocker) (boulder.Blocker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b.ID = fmt.Sprint("B", len(m.all)+1)
	m.all = append(m.all, b)
	m.add(boulder.BlockerRaised{Blocker: b})
	return b, nil
}

func (m *memory) EndWait(_ context.Context, id string, replied bool) error {
	return m.change(id, func(b *boulder.Blocker) (boulder.Body, error) {
		b.Replied, b.Gone = b.Replied || replied, b.Gone || !replied
		return boulder.WaitEnded{BlockerID: id, Replied: replied}, nil
	})
}

// settle does what an order to the boulder does.
func (m *memory) settle(d *Register, id string, s Settlement) error {
	return m.change(id, func(b *boulder.Blocker) (boulder.Body, error) {
		s, err := d.Check(b, s)
		if err == nil {
			b.Status, b.Answer, b.Allowed, b.SettledAt = s.Status, s.Answer, s.Allowed, m.clock.now()
		}
		return boulder.BlockerSettled{BlockerID: id, Status: s.Status, Answer: s.Answer, Allowed: s.Allowed}, err
	})
}

func (m *memory) change(id string, fn func(*boulder.Blocker) (boulder.Body, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.all {
		if m.all[i].ID == id {
			body, err := fn(&m.all[i])
			if err == nil {
				m.add(body)
			}
			return err
		}
	}
	return ErrNotFound
}

func (m *memory) add(body boulder.Body) {
	m.events = append(m.events, boulder.Event{Seq: uint64(len(m.events)) + 1, Body: body})
}

// since is what [Register.Listed] reads.
func (m *memory) since(seq uint64) ([]boulder.Event, []boulder.Blocker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events[seq:]), slices.Clone(m.all), nil
}
