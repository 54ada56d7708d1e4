package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

func (s *Site) boulder(r *http.Request) (*Page, error) {
	read, err := s.read(r.Context(), r.PathValue("id"), !streams(r) && r.FormValue("all") == "")
	if read == nil {
		return nil, err
	}
	b := read.Boulder
	p := s.page(text.Clip(b.Task, 80), "")
	p.Event = b.Seq
	s.addBoulder(r.Context(), p, read, func(id string) string { return taskPath(b.ID, id) })
	return s.unread(p, err), nil
}

// addBoulder adds the sections that the page of a boulder and its frozen file share.
func (s *Site) addBoulder(ctx context.Context, p *Page, r *reading, link func(id string) string) {
	b, raised := r.Boulder, r.Raised()
	data := map[string]any{
		"B": b, "S": view.NewStatus(r.Reading), "Answer": b.Written(), "Held": r.Holder != nil, "Meters": metersOf(r), "Land": b.Unlanded(),
		"Asks": b.Asks(), "Redo": b.Tally.Completed > 0 && !b.Closed(),
	}
	if !p.Frozen {
		p.add("head", "", s.html("head", data))
		s.addApproval(ctx, p, &r.Snapshot, boulderPath(b.ID))
		s.asks(p, raised, r.Now, func(b *report.Blocker) bool { return b.Awaited })
	}
	drawn := view.GraphOf(r.Snapshot, r.Limits, false).SVG(link)
	waits := len(r.SubTasks) == 0 && r.Revision != nil
	if waits {
		drawn = view.GraphOfPlan(&r.Revision.Plan, "").SVG(func(string) string { return "" })
	}
	p.add("graph", "What comes after what", s.html("graph", template.HTML(drawn)))
	if r.Revision != nil && len(r.Revision.Plan.Facts.Questions) > 0 && !waits { // else the approval shows them
		p.add("asked", "Asked before the split", printed(func(o page.Out) { view.Questions(o, &r.Revision.Plan) }))
	}
	if !p.Frozen && !waits {
		p.add("tasks", "Sub-tasks", s.html("tasks", data))
	}
	if r.cut { // the stream sends the chart later
		p.add("time", "What the time went into", `<p><a href="?all=1">Draw it</a></p>`)
	} else {
		p.add("time", "What the time went into", s.html("chart", chart(r, link)))
	}
	p.add("spending", "Spending", s.html("spending", map[string]any{"R": view.NewReceipt(r.Reading), "Meters": metersOf(r)}))
	if !p.Frozen {
		s.asks(p, raised, r.Now, func(b *report.Blocker) bool { return b.Standing == blockers.Choice })
		p.add("feed", "Newest events", s.html("feed", feed(r)))
	}
}

type meter struct {
	Name, Used, Limit string
	Share             float64
}

func metersOf(r *reading) (all []meter) {
	b := r.Boulder
	if b.Budget == nil {
		return nil
	}
	used := view.NewReceipt(r.Reading).Usage
	add := func(name string, used, limit float64, show func(float64) string) {
		if limit > 0 {
			all = append(all, meter{name, show(used), show(limit), used / limit})
		}
	}
	number := func(n float64) string { return text.Count(int64(n)) }
	add("tokens", float64(used.Tokens()), float64(b.Budget.Tokens), number)
	add("cost", used.Cost, b.Budget.Cost, func(n float64) string { return fmt.Sprintf("$%.2f", n) })
	add("time", float64(r.Worked()), float64(b.Budget.Time), func(n float64) string { return text.Elapsed(time.Duration(n)) })
	add("attempts", float64(b.Attempts), float64(b.Budget.Attempts), number)
	add("calls", float64(used.Calls), float64(b.Budget.Calls), number)
	return all
}

const fed = 60

func feed(r *reading) (all []view.Entry) {
	for _, e := range slices.Backward(r.Events) {
		if told := view.Describe(e); told.Line != "" {
			all = append(all, told)
		}
		if len(all) == fed {
			break
		}
	}
	return all
}

func (s *Site) report(r *http.Request) (*Page, error) {
	read, err := s.read(r.Context(), r.PathValue("id"), false)
	if read == nil {
		return nil, err
	}
	b := read.Boulder
	p := s.page("Report: "+text.Clip(b.Task, 70), "")
	p.Event = b.Seq
	p.add("crumbs", "", s.html("crumbs", b))
	p.add("report", "", printed(func(o page.Out) { view.PrintReport(o, s.project.Report(read.Reading)) }))
	return s.unread(p, err), nil
}

func (s *Site) task(r *http.Request) (*Page, error) {
	read, err := s.read(r.Context(), r.PathValue("id"), false)
	if read == nil {
		return nil, err
	}
	b, id := read.Boulder, r.PathValue("task")
	at := slices.IndexFunc(read.SubTasks, func(t *boulder.SubTask) bool { return t.ID == id })
	if at < 0 {
		return nil, fmt.Errorf("%w: boulder %s has no sub-task %q", boulder.ErrNotFound, b.ID, id)
	}
	t := read.SubTasks[at]
	p := s.page(text.Clip(t.Subject, 80), "")
	p.Event = b.Seq
	turns := boulder.Turns(read.Events, id)
	p.add("crumbs", "", s.html("crumbs", b))
	p.add("orders", "", s.html("orders", map[string]any{
		"B": b, "T": t, "Open": !b.Status.Terminal() && !t.Status.Terminal(), "Retry": !b.Status.Terminal() &&
			!slices.Contains([]boulder.SubTaskStatus{boulder.SubTaskCompleted, boulder.SubTaskSkipped, boulder.SubTaskSuperseded}, t.Status),
		"Done": t.Status == boulder.SubTaskCompleted, "Redo": !b.Closed() &&
			(t.Status == boulder.SubTaskCompleted || b.Status.Terminal() && t.Status != boulder.SubTaskSuperseded),
	}))
	s.asks(p, read.Raised(), read.Now, func(b *report.Blocker) bool { return b.SubTaskID == id && b.Awaited })
	s.addWhy(p, read, t)
	p.add("diffs", "Changes", s.html("diffs", diffsOf(b, id, turns)))
	p.add("briefs", "Prompts", s.html("prompts", turns))
	said, saidErr := transcripts(b.Project, turns)
	p.add("said", "Transcripts", s.html("transcripts", said))
	return s.unread(p, errors.Join(err, saidErr)), nil
}

func (s *Site) addWhy(p *Page, r *reading, t *boulder.SubTask) {
	title := fmt.Sprintf("%d. %s", t.Position, text.OneLine(t.Subject))
	p.add("t-"+t.ID, text.If(p.Frozen, title), printed(view.NewWhy(r.Reading, t).Print))
}

// diff is what changed during an attempt, according to its newest turn.
type diff struct {
	Attempt int
	Lines   []diffLine
	Cut     string // the command that shows the whole diff; empty if it is not cut
	None    string // why there is no diff
	Files   int    // number of changed files
	Others  string // changed files that are not its own
}

type diffLine struct{ Class, Text string }

func diffsOf(b boulder.Boulder, id string, turns []boulder.Turn) (all []diff) {
	for _, t := range turns {
		if t.Evidence == nil {
			continue
		}
		d := diff{Attempt: t.Attempt, None: t.Evidence.Diff.Unavailable, Files: len(t.Evidence.Diff.Files)}
		for _, f := range t.Evidence.Diff.Files {
			d.Others = text.JoinedBy(", ", d.Others, text.If(!f.Own, text.OneLine(f.Path)))
		}
		for line := range strings.Lines(text.Safe(t.Evidence.Diff.Patch)) {
			line = strings.TrimSuffix(line, "\n")
			class := ""
			switch {
			case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
				class = "file"
			case strings.HasPrefix(line, "+"):
				class = "add"
			case strings.HasPrefix(line, "-"):
				class = "del"
			case strings.HasPrefix(line, "@@"):
				class = "dim"
			}
			d.Lines = append(d.Lines, diffLine{class, line})
		}
		d.Cut = text.If(strings.Contains(t.Evidence.Diff.Patch, "[cut:"), fmt.Sprintf("manager diff -b %s %s", b.ID, id))
		if n := len(all); n > 0 && all[n-1].Attempt == d.Attempt {
			all = all[:n-1]
		}
		all = append(all, d)
	}
	return all
}

type said struct {
	Attempt int
	Lines   []saidLine
}

// saidLine is a styled line of a transcript. Prompts, reasoning and tool outputs are folded.
type saidLine struct {
	Time       time.Time
	Head, Body string
	Fold       bool
}

func transcripts(dir string, turns []boulder.Turn) (all []said, err error) {
	read, err := view.ReadTranscripts(dir, turns)
	for _, of := range read {
		told, one := view.NewTranscript(page.HTML(nil), true, of, turns), said{Attempt: of.Attempt}
		for _, line := range of.Lines {
			head, body, _ := strings.Cut(told.Tell(line), "\n")
			fold := body != "" && (line.Type == "tool" || line.Type == "reasoning" || line.Type == "prompt")
			one.Lines = append(one.Lines, saidLine{line.Time, head, body, fold})
		}
		all = append(all, one)
	}
	return all, err
}

// Freeze returns a boulder's pages as one file, without scripts or external resources. With an error it is incomplete.
func (s *Site) Freeze(ctx context.Context, there *project.Access, d boulder.Snapshot) (string, error) {
	r, err := s.readRest(ctx, there, d, false)
	p := s.page(text.Clip(d.Boulder.Task, 80), "")
	p.Frozen, p.Style = true, template.CSS(s.style)
	p.add("report", "", printed(func(o page.Out) { view.PrintReport(o, s.project.Report(r.Reading)) }))
	s.addBoulder(ctx, p, r, func(id string) string { return "#t-" + id })
	for _, t := range r.SubTasks {
		s.addWhy(p, r, t)
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
