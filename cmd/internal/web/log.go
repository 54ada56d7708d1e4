package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/text"
)

// How many events are shown: of each sub-task in the log, of one alone, and on the overview.
const (
	foldShown   = 40
	aloneShown  = 1_000
	latelyShown = 8
)

// newest returns the newest events that have a line, the newest first.
func newest(events []boulder.Event, most int) (all []view.Entry) {
	for _, e := range slices.Backward(events) {
		if told := view.Describe(e); told.Line != "" {
			all = append(all, told)
		}
		if len(all) == most {
			break
		}
	}
	return all
}

// fold is the part of the log about one sub-task or, with an empty id, about the boulder.
type fold struct {
	ID, Name    string
	Feed        []view.Entry // the newest first
	Count, More int
	Open        bool
}

func (s *Site) events(p *Page, read *reading, r *http.Request) {
	words, task, decisions := strings.ToLower(r.FormValue("q")), r.FormValue("task"), r.FormValue("decisions") != ""
	p.add("sift", "", s.html("sift", map[string]any{"Q": r.FormValue("q"), "Task": task, "Decisions": decisions, "SubTasks": read.SubTasks}))
	p.add("log", "", s.html("log", foldsOf(read, task, func(e *view.Entry) bool {
		return (!decisions || e.Decision != "" || e.SubTask == "") && strings.Contains(strings.ToLower(e.SubTask+" "+e.Line), words)
	})))
}

// foldsOf sorts the log by sub-task, the one with the newest event first. Of one sub-task alone, more is shown.
func foldsOf(r *reading, only string, want func(e *view.Entry) bool) []*fold {
	whole := &fold{Name: "The boulder"}
	byID, all := map[string]*fold{"": whole}, []*fold{whole}
	for _, t := range r.SubTasks {
		byID[t.ID] = &fold{ID: t.ID, Name: fmt.Sprintf("%d. %s", t.Position, text.OneLine(t.Subject))}
		all = append(all, byID[t.ID])
	}
	newest, most := map[*fold]int{}, foldShown
	if only != "" {
		most = aloneShown
	}
	for i, e := range slices.Backward(r.Events) {
		told := view.Describe(e)
		f := byID[told.SubTask]
		if told.Line == "" || f == nil || only != "" && f.ID != only || !want(&told) {
			continue
		}
		newest[f] = max(newest[f], i+1)
		if f.Count++; len(f.Feed) < most {
			told.SubTask = "" // it is in the heading
			f.Feed = append(f.Feed, told)
		}
	}
	all = slices.DeleteFunc(all, func(f *fold) bool { return f.Count == 0 })
	slices.SortStableFunc(all, func(a, b *fold) int { return cmp.Compare(newest[b], newest[a]) })
	for i, f := range all {
		f.More, f.Open = f.Count-len(f.Feed), i < 3
	}
	return all
}
