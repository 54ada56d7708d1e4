package web

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project/report"
)

// Measures of the time chart, in pixels.
const (
	chartNames = 190 // column of names
	chartWide  = 760 // of the bars
	chartLane  = 24
	chartBar   = 14
	chartHead  = 24
)

// lane is the row of a sub-task or, with an empty id, of the boulder itself.
type lane struct {
	id, name string
	bars     []bar
	open     *bar // not ended yet, or nil
}

// bar is a span of time. kind is its class in the stylesheet.
type bar struct {
	kind, title string
	from, to    time.Time
}

func (l *lane) begin(at time.Time, kind, title string) {
	l.end(at, "")
	l.open = &bar{kind: kind, title: title, from: at}
}

// end closes the open bar, if any, and appends more to its title.
func (l *lane) end(at time.Time, more string) {
	if l.open != nil {
		l.open.to, l.open.title = at, text.JoinedBy(": ", l.open.title, more)
		l.bars, l.open = append(l.bars, *l.open), nil
	}
}

func lanes(r *reading) (all []*lane, from, to time.Time) {
	whole := &lane{name: "the boulder"}
	all, byID := []*lane{whole}, map[string]*lane{"": whole}
	for _, t := range r.SubTasks {
		l := &lane{id: t.ID, name: fmt.Sprintf("%d. %s", t.Position, t.Subject)}
		all, byID[t.ID] = append(all, l), l
	}
	queued := map[boulder.AttemptRef]time.Time{}
	for _, a := range r.Attempts {
		queued[a.AttemptRef] = a.QueuedAt
	}
	for _, e := range r.Events {
		if to = e.Time; from.IsZero() {
			from = e.Time
		}
		switch e.Body.(type) {
		case boulder.SubTaskProgress, boulder.UsageReport, boulder.GateRun: // most of a log, without a bar of their own
			continue
		}
		told := view.Describe(e)
		if l := byID[told.SubTask]; l != nil {
			l.take(e, told.Line, queued, whole)
		}
	}
	if r.Running() {
		to = r.Now
	}
	for _, l := range all {
		l.end(to, "")
	}
	return all, from, to
}

// take applies an event to the lane. line describes the event.
func (l *lane) take(e boulder.Event, line string, queued map[boulder.AttemptRef]time.Time, whole *lane) {
	at := e.Time
	switch b := e.Body.(type) {
	case boulder.Created:
		l.begin(at, "plan", "planning")
	case boulder.RevisionAsked:
		whole.begin(at, "plan", line)
	case boulder.Planned, boulder.Parked:
		l.begin(at, "you", line)
	case boulder.Decomposed, boulder.TaskComplete, boulder.SubTaskDone, boulder.Judged, boulder.Retry, boulder.Unparked,
		boulder.Reopened, boulder.Integrated, boulder.Conflict:
		l.end(at, line)
	case boulder.StatusChanged:
		l.end(at, "")
		switch b.Status {
		case boulder.Paused:
			l.begin(at, "you", line)
		case boulder.Synthesizing:
			l.begin(at, "gate", "gates on the final files, and the answer")
		}
	case boulder.Resumed:
		l.end(at, "until another process resumed it")
	case boulder.Starting:
		if l.end(at, ""); at.Sub(queued[b.AttemptRef]) >= time.Second {
			l.bars = append(l.bars, bar{"wait", fmt.Sprintf("attempt %d waits for its slot", b.Attempt), queued[b.AttemptRef], at})
		}
		l.begin(at, "turn", fmt.Sprintf("attempt %d: its session starts", b.Attempt))
	case boulder.TurnSent:
		l.begin(at, "turn", fmt.Sprintf("attempt %d, %s", b.Attempt, line))
	case boulder.TurnEnded:
		ran := b.Evidence.Gates // they ran before this event, after the end of the turn
		begun := at
		for _, g := range ran {
			begun = begun.Add(-g.Duration)
		}
		if l.open != nil && begun.Before(l.open.from) {
			begun = l.open.from
		}
		l.end(begun, line)
		for _, g := range ran {
			kind := map[bool]string{true: "gate", false: "bad"}[g.Holds()]
			l.bars = append(l.bars, bar{kind, "gate " + report.NewGate(g).Text() + ": " + g.Command, begun, begun.Add(g.Duration)})
			begun = begun.Add(g.Duration)
		}
		l.begin(at, "judge", "judging")
	case boulder.Trouble:
		l.begin(at, "wait", line)
	case boulder.Continuation:
		if b.NotBefore.After(at) {
			l.begin(at, "wait", line)
		}
	case boulder.BlockerSettled:
		if l.open != nil && l.open.kind == "you" {
			l.end(at, line)
		}
	case boulder.Integrating:
		l.begin(at, "gate", line)
	case boulder.ReplanStarted:
		whole.begin(at, "plan", line)
	case boulder.PlanTrouble:
		whole.begin(at, "wait", line)
	case boulder.ReplanProposed, boulder.RevisionRefused:
		whole.begin(at, "you", line)
	case boulder.Replanned, boulder.ReplanRefused:
		whole.end(at, line)
		l.end(at, line)
	}
}

func chart(r *reading, link func(id string) string) template.HTML {
	all, from, to := lanes(r)
	if from.IsZero() {
		return ""
	}
	span := max(to.Sub(from), time.Second)
	x := func(at time.Time) float64 { return chartNames + chartWide*float64(at.Sub(from))/float64(span) }
	height := chartHead + chartLane*len(all) + 6
	var s strings.Builder
	fmt.Fprintf(&s, `<svg class="chart" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="group">`+
		"<title>What the time went into</title>\n", chartNames+chartWide+30, height)
	const ticks = 5
	for i := range ticks {
		at := from.Add(span * time.Duration(i) / (ticks - 1))
		layout := map[bool]string{true: time.TimeOnly, false: "Jan 2 15:04"}[span < 20*time.Hour]
		anchor := []string{"start", "middle", "middle", "middle", "end"}[i]
		fmt.Fprintf(&s, `<path class="tick" d="M%.1f %dV%d"/><text class="when" text-anchor="%s" x="%.1f" y="14">%s</text>`,
			x(at), chartHead-4, height, anchor, x(at), at.Local().Format(layout))
	}
	for i, l := range all {
		y := chartHead + i*chartLane
		name := html.EscapeString(text.Clip(l.name, chartNames/7))
		if to := link(l.id); to != "" && l.id != "" {
			name = fmt.Sprintf(`<a href="%s">%s</a>`, html.EscapeString(to), name)
		}
		fmt.Fprintf(&s, "\n"+`<text class="name" x="0" y="%d">%s</text>`, y+chartBar, name)
		for _, b := range l.bars {
			fmt.Fprintf(&s, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"><title>%s</title></rect>`, b.kind, x(b.from), y+3,
				max(2, x(b.to)-x(b.from)), chartBar,
				html.EscapeString(text.Clip(b.title, 300)+" ("+text.Elapsed(b.to.Sub(b.from))+")"))
		}
	}
	s.WriteString("\n</svg>\n")
	return template.HTML(s.String())
}
