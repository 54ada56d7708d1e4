package ui

import (
	"context"
	"fmt"
	"html/template"
	"net/http"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

// Freeze gives the pages of a boulder as one file, which loads nothing and runs no script. With an error it lacks something.
func (s *Site) Freeze(ctx context.Context, there *project.Desk, d boulder.Snapshot) (string, error) {
	r, err := s.readRest(ctx, there, d)
	return s.freeze(ctx, r, err)
}

func (s *Site) freeze(ctx context.Context, r *reading, err error) (string, error) {
	b := r.Boulder
	p := s.page(text.Clip(b.Task, 80), "")
	p.Frozen, p.Style = true, template.CSS(s.style)
	made, reportErr := s.Report(ctx, r.Snapshot, r.Events, r.Running, r.Now)
	if err == nil {
		err = reportErr
	}
	p.add("report", "", printed(made.Print))
	link := func(id string) string { return "#t-" + id }
	s.addBoulder(p, r, link)
	turns := map[string][]boulder.Turn{}
	for _, t := range boulder.Turns(r.Events, "") {
		turns[t.SubTaskID] = append(turns[t.SubTaskID], t)
	}
	for _, t := range r.SubTasks {
		s.addWhy(p, r, t, turns[t.ID])
	}
	return string(s.html("page", s.unread(p, err))), err
}

// download sends the pages of a boulder as a file.
func (s *Site) download(w http.ResponseWriter, r *http.Request) {
	read, err := s.read(r.Context(), r.PathValue("id"))
	if read == nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	content, _ := s.freeze(r.Context(), read, err) // what it lacks is said in it
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", read.Boulder.ID+".html"))
	s.write(w, r, http.StatusOK, content)
}
