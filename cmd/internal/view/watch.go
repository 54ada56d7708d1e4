package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

// Watch returns a function that prints a line per decision, with all also for redundant ones. The function runs only on
// the watch's loop goroutine.
func Watch(o page.Out, quiet, all, dryRun bool) func(project.WatchEntry) {
	before := map[string]project.WatchEntry{}
	return func(e project.WatchEntry) {
		// A run creates a session per attempt. That the watch ignores them is not worth a line each.
		known := e.Gate == enforcer.GateOwned && !dryRun || saysNothingNew(before[e.SessionID], e)
		before[e.SessionID] = e
		if !all && (quiet || known) {
			return
		}
		printDecision(o, e, true)
		if dryRun && e.Prompt != "" {
			o.Text(2, e.Prompt)
		}
	}
}

// silent maps a decision to the wait that is redundant after it: a prompt is in flight, or the session is complete or
// was let go.
var silent = map[enforcer.Kind]enforcer.Gate{
	enforcer.Send: enforcer.GateInFlight, enforcer.Fresh: enforcer.GateInFlight, enforcer.Finish: enforcer.GateWork,
	enforcer.LetGo: enforcer.GateLetGo,
}

func saysNothingNew(before, e project.WatchEntry) bool {
	gate, ok := silent[before.Decision]
	return ok && e.Decision == enforcer.Wait && e.Gate == gate
}

// Widths of columns.
const (
	WidthSession     = 6
	widthTitle       = 24
	widthWatchStatus = 9
	widthCounts      = 26
)

// printDecision prints time, decision and reason; with which also the session.
func printDecision(o page.Out, e project.WatchEntry, which bool) {
	of := ""
	if which { // users name a session by the end of its id
		title := widthTitle
		if width := o.Lines(); width > 0 && width < 99 {
			title = 14
		}
		of = o.Dim(text.Fit(e.SessionID[max(0, len(e.SessionID)-WidthSession):], WidthSession)+" "+text.Fit(e.Title, title)) + " "
	}
	o.Say(o.Dim(Clock(e.Time)), " ", of, watchWord(o.Paint, e), " ", text.Clip(e.Reason, 300))
}

func watchWord(p page.Paint, e project.WatchEntry) string {
	w := map[enforcer.Kind]struct {
		sign page.Sign
		word string
	}{
		enforcer.Wait:      {page.NoSign, "waits (" + string(e.Gate) + ")"},
		enforcer.Check:     {page.NoSign, "checks"},
		enforcer.Countdown: {page.Attention, "counts down"},
		enforcer.Send:      {page.Active, fmt.Sprintf("continues (%d)", e.Iteration)},
		enforcer.Fresh:     {page.Active, fmt.Sprintf("continues in a fresh session (%d)", e.Iteration)},
		enforcer.Finish:    {page.Good, "complete"},
		enforcer.LetGo:     {page.Bad, "lets go"},
	}[e.Decision]
	return p.As(w.sign, text.If(e.DryRun, "would: ")+cmp.Or(w.word, string(e.Decision))+":")
}

// WatchStatusLine describes a watched session in one line.
func WatchStatusLine(p page.Paint, s project.WatchStatus) string {
	status := text.Fit(string(s.Status), widthWatchStatus)
	switch s.Status {
	case enforcer.Complete:
		status = p.Green(status)
	case enforcer.Stopped, enforcer.Exhausted:
		status = p.Yellow(status)
	}
	return strings.Join([]string{
		p.Dim(s.SessionID), status, text.Fit(watchCounts(s), widthCounts), text.Fit(s.Title, widthTitle), text.Clip(s.Reason, 200),
	}, "  ")
}

func watchCounts(s project.WatchStatus) string {
	return fmt.Sprintf("%d sent, %d failed, %d open", s.Iteration, s.FailureCount, len(s.Open))
}

// Watched returns the sessions that are or were watched here, latest activity first, without those of runs.
func Watched(r project.WatchReport) []project.WatchStatus {
	return slices.DeleteFunc(slices.Clone(r.Sessions), func(s project.WatchStatus) bool {
		return !s.Watched && s.Newest != nil && s.Newest.Gate == enforcer.GateOwned
	})
}

// PrintWatched prints a line for each watched session.
func PrintWatched(o page.Out, sessions []project.WatchStatus) {
	for _, s := range sessions {
		status := text.If(!s.Watched, "no watch now, was ") + string(cmp.Or(s.Status, enforcer.Watching))
		o.Item(1, text.JoinedBy(" · ", o.Plain(cmp.Or(text.OneLine(s.Title), s.SessionID)), o.Strong(status),
			o.Faint(watchCounts(s)), o.Plain(text.Clip(s.Reason, 200))))
	}
}

// WatchedText counts watched sessions, and those that rest: "3 sessions watched, 1 of them stopped or exhausted".
func WatchedText(sessions []project.WatchStatus) string {
	watched, rest := 0, 0
	for _, s := range sessions {
		switch {
		case !s.Watched:
			continue
		case s.Status == enforcer.Stopped, s.Status == enforcer.Exhausted:
			rest++
		}
		watched++
	}
	return text.If(watched > 0, text.Plural(watched, "session")+" watched"+text.If(rest > 0, fmt.Sprintf(", %d of them stopped or exhausted", rest)))
}

// WatchHistory is what `manager show --why SESSION --json` prints: one object.
type WatchHistory struct {
	Type      string               `json:"type"` // watched-session-why
	SessionID string               `json:"session_id"`
	Session   *project.WatchStatus `json:"session"` // null if unknown
	Decisions []project.WatchEntry `json:"decisions"`
}

// IsSession reports whether text is the id of an OpenCode session.
func IsSession(text string) bool { return strings.HasPrefix(text, "ses_") }

// Print writes the decisions about the session, oldest first.
func (h *WatchHistory) Print(o page.Out) {
	if h.Session != nil {
		o.Say(o.Bold("Session " + h.SessionID))
		o.Say(WatchStatusLine(o.Paint, *h.Session))
	}
	day := ""
	for _, e := range h.Decisions {
		if d := e.Time.Local().Format(time.DateOnly); d != day {
			day = d
			o.Say()
			o.Say(o.Dim(day))
		}
		printDecision(o, e, false)
		o.Text(2, e.Prompt)
	}
}
