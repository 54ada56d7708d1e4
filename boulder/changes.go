package boulder

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
	has   map[T]bool
}

func (l *list[T]) add(x T) {
	if l.has[x] {
		return
	}
	if l.has == nil {
		l.has = map[T]bool{}
	}
	l.has[x] = true
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
	c := Changes{Boulder: s.Boulder, Revision: d.revision, Events: d.events}
	for _, t := range d.subTasks.items {
		c.SubTasks = append(c.SubTasks, *t)
	}
	for _, a := range d.attempts.items {
		c.Attempts = append(c.Attempts, *a)
	}
	for _, t := range d.turns.items {
		c.Turns = append(c.Turns, *t)
	}
	return c, true
}
