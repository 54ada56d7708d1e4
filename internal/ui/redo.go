package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

// prepareRedo finds out what a redo comes to, of the sub-task that a form names or else of all that is out of date; nil: nothing
// is. The ground is held.
func (s *Site) prepareRedo(r *http.Request) (b boulder.Snapshot, what project.Redo, redo *boulder.Redoing, err error) {
	ctx, task := r.Context(), r.FormValue("task")
	if err := s.OpenWorkspace(ctx); err != nil {
		return b, what, nil, err
	}
	read, err := s.read(ctx, r.PathValue("id"), false)
	if err != nil {
		return b, what, nil, err
	}
	b = read.Snapshot
	what = project.Redo{
		SubTasks: map[string][]boulder.Reason{task: {boulder.ReasonAsked}}, Note: strings.TrimSpace(r.FormValue("text")),
		NoDependents: r.FormValue("alone") != "", Files: boulder.Files(r.FormValue("files")),
	}
	if task == "" {
		what.SubTasks, err = s.Stale(ctx, &b, false)
	}
	if err != nil || len(what.SubTasks) == 0 {
		return b, what, nil, err
	}
	prepared, err := s.PrepareRedo(ctx, &b, read.Events, what)
	return b, what, &prepared, err
}

// redo is the page that shows what would be redone.
func (s *Site) redo(r *http.Request) (*Page, error) {
	s.ground.Lock()
	defer s.ground.Unlock()
	b, what, redo, err := s.prepareRedo(r)
	if b.Boulder.ID == "" {
		return nil, err
	}
	data := map[string]any{"B": b.Boulder, "Task": r.FormValue("task"), "Redo": what}
	if err != nil {
		data["Err"] = project.Message(err)
	} else if redo != nil {
		var shown strings.Builder // a table
		view.NewRedo(&b, *redo, true).Print(page.Out{Writer: &shown, Columns: page.Widest})
		data["Shown"] = shown.String()
	}
	p := s.page("Redo", "")
	p.Still = true
	p.add("crumbs", "", s.html("crumbs", b.Boulder))
	p.add("redo", "", s.html("redo", data))
	return p, nil
}

// redoNow gives the order. What runs nowhere continues where a server is there for it.
func (s *Site) redoNow(r *http.Request) (said, next string, err error) {
	s.ground.Lock()
	defer s.ground.Unlock()
	r = r.WithContext(context.WithoutCancel(r.Context()))
	b, _, redo, err := s.prepareRedo(r)
	ctx, id := r.Context(), r.PathValue("id")
	switch next = boulderPath(id); {
	case err != nil:
		return "", next, err
	case redo == nil:
		return "", next, errors.New("nothing is out of date")
	}
	err = s.Steer(ctx, func(there *project.Desk) error {
		if said = ""; there.Holder.Runs(b.Boulder) {
			said = fmt.Sprintf("Process %d, which runs boulder %s, redoes it.", there.Holder.PID, id)
		}
		return s.OrderRedo(ctx, there, &b, redo.Order)
	})
	if err == nil && said == "" {
		if said, err = s.resume(ctx, id); err != nil {
			said = "It is redone when the boulder continues:"
		}
	}
	return said, next, err
}

// keepOrder takes the result of a sub-task as up to date.
func (s *Site) keepOrder(ctx context.Context, id, task string) (o boulder.Order, err error) {
	s.ground.Lock()
	defer s.ground.Unlock()
	if err := s.OpenWorkspace(ctx); err != nil {
		return o, err
	}
	d, err := s.Snapshot(ctx, id)
	if err != nil {
		return o, err
	}
	return s.KeepOrder(ctx, &d, task)
}
