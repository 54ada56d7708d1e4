package ui

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

// prepareRedo finds out what a redo comes to, of the sub-task that a form names or else of all that is out of date; nil: nothing
// is.
func (s *Site) prepareRedo(r *http.Request) (b boulder.Snapshot, what project.Redo, redo *boulder.Redoing, err error) {
	read, err := s.read(r.Context(), r.PathValue("id"), false)
	if err != nil {
		return b, what, nil, err
	}
	what = project.Redo{
		Note: strings.TrimSpace(r.FormValue("text")), NoDependents: r.FormValue("alone") != "", Files: boulder.Files(r.FormValue("files")),
	}
	if task := r.FormValue("task"); task != "" {
		what.SubTasks = map[string][]boulder.Reason{task: {boulder.ReasonAsked}}
	}
	redo, err = s.PrepareRedo(r.Context(), read.Reading, what)
	return read.Snapshot, what, redo, err
}

// redo is the page that shows what would be redone.
func (s *Site) redo(r *http.Request) (*Page, error) {
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
	r = r.WithContext(context.WithoutCancel(r.Context()))
	b, _, redo, err := s.prepareRedo(r)
	ctx, id := r.Context(), r.PathValue("id")
	switch next = boulderPath(id); {
	case err != nil:
		return "", next, err
	case redo == nil:
		return "", next, errors.New("nothing is out of date")
	}
	said, err = s.OrderRedo(ctx, &b, redo.Order)
	if err == nil && said == "" {
		if said, err = s.resume(ctx, id); err != nil {
			said = "It is redone when the boulder continues:"
		}
	}
	return said, next, err
}
