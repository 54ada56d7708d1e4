package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/watch"
)

// newWatchView shows decisions as they are made: as objects for programs, else a line each. It is called on the watch's
// loop goroutine.
func (a *app) newWatchView(o *watchOptions) func(watch.Entry) {
	if a.json {
		return func(e watch.Entry) { _ = a.printJSON(e) } // a reader that went away is no reason to stop
	}
	out := a.Stderr
	if o.dryRun || o.once {
		out = a.Stdout // it is what was asked for
	}
	p := a.paint(out)
	before := map[string]watch.Entry{}
	return func(e watch.Entry) {
		// A run makes a session for each attempt: that they are left alone is not worth a line each.
		quiet := e.Gate == enforcer.GateOwned && !o.dryRun || follows(before[e.SessionID], e)
		before[e.SessionID] = e
		if !a.verbose && (a.quiet || quiet) {
			return
		}
		width := 0 // a file has lines of any length
		if terminal(out) {
			width = terminalSize(out).Width
		}
		fmt.Fprintln(out, watchLine(p, e, width))
		if o.dryRun && e.Prompt != "" {
			fmt.Fprintln(out, indent(safeText(e.Prompt), "    "))
		}
	}
}

// follows reports whether a decision says nothing that the one before did not say: that what was sent is on its way, and
// that a session rests which was complete or let go.
func follows(before, e watch.Entry) bool {
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

// watchLine is a decision: when, about which session, what, and why. It is one line, unless a terminal is too narrow.
func watchLine(p paint, e watch.Entry, width int) string {
	title := fit(e.Title, widthTitle)
	if width > 0 && width < roomyTerminal {
		title = fit(e.Title, widthNarrowTitle)
	}
	head := clock(e.Time) + " " + fit(shortSession(e.SessionID), widthSession) + " "
	text := wrap(p.dim(title)+" "+watchWord(p, e)+" "+clipText(e.Reason, 300), width-1-len(head))
	return p.dim(head) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", len(head)))
}

const (
	widthSession     = 6
	widthTitle       = 24
	widthNarrowTitle = 14 // on a terminal below roomyTerminal
	roomyTerminal    = 100
)

// shortSession is the end of a session's id, by which people can name it.
func shortSession(id string) string { return id[max(0, len(id)-widthSession):] }

// watchWord is what was decided.
func watchWord(p paint, e watch.Entry) string {
	would := ""
	if e.DryRun {
		would = "would: "
	}
	switch e.Decision {
	case enforcer.Wait:
		return p.dim(would + "waits (" + string(e.Gate) + "):")
	case enforcer.Countdown:
		return p.yellow(would + "counts down:")
	case enforcer.Send:
		return p.cyan(fmt.Sprintf("%sgoes on (%d):", would, e.Iteration))
	case enforcer.Fresh:
		return p.cyan(fmt.Sprintf("%sgoes on in a fresh session (%d):", would, e.Iteration))
	case enforcer.Finish:
		return p.green(would + "complete:")
	case enforcer.LetGo:
		return p.red(would + "lets go:")
	case enforcer.Check:
		return would + "checks:"
	}
	return would + string(e.Decision) + ":"
}

// runWatchStatus tells how the sessions are.
func (a *app) runWatchStatus(ctx context.Context) error {
	p, err := a.watchProject()
	if err != nil {
		return err
	}
	report, err := p.read(ctx)
	if a.json {
		for _, s := range report.Sessions {
			if err := a.printJSON(newWatchItem(s)); err != nil {
				return err
			}
		}
		return err
	}
	switch {
	case report.Holder.PID == 0:
		a.note("Nobody watches here now.")
	case report.Online:
		a.note("Process %d watches, at %s, since %s.", report.Holder.PID, report.Holder.URL,
			report.Holder.Since.Local().Format(time.DateTime))
	default:
		a.note("Process %d watches, and waits for OpenCode at %s.", report.Holder.PID, report.Holder.URL)
	}
	if len(report.Sessions) == 0 && err == nil {
		a.note("No session is known here.")
	}
	var out strings.Builder
	for _, s := range report.Sessions {
		if s.Watched || report.Holder.PID == 0 || s.Newest == nil || s.Newest.Gate != enforcer.GateOwned || a.verbose {
			fmt.Fprintln(&out, watchStatusLine(a.paint(a.Stdout), newWatchItem(s)))
		}
	}
	fmt.Fprint(a.Stdout, out.String())
	return err
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

func newWatchItem(s watch.Status) watchItem {
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

func watchStatusLine(p paint, s watchItem) string {
	status := string(s.Status)
	switch s.Status {
	case enforcer.Complete:
		status = p.green(fit(status, widthWatchStatus))
	case enforcer.Stopped, enforcer.Exhausted:
		status = p.yellow(fit(status, widthWatchStatus))
	default:
		status = fit(status, widthWatchStatus)
	}
	counts := fmt.Sprintf("%d sent, %d failed, %d open", s.Iteration, s.FailureCount, len(s.Open))
	return p.dim(s.SessionID) + "  " + status + "  " + fit(counts, widthCounts) + "  " + fit(s.Title, widthTitle) + "  " +
		clipText(s.Reason, 200)
}

const (
	widthWatchStatus = 9
	widthCounts      = 26
)

// watchHistory is what `manager show --why SESSION --json` prints of a watched session. Fields are added in later
// versions, never changed.
type watchHistory struct {
	Type      string        `json:"type"` // watched-session-why
	SessionID string        `json:"session_id"`
	Session   *watchItem    `json:"session"` // null if nothing is known of it
	Decisions []watch.Entry `json:"decisions"`
}

// isSession recognises the id of an OpenCode session.
func isSession(text string) bool { return strings.HasPrefix(text, "ses_") }

// watchedSession is the id of the watched session that ends so; empty if there is none, or several.
func (a *app) watchedSession(ctx context.Context, end string) string {
	p, err := a.watchProject()
	if err != nil || len(end) < widthSession {
		return ""
	}
	report, _ := p.read(ctx) // what cannot be read is told by the command that needs it
	found := ""
	for _, s := range report.Sessions {
		if strings.HasSuffix(s.SessionID, end) {
			if found != "" {
				return ""
			}
			found = s.SessionID
		}
	}
	return found
}

// runWhySession shows the decisions about a session that is or was watched.
func (a *app) runWhySession(ctx context.Context, id string) error {
	p, err := a.watchProject()
	if err != nil {
		return err
	}
	report, err := p.read(ctx)
	if err != nil {
		return err
	}
	h := watchHistory{Type: "watched-session-why", SessionID: id}
	for _, s := range report.Sessions {
		if s.SessionID == id {
			item := newWatchItem(s)
			h.Session = &item
		}
	}
	history, err := p.history(ctx, id)
	h.Decisions = append([]watch.Entry{}, history...)
	switch {
	case err == nil && h.Session == nil && len(history) == 0:
		return usagef("nothing is known of session %s here: `manager watch --status` lists those that are or were watched", id)
	case a.json:
		if printErr := a.printJSON(h); printErr != nil {
			return printErr
		}
		return err
	}
	a.printWhySession(h)
	return err
}

func (a *app) printWhySession(h watchHistory) {
	p := a.paint(a.Stdout)
	var out strings.Builder
	if h.Session != nil {
		fmt.Fprintf(&out, "%s %s\n%s\n", p.bold("Session"), p.bold(h.SessionID), watchStatusLine(p, *h.Session))
	}
	day := ""
	for _, e := range h.Decisions {
		if d := e.Time.Local().Format(time.DateOnly); d != day {
			day = d
			fmt.Fprintf(&out, "\n%s\n", p.dim(day))
		}
		fmt.Fprintf(&out, "%s %s %s\n", p.dim(clock(e.Time)), watchWord(p, e), clipText(e.Reason, 300))
		if e.Prompt != "" {
			fmt.Fprintln(&out, p.dim(indent(safeText(e.Prompt), "    ")))
		}
	}
	fmt.Fprint(a.Stdout, out.String())
}
