package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/project/internal/unixsock"
)

const (
	// SocketName is the socket of a watching process, in the state directory.
	SocketName = "watch.sock"
	// callTimeout bounds a request; a watch that is busy for askTimeout answers so.
	callTimeout = 30 * time.Second
	askTimeout  = 20 * time.Second
)

// Order is what the user tells a watch to do.
type Order string

const (
	OrderStop  Order = "stop"  // sends nothing until a start
	OrderStart Order = "start" // watches it, with all counts at zero
	// OrderLook: diversion was switched on or off; takes effect at once.
	OrderLook Order = "look"
	// OrderTyped: Request.Word was typed after /blockers in the session whose prompt contains Request.Token.
	OrderTyped Order = "typed"
)

// Request asks for the state of the sessions, and may carry an order.
type Request struct {
	Session string `json:"session,omitempty"` // an id or its end; empty: all
	Order   Order  `json:"order,omitempty"`   // empty: none
	Token   string `json:"token,omitempty"`
	Word    string `json:"word,omitempty"`
}

// Report is the answer to a [Request].
type Report struct {
	Holder   Holder   `json:"holder"`
	Online   bool     `json:"online"`            // OpenCode answers
	Sessions []Status `json:"sessions"`          // all, latest activity first
	Named    []string `json:"named,omitempty"`   // the ids that the request selects
	History  []Entry  `json:"history,omitempty"` // of the requested one, oldest first
	Records  []Record `json:"records,omitempty"` // of all sessions
}

// Holder describes the watching process.
type Holder struct {
	PID     int       `json:"pid"` // 0: none
	Command string    `json:"command"`
	URL     string    `json:"url"` // of the OpenCode server
	Since   time.Time `json:"since"`
	// Diverts: started with --blockers, or configured to divert.
	Diverts bool `json:"diverts,omitempty"`
}

// reply is an answer on the wire. With a fault the report is partial.
type reply struct {
	Report
	Fault string `json:"fault,omitempty"`
}

// Serve answers other processes on a socket at path while [Watch.Run] runs, until the server is closed.
func (w *Watch) Serve(ctx context.Context, path string, holder Holder) (*unixsock.Server, error) {
	w.holder = holder
	return unixsock.Serve(ctx, path, w.log, func(ctx, _ context.Context, req Request, err error) any {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		var r reply
		done := make(chan struct{})
		if err == nil {
			select {
			case w.posts <- func() { defer close(done); r.Report, err = w.Do(ctx, req) }:
				<-done
			case <-ctx.Done():
				err = errors.New("the process that watches is busy; try again")
			}
		}
		if err != nil {
			r.Fault = err.Error()
		}
		return r
	})
}

// Call sends a request to the process that serves the socket at path. An order is on disk when Call returns. The error
// wraps [unixsock.ErrNotServed] if there is no such process.
func Call(ctx context.Context, path string, req Request) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, _, err := unixsock.Call[reply](ctx, path, req)
	if err == nil && r.Fault != "" {
		err = errors.New(r.Fault)
	}
	return r.Report, err
}

// Do answers a request, on the loop goroutine or on a Watch that does not run. With an error the report is partial.
func (w *Watch) Do(ctx context.Context, req Request) (r Report, err error) {
	if r.Named, err = w.named(req.Session); err != nil {
		return r, err
	}
	switch req.Order {
	case "":
	case OrderLook:
		w.switched(ctx)
	case OrderTyped:
		if w.online {
			maps.DeleteFunc(w.typed, func(_ string, t typed) bool { return w.cfg.Now().Sub(t.at) > keepTyped })
			w.typed[req.Token] = typed{req.Word, w.cfg.Now()}
		}
	default:
		for _, id := range r.Named {
			w.order(ctx, id, req)
		}
	}
	if err := w.save(); err != nil {
		return r, err
	}
	r.Holder, r.Online = w.holder, w.online
	var faults []error
	for id, s := range w.sessions {
		history, err := w.cfg.Store.History(id)
		faults = append(faults, err)
		if req.Session != "" && slices.Contains(r.Named, id) {
			r.History = history
		}
		r.Sessions = append(r.Sessions, s.status(history))
		r.Records = append(r.Records, s.rec)
	}
	slices.SortFunc(r.Sessions, func(a, b Status) int {
		return cmp.Or(b.LastActivity.Compare(a.LastActivity), strings.Compare(a.SessionID, b.SessionID))
	})
	return r, errors.Join(faults...)
}

// named returns the sessions whose id ends with ref: all for "", and ref itself for a whole id, even an unknown one.
func (w *Watch) named(ref string) (ids []string, err error) {
	for id, s := range w.sessions {
		if strings.HasSuffix(id, ref) && (s.notOwned == "" || id == ref) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	switch {
	case ref != "" && len(ids) > 1:
		return nil, fmt.Errorf("%q fits %d sessions, give more of the id: %s", ref, len(ids), strings.Join(ids, ", "))
	case len(ids) == 0 && strings.HasPrefix(ref, "ses_") && len(ref) > 20:
		return []string{ref}, nil
	}
	return ids, nil
}

// order carries out an order. The caller saves.
func (w *Watch) order(ctx context.Context, id string, req Request) {
	s := w.sessions[id]
	if s == nil {
		s = &watched{rec: Record{SessionID: id}}
		w.sessions[id] = s
	}
	if req.Session != "" {
		s.rec.Asked = req.Order == OrderStart
	}
	if req.Order == OrderStart {
		w.apply(s, enforcer.Started{At: w.cfg.Now()})
		w.show(s, enforcer.Decision{Kind: enforcer.Wait, Gate: enforcer.GateOpen, Reason: "started by the user"})
		if delete(w.foreign, id); w.online {
			w.lookUp(ctx, id)
		}
		return
	}
	w.apply(s, enforcer.StopAsked{At: w.cfg.Now()})
	w.show(s, enforcer.Decision{Kind: enforcer.Wait, Gate: enforcer.GateStopped, Reason: "stopped by the user"})
}

func (s *watched) status(history []Entry) Status {
	t := s.rec.Track
	one := Status{
		Type: "watched-session", SessionID: s.rec.SessionID, Title: s.rec.Title, Overview: t.Overview, Reason: t.Reason,
		Open: append([]string{}, t.Open...), Watched: s.tree != nil && s.notOwned == "", Busy: s.tree != nil && s.tree.Busy(),
	}
	one.Status = cmp.Or(t.Status, enforcer.Watching)
	if n := len(history); n > 0 {
		one.Newest = &history[n-1]
		one.Reason = cmp.Or(one.Reason, one.Newest.Reason)
	}
	return one
}
