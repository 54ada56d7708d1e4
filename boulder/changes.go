package boulder

import "slices"

// Changes is what a number of events touched: whole records, to be written in one transaction.
type Changes struct {
	Boulder  Boulder       // always
	Revision *PlanRevision // a newly adopted one
	SubTasks []SubTask
	Attempts []Attempt
	Turns    []Turn
	Events   []Event
}

// changeSet remembers which records were touched, in the order they were first touched.
type changeSet struct {
	revision *PlanRevision
	subTasks list[*SubTask]
	attempts list[*Attempt]
	turns    list[*Turn]
	events   []Event
}

// list is a set that keeps its order.
type list[T comparable] struct {
	items []T
	has   map[T]bool // nil while there are few
}

// few is how many items are looked through faster than a map is made for them.
const few = 16

func (l *list[T]) add(x T) {
	switch {
	case l.has != nil && l.has[x], l.has == nil && slices.Contains(l.items, x):
		return
	case l.has != nil:
		l.has[x] = true
	case len(l.items) == few:
		l.has = make(map[T]bool, 2*few)
		for _, y := range l.items {
			l.has[y] = true
		}
		l.has[x] = true
	}
	l.items = append(l.items, x)
}

// TakeChanges returns what was touched since the last call, as copies that the caller owns, and forgets it. The second
// result is false if nothing was.
func (s *State) TakeChanges() (Changes, bool) {
	d := s.dirty
	if len(d.events) == 0 {
		return Changes{}, false
	}
	s.dirty = changeSet{}
	return Changes{
		Boulder: s.Boulder, Revision: d.revision, Events: d.events,
		SubTasks: copies(d.subTasks), Attempts: copies(d.attempts), Turns: copies(d.turns),
	}, true
}

func copies[T any](l list[*T]) []T {
	if len(l.items) == 0 {
		return nil
	}
	all := make([]T, len(l.items))
	for i, x := range l.items {
		all[i] = *x
	}
	return all
}
