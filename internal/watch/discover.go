package watch

import (
	"context"
	"errors"
	"strings"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// event takes in one event.
func (w *Watch) event(ctx context.Context, e opencode.Event) {
	switch p := e.Payload.(type) {
	case opencode.Resync:
		w.found(ctx)
		return
	case opencode.Disconnected:
		w.lost(p.Err)
		return
	}
	known := false
	for _, s := range w.sessions {
		had := s.tree.Has(e.SessionID)
		events := s.tree.Take(e, w.cfg.Now())
		if had || s.tree.Has(e.SessionID) {
			known = true
			w.called(s, e)
		}
		if len(events) > 0 {
			s.fresh, s.notOwned = false, w.notOwned(s)
			w.apply(s, events...)
		}
		if s.tree.Deleted() {
			w.forget(s)
		}
	}
	if e.SessionID != "" && (!known || w.cfg.All) {
		w.meet(ctx, e)
	}
}

// meet takes up a session that shows life and is not watched yet.
func (w *Watch) meet(ctx context.Context, e opencode.Event) {
	if _, watched := w.sessions[e.SessionID]; watched || w.strange[e.SessionID] {
		return
	}
	switch p := e.Payload.(type) {
	case opencode.SessionCreated:
		w.take(ctx, p.Session)
		return
	case opencode.SessionUpdated, opencode.SessionDeleted, opencode.Unknown:
		return // no sign of life: a session is renamed, counted, compared
	}
	w.lookUp(ctx, e.SessionID)
}

// lookUp takes up the main session that a session works for; with All, the session itself.
func (w *Watch) lookUp(ctx context.Context, id string) {
	w.strange[id] = true
	w.background(ctx, func() func() {
		found, err := w.dir.Session(ctx, id)
		root := found
		for err == nil && root.ParentID != "" {
			root, err = w.dir.Session(ctx, root.ParentID)
		}
		return func() {
			switch {
			case err != nil:
				delete(w.strange, id) // the next event tries again
				w.log.Warn("could not look a session up", "session", id, "error", err)
			case w.cfg.All:
				w.watch(found, root)
			default:
				w.watch(root, root)
			}
		}
	})
}

// list finds the sessions of the project that were at work not long ago, and those that a person asked for.
func (w *Watch) list(ctx context.Context) {
	filter := opencode.SessionFilter{Roots: !w.cfg.All, UpdatedSince: w.cfg.Now().Add(-w.cfg.Since)}
	w.background(ctx, func() func() {
		found, err := w.dir.Sessions(ctx, filter)
		return func() {
			if err != nil {
				w.failed(err)
				return
			}
			w.listed = true
			for _, s := range found {
				w.take(ctx, s)
			}
			for id, r := range w.records {
				if r.Asked || r.unfinished(w.cfg.Now()) {
					w.meet(ctx, opencode.Event{SessionID: id, Payload: opencode.StatusChanged{}})
				}
			}
		}
	})
}

// failed takes in a call that failed. The event stream says when the server is there again.
func (w *Watch) failed(err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case errors.Is(err, opencode.ErrUnauthorized):
		w.fatal = err
	default:
		w.log.Warn("could not read OpenCode's state", "error", err)
	}
}

// take begins to watch a session, unless it is watched, or is a sub-agent's.
func (w *Watch) take(ctx context.Context, info opencode.Session) {
	switch {
	case info.ParentID == "":
		w.watch(info, info)
	case w.cfg.All:
		w.lookUp(ctx, info.ID) // whose it is, its main session says
	}
}

// replaces reports whether a session was begun for a continuation that is still to be sent to it.
func (w *Watch) replaces(info opencode.Session) bool {
	id, ok := info.Metadata[freshKey].(string)
	if !ok {
		return false
	}
	for _, s := range w.sessions {
		if i := s.rec.Intent; i != nil && i.Fresh && i.MessageID == id {
			return true
		}
	}
	for _, r := range w.records {
		if i := r.Intent; i != nil && i.Fresh && i.MessageID == id {
			return true
		}
	}
	return false
}

// watch begins to watch a session, unless it is watched, or is about to take another one's place. root is its main session.
func (w *Watch) watch(info, root opencode.Session) {
	delete(w.strange, info.ID)
	if _, watched := w.sessions[info.ID]; watched || w.replaces(info) {
		return
	}
	r, known := w.records[info.ID]
	if !known {
		r = Record{SessionID: info.ID}
	}
	delete(w.records, info.ID)
	r.Title = text.Short(info.Title, 200)
	s := &watched{rec: r, tree: session.NewTree(info.ID, r.Cursor), root: root, news: true}
	s.tree.Join(info, w.cfg.Now())
	s.notOwned = w.notOwned(s)
	w.sessions[info.ID] = s
	if known {
		w.apply(s, enforcer.TakenUp{At: w.cfg.Now()})
	}
}

// ledgerTitle begins the titles of the sessions in which the ledgers ask through OpenCode, see providers/opencode. The
// judge of a watch does so itself, and must not be asked about its own question.
const ledgerTitle = "manager: "

// notOwned says why a session is none that a person works in here; empty: it is one.
func (w *Watch) notOwned(s *watched) string {
	info := s.tree.Session()
	switch tag, _ := s.root.Metadata[session.TagKey].(string); {
	case tag != "", strings.Contains(s.root.Title, "["+session.TagKey+":"):
		return "it belongs to a run of manager"
	case strings.HasPrefix(info.Title, ledgerTitle):
		return "manager asks a model something in it"
	case info.Directory != w.cfg.Project:
		return "it works in " + info.Directory
	case !info.Archived.IsZero():
		return "it is archived"
	}
	return ""
}

// forget drops a session that was deleted.
func (w *Watch) forget(s *watched) {
	s.stopChecking()
	delete(w.sessions, s.rec.SessionID)
	w.strange[s.rec.SessionID] = true
	if w.cfg.DryRun {
		return
	}
	if err := w.cfg.Store.Forget(s.rec.SessionID); err != nil {
		w.fatal = errors.Join(w.fatal, err)
	}
}
