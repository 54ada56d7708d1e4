package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
)

// Status is one session as people are told about it.
type Status struct {
	Record
	// Watched: a process watches it now. Busy: it is at work.
	Watched bool `json:"watched,omitempty"`
	Busy    bool `json:"busy,omitempty"`
	// Newest is the newest decision about it; nil: there was none yet.
	Newest *Entry `json:"newest,omitempty"`
}

// Order is what people tell a watch.
type Order string

// The orders.
const (
	OrderStop  Order = "stop"  // nothing is sent any more, until a start
	OrderStart Order = "start" // watch it, and count everything anew
)

// ErrUnknownSession is returned for a session of which nothing is known.
var ErrUnknownSession = errors.New("there is no such session here: `manager watch --status` lists those that are known")

// carryOut changes the records of the sessions that ref names; all for an empty one.
func carryOut(records map[string]*Record, ref string, o Order, p enforcer.Policy, now time.Time) ([]string, error) {
	if o != OrderStop && o != OrderStart {
		return nil, fmt.Errorf("there is no order %q: use stop or start", o)
	}
	ids, err := resolve(records, ref)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		r, ok := records[id]
		if !ok {
			r = &Record{SessionID: id}
			records[id] = r
		}
		r.Track = enforcer.Apply(r.Track, event(o, now), p)
		r.UpdatedAt = now
		if r.Track.Pending == "" {
			r.drop(false)
		}
		if ref != "" {
			r.Asked = o == OrderStart
		}
	}
	return ids, nil
}

func event(o Order, now time.Time) enforcer.Event {
	if o == OrderStop {
		return enforcer.StopAsked{At: now}
	}
	return enforcer.Started{At: now}
}

// sessionPrefix begins OpenCode's ids of sessions.
const sessionPrefix = "ses_"

// resolve finds the sessions that are meant: an id, also one that is not known yet, or its end; all for an empty text.
func resolve(records map[string]*Record, ref string) ([]string, error) {
	var ids []string
	for id := range records {
		if strings.HasSuffix(id, ref) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	switch {
	case ref == "" || len(ids) == 1:
		return ids, nil
	case len(ids) > 1:
		return nil, fmt.Errorf("%q fits %d sessions, give more of the id: %s", ref, len(ids), strings.Join(ids, ", "))
	case strings.HasPrefix(ref, sessionPrefix) && len(ref) > 20:
		return []string{ref}, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownSession, ref)
}

// Steer carries an order out where no process watches.
func Steer(s *Store, ref string, o Order, now time.Time) ([]string, error) {
	stored, err := s.Records()
	records := map[string]*Record{}
	for i := range stored {
		records[stored[i].SessionID] = &stored[i]
	}
	ids, orderErr := carryOut(records, ref, o, enforcer.WatchPolicy(), now)
	if orderErr != nil {
		return nil, errors.Join(orderErr, err)
	}
	var changed []Record
	var entries []Entry
	for _, id := range ids {
		changed = append(changed, *records[id])
		entries = append(entries, ordered(*records[id], o, now))
	}
	return ids, errors.Join(err, s.Save(changed, entries...))
}

// ordered is how an order stands in the history.
func ordered(r Record, o Order, now time.Time) Entry {
	e := Entry{
		Type: TypeDecision, Time: now, SessionID: r.SessionID, Title: r.Title, Decision: enforcer.Wait,
		Gate: enforcer.GateStopped, Reason: "a person stopped it", Iteration: r.Track.Iteration, Failures: r.Track.FailureCount,
	}
	if o == OrderStart {
		e.Gate, e.Reason = enforcer.GateOpen, "a person started it"
	}
	return e
}

// Stored are the sessions as they are stored, where no process watches.
func Stored(s *Store) ([]Status, error) {
	records, err := s.Records()
	all := make([]Status, 0, len(records))
	for _, r := range records {
		history, historyErr := s.History(r.SessionID)
		err = errors.Join(err, historyErr)
		one := Status{Record: r}
		if n := len(history); n > 0 {
			one.Newest = &history[n-1]
		}
		all = append(all, one)
	}
	sortStatus(all)
	return all, err
}

// sortStatus puts those that were alive last first.
func sortStatus(all []Status) {
	slices.SortStableFunc(all, func(a, b Status) int {
		return cmp.Or(b.Track.LastActivity.Compare(a.Track.LastActivity), strings.Compare(a.SessionID, b.SessionID))
	})
}

// status tells of all sessions. It runs on the loop goroutine.
func (w *Watch) status() []Status {
	var all []Status
	for _, s := range w.sessions {
		one := Status{Record: s.rec, Watched: s.notOwned == "", Busy: s.tree.Busy()}
		if s.shown.Type != "" {
			shown := s.shown
			one.Newest = &shown
		}
		all = append(all, one)
	}
	for _, r := range w.records {
		all = append(all, Status{Record: r})
	}
	sortStatus(all)
	return all
}

// order carries an order out. It runs on the loop goroutine; what came of it is on disk when it returns.
func (w *Watch) order(ctx context.Context, ref string, o Order) ([]string, error) {
	now := w.cfg.Now()
	records := map[string]*Record{}
	for id, s := range w.sessions {
		if s.notOwned == "" || id == ref {
			records[id] = &s.rec
		}
	}
	for id, r := range w.records {
		records[id] = &r
	}
	ids, err := carryOut(records, ref, o, w.policy, now)
	if err != nil {
		return nil, err
	}
	var rest []Record
	for _, id := range ids {
		e := ordered(*records[id], o, now)
		s, watched := w.sessions[id]
		if !watched {
			w.entries = append(w.entries, e)
			w.cfg.Show(e)
			w.records[id] = *records[id]
			rest = append(rest, *records[id])
			if o == OrderStart && w.online {
				delete(w.strange, id)
				w.meet(ctx, opencode.Event{SessionID: id, Payload: opencode.StatusChanged{}})
			}
			continue
		}
		s.stopChecking()
		s.checks, s.held = nil, false
		w.show(s, e)
		s.changed, s.resent = true, 0
		w.apply(s) // what it has cost until now is of another loop
	}
	if w.cfg.Store != nil && len(rest) > 0 {
		err = w.cfg.Store.Save(rest)
	}
	return ids, errors.Join(err, w.save())
}
