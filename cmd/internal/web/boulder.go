package web

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

// tab is a page about a boulder. All of them have its head.
type tab struct {
	Name, Path string
	Count      int // of what is there; 0: not shown
}

const overview = "Overview"

func tabsOf(b *boulder.Boulder, files int) []tab {
	at := boulderPath(b.ID)
	return []tab{
		{overview, at, 0}, {"Changes", at + "/changes", files}, {"Time and cost", at + "/time", 0}, {"Log", at + "/log", 0},
		{"Report", at + "/report", 0},
	}
}

// tab serves the page of a boulder with this name. add adds what is below the head. With quick, only the newest events of a
// long log may be there at first.
func (s *Site) tab(name string, quick bool, add func(p *Page, read *reading, r *http.Request)) func(*http.Request) (*Page, error) {
	return func(r *http.Request) (*Page, error) {
		read, err := s.read(r.Context(), r.PathValue("id"), quick && !streams(r) && r.FormValue("all") == "")
		if read == nil {
			return nil, err
		}
		b := read.Boulder
		p := s.page(text.JoinedBy(": ", text.If(name != overview, name), text.Clip(b.Task, 80)), "")
		p.Event = b.Seq
		s.addHead(p, read, name != overview)
		files := map[string]bool{}
		for _, t := range read.SubTasks {
			for _, f := range t.Files {
				files[f] = true
			}
		}
		p.add("tabs", "", s.html("tabs", map[string]any{"All": tabsOf(&b, len(files)), "Here": name}))
		add(p, read, r)
		return s.unread(p, err), nil
	}
}

// addHead adds what the boulder is and how it stands. waits includes what waits for the user: the overview shows that itself.
func (s *Site) addHead(p *Page, r *reading, waits bool) {
	b, status := &r.Boulder, r.status
	p.add("head", "", s.html("head", map[string]any{
		"B": b, "S": status, "Shown": status.Shown(), "Held": r.Holder != nil || s.Start != nil, "Cells": cellsOf(r), "Frozen": p.Frozen,
		"Redo": b.Tally.Completed > 0 && !b.Closed(), "Waiting": text.If(waits, status.Waiting.Text()),
	}))
}

// links returns the address of a sub-task.
type links func(id string) string

func (s *Site) overview(p *Page, read *reading, r *http.Request) {
	b, raised, back := &read.Boulder, read.Raised(), boulderPath(read.Boulder.ID)
	link := links(func(id string) string { return taskPath(b.ID, id) })
	waits := view.WaitingOf(raised)
	if said := text.JoinedBy(" · ", text.If(b.Asks(), "A plan waits for your approval"), waits.Awaited()); said != "" {
		p.add("needs", "Needs you", s.html("needs", map[string]any{"Waiting": said}))
	}
	s.addApproval(r.Context(), p, &read.Snapshot, back)
	s.asks(p, raised, read.Now, back, func(b *report.Blocker) bool { return b.Awaited })
	s.addOutcome(p, read)
	s.addGraph(p, read, link)
	if len(read.SubTasks) > 0 || read.Revision == nil { // else the approval shows them
		p.add("tasks", "Sub-tasks", s.html("tasks", map[string]any{"S": read.status, "Link": link}))
		if read.Revision != nil && len(read.Revision.Plan.Facts.Questions) > 0 {
			p.add("asked", "Asked before the split", printed(func(o page.Out) { view.Questions(o, &read.Revision.Plan) }))
		}
	}
	if waits.Choices() != "" {
		p.add("choices", "Chosen without you", "<p>You can still decide otherwise.</p>")
	}
	s.asks(p, raised, read.Now, back, func(b *report.Blocker) bool { return b.Standing == blockers.Choice })
	p.add("feed", "Lately", s.html("lately", map[string]any{"Feed": newest(read.Events, latelyShown), "Log": back + "/log"}))
}

// addOutcome adds what a boulder that is over has brought: the answer, and what is missing.
func (s *Site) addOutcome(p *Page, r *reading) {
	if answer := r.Boulder.Written(); answer != "" {
		p.add("answer", "Answer", s.html("answer", answer))
	}
	if check := r.Boulder.Checked(); check != nil && len(check.Missing) > 0 {
		p.add("missing", "Missing of the request", s.html("missing", check.Missing))
	}
}

func (s *Site) addGraph(p *Page, r *reading, link links) {
	drawn := ""
	if waits := len(r.SubTasks) == 0 && r.Revision != nil; waits {
		drawn = view.GraphOfPlan(&r.Revision.Plan, "").SVG(func(string) string { return "" })
	} else if len(r.SubTasks) > 0 {
		drawn = view.GraphOf(r.Snapshot, r.Limits, false).Spent(r.Snapshot).SVG(link)
	}
	if drawn != "" {
		p.add("graph", "What comes after what", s.html("graph", template.HTML(drawn)))
	}
}

func (s *Site) whatChanged(p *Page, read *reading, r *http.Request) {
	p.add("changes", "What changed", s.html("changes", s.patchOf(r.Context(), read, "")))
}

func (s *Site) time(p *Page, read *reading, _ *http.Request) {
	s.addTime(p, read, func(id string) string { return taskPath(read.Boulder.ID, id) })
}

func (s *Site) addTime(p *Page, r *reading, link links) {
	if r.cut { // the stream sends the chart later
		p.add("time", "What the time went into", `<p><a href="?all=1">Draw it</a></p>`)
	} else {
		p.add("time", "What the time went into", s.html("chart", chart(r, link)))
	}
	p.add("spending", "Spending", s.html("spending", view.NewReceipt(r.Reading)))
}

func (s *Site) report(p *Page, read *reading, _ *http.Request) {
	p.add("report", "", printed(func(o page.Out) { view.PrintFindings(o, s.project.Report(read.Reading)) })+
		s.html("download", boulderPath(read.Boulder.ID)+"/report.html"))
}

// cell is a fact that the head of a page shows large.
type cell struct {
	Name, Value, Of string
	Bar             template.HTML
	Wide            bool
	Limited         bool // Share is the part of the budget that is used
	Share           float64
}

// limited adds to a cell how much of the budget it has used.
func limited[N int | int64 | float64 | time.Duration | boulder.Duration](c cell, used, limit N, show func(N) string) cell {
	if limit > 0 {
		c.Of, c.Limited, c.Share = "of "+show(limit), true, float64(used)/float64(limit)
	}
	return c
}

func dollars(n float64) string { return fmt.Sprintf("$%.2f", n) }

func cost(u boulder.Usage) string { return text.Money(u.Cost) + text.If(u.Unpriced > 0, "+?") }

func cellsOf(r *reading) []cell {
	b, used, limit, worked := &r.Boulder, r.status.Usage, budgetOf(r.Boulder.Budget), r.Worked()
	t, number := b.Tally, func(n int) string { return fmt.Sprint(n) }
	said := text.JoinedBy(", ", "done", text.Some(t.InProgress, "in progress"), text.Some(t.Failed, "failed"),
		text.Some(t.Blocked, "blocked"), text.Some(t.Skipped, "skipped"), text.Some(t.Cancelled, "cancelled"))
	begun := b.CreatedAt.Local()
	all := []cell{
		{Name: "Sub-tasks", Value: fmt.Sprintf("%d of %d", t.Completed, t.Planned), Of: said, Bar: tallied(t), Wide: true},
		limited(cell{Name: "Cost", Value: cost(used)}, used.Cost, limit.Cost, dollars),
		limited(cell{Name: "Tokens", Value: text.Count(used.Tokens())}, used.Tokens(), limit.Tokens, text.Count),
		limited(cell{Name: "Worked", Value: text.Elapsed(worked)}, worked, time.Duration(limit.Time), text.Elapsed),
		limited(cell{Name: "Attempts", Value: number(b.Attempts)}, b.Attempts, limit.Attempts, number),
		{Name: "Started", Value: begun.Format("Jan 2 15:04"), Of: begun.Format("MST")},
	}
	if t.Planned == 0 {
		all[0] = cell{Name: "Sub-tasks", Value: "no plan yet", Wide: true}
		if r.Revision != nil {
			all[0].Value = fmt.Sprintf("%d planned", len(r.Revision.Plan.SubTasks))
		}
	}
	if limit.Calls > 0 {
		all = append(all, limited(cell{Name: "Calls", Value: text.Count(used.Calls)}, used.Calls, limit.Calls, text.Count))
	}
	return all
}

func budgetOf(b *boulder.Budget) boulder.Budget {
	if b == nil {
		return boulder.Budget{}
	}
	return *b
}

// Freeze returns a boulder's pages as one file, without scripts or external resources. With an error it is incomplete.
func (s *Site) Freeze(ctx context.Context, there *project.Access, d boulder.Snapshot) (string, error) {
	r, err := s.readRest(ctx, there, d, false)
	p := s.page(text.Clip(d.Boulder.Task, 80), "")
	p.Frozen, p.Style = true, template.CSS(s.style)
	link := links(func(id string) string { return "#t-" + id })
	s.addHead(p, r, true)
	p.add("report", "", printed(func(o page.Out) { view.PrintFindings(o, s.project.Report(r.Reading)) }))
	s.addGraph(p, r, link)
	if len(r.SubTasks) > 0 {
		p.add("tasks", "Sub-tasks", s.html("tasks", map[string]any{"S": r.status, "Link": link}))
	}
	turns := boulder.Turns(r.Events, "")
	p.add("changes", "What changed", s.html("changes", s.patchOf(ctx, r, "")))
	s.addTime(p, r, link)
	for _, t := range r.SubTasks {
		of := slices.DeleteFunc(slices.Clone(turns), func(turn boulder.Turn) bool { return turn.SubTaskID != t.ID })
		p.add("t-"+t.ID, fmt.Sprintf("%d. %s", t.Position, text.OneLine(t.Subject)), s.told(r, t, of, true)+s.talk(r, t, of))
	}
	return string(s.html("page", s.unread(p, err))), err
}

func (s *Site) download(w http.ResponseWriter, r *http.Request) {
	content, err := project.Look(r.Context(), s.project, r.PathValue("id"), s.Freeze)
	if content == "" { // else the file says what it lacks
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", r.PathValue("id")+".html"))
	s.write(w, r, http.StatusOK, content)
}
