package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/watch"
)

// Watch shows decisions as they are made, a line each; with all also those that say nothing new. It is called on the
// watch's loop goroutine.
func Watch(o page.Out, quiet, all, dryRun bool) func(watch.Entry) {
	before := map[string]watch.Entry{}
	return func(e watch.Entry) {
		// A run makes a session for each attempt: that they are left alone is not worth a line each.
		known := e.Gate == enforcer.GateOwned && !dryRun || Follows(before[e.SessionID], e)
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

// Follows reports whether a decision says nothing that the one before did not say: that what was sent is on its way, and
// that a session rests which was complete or let go.
func Follows(before, e watch.Entry) bool {
	if e.Decision != enforcer.Wait {
		return false
	}
	switch before.Decision {
	case enforcer.Send, enforcer.Fresh:
		return e.Gate == enforcer.GateInFlight
	case enforcer.Finish:
		return e.Gate == enforcer.GateWork
	case enforcer.LetGo:
		return e.Gate == enforcer.GateLetGo
	}
	return false
}

// Widths of columns; 0: as they come.
const (
	WidthSession     = 6
	widthTitle       = 24
	widthWatchStatus = 9
	widthCounts      = 26
)

// printDecision is a decision: when, of several sessions about which, what, and why.
func printDecision(o page.Out, e watch.Entry, which bool) {
	of := ""
	if which { // the end of a session's id is what people name it by
		title := widthTitle
		if width := o.Lines(); width > 0 && width < 99 {
			title = 14
		}
		of = o.Dim(text.Fit(e.SessionID[max(0, len(e.SessionID)-WidthSession):], WidthSession)+" "+text.Fit(e.Title, title)) + " "
	}
	o.Say(o.Dim(Clock(e.Time)), " ", of, watchWord(o.Paint, e), " ", text.Clip(e.Reason, 300))
}

// watchWord is what was decided.
func watchWord(p page.Paint, e watch.Entry) string {
	would := ""
	if e.DryRun {
		would = "would: "
	}
	switch e.Decision {
	case enforcer.Wait:
		return p.Dim(would + "waits (" + string(e.Gate) + "):")
	case enforcer.Countdown:
		return p.Yellow(would + "counts down:")
	case enforcer.Send:
		return p.Cyan(fmt.Sprintf("%scontinues (%d):", would, e.Iteration))
	case enforcer.Fresh:
		return p.Cyan(fmt.Sprintf("%scontinues in a fresh session (%d):", would, e.Iteration))
	case enforcer.Finish:
		return p.Green(would + "complete:")
	case enforcer.LetGo:
		return p.Red(would + "lets go:")
	case enforcer.Check:
		return would + "checks:"
	}
	return would + string(e.Decision) + ":"
}

// watchItem is one line of `manager watch --status --json`. Fields are added in later versions, never changed.
type watchItem struct {
	Type            string          `json:"type"` // watched-session
	SessionID       string          `json:"session_id"`
	Title           string          `json:"title,omitempty"`
	Status          enforcer.Status `json:"status"`
	Reason          string          `json:"reason,omitempty"` // of the status, or of the newest decision
	Watched         bool            `json:"watched"`          // a process watches it now
	Busy            bool            `json:"busy"`
	Iteration       int             `json:"iteration"`
	FailureCount    int             `json:"failure_count"`
	StopRequested   bool            `json:"stop_requested"`
	LastActivity    time.Time       `json:"last_activity,omitzero"`
	LastEnforcement time.Time       `json:"last_enforcement,omitzero"`
	Open            []string        `json:"open"` // items that were open when the newest turn ended
	Newest          *watch.Entry    `json:"newest,omitempty"`
}

// NewWatchItem is a watched session as `manager watch --status --json` prints it.
func NewWatchItem(s watch.Status) watchItem {
	t := s.Track
	item := watchItem{
		Type: "watched-session", SessionID: s.SessionID, Title: s.Title, Status: t.Status, Reason: t.Reason, Watched: s.Watched,
		Busy: s.Busy, Iteration: t.Iteration, FailureCount: t.FailureCount, StopRequested: t.StopRequested,
		LastActivity: t.LastActivity, LastEnforcement: t.LastEnforcement, Open: append([]string{}, t.Open...), Newest: s.Newest,
	}
	if item.Status == "" {
		item.Status = enforcer.Watching
	}
	if item.Reason == "" && s.Newest != nil {
		item.Reason = s.Newest.Reason
	}
	return item
}

// WatchStatusLine is a watched session in one line.
func WatchStatusLine(p page.Paint, s watchItem) string {
	status := string(s.Status)
	switch s.Status {
	case enforcer.Complete:
		status = p.Green(text.Fit(status, widthWatchStatus))
	case enforcer.Stopped, enforcer.Exhausted:
		status = p.Yellow(text.Fit(status, widthWatchStatus))
	default:
		status = text.Fit(status, widthWatchStatus)
	}
	counts := fmt.Sprintf("%d sent, %d failed, %d open", s.Iteration, s.FailureCount, len(s.Open))
	return p.Dim(s.SessionID) + "  " + status + "  " + text.Fit(counts, widthCounts) + "  " + text.Fit(s.Title, widthTitle) + "  " +
		text.Clip(s.Reason, 200)
}

// WatchHistory is what `manager show --why SESSION --json` prints of a watched session. Fields are added in later
// versions, never changed.
type WatchHistory struct {
	Type      string        `json:"type"` // watched-session-why
	SessionID string        `json:"session_id"`
	Session   *watchItem    `json:"session"` // null if nothing is known of it
	Decisions []watch.Entry `json:"decisions"`
}

// IsSession recognises the id of an OpenCode session.
func IsSession(text string) bool { return strings.HasPrefix(text, "ses_") }

// Print writes the decisions about the session, the oldest first.
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
