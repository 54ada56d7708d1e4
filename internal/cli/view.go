package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/charmbracelet/colorprofile"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/view"
)

// runView shows a run while it goes on.
type runView interface {
	// Event shows one event. It is called on the loop goroutine of the run, for each event in order, and does not block.
	Event(e boulder.Event)
	// Stopping says that the run was asked to stop and lets its turns end. It may be called from any goroutine.
	Stopping()
	// Pause gives the terminal to somebody else, until the function that it returns is called. It may be called from any
	// goroutine.
	Pause() (resume func())
	// Close gives the terminal back. Nothing is shown after it. It may be called again.
	Close()
}

// loader reads a boulder that was begun by an earlier process; a *store.DB is one.
type loader interface {
	Load(ctx context.Context, boulderID string) (*boulder.State, error)
}

// newRunView chooses how to show a run: as events for programs, live on a terminal, else as plain lines.
func (a *app) newRunView(db loader) runView { return a.newRunViewOf(newProgress(db)) }

// newRunViewOf is newRunView for what has been seen of already.
func (a *app) newRunViewOf(follow *progress) runView {
	switch {
	case a.json:
		return &jsonView{app: a}
	case a.quiet:
		return &quietView{app: a}
	case a.drawable():
		return newLiveView(a, follow)
	}
	return &linesView{app: a, progress: follow}
}

// drawable reports whether a picture can be drawn on stderr. With --verbose the diagnostics would tear it.
func (a *app) drawable() bool {
	return terminal(a.Stderr) && a.Getenv("TERM") != "dumb" && a.Getenv("TERM") != "" && !a.verbose
}

// openScreen takes the terminal of stderr.
func (a *app) openScreen(p view.Picture) *view.Screen {
	profile := colorprofile.ASCII
	if a.color(a.Stderr) {
		profile = colorprofile.ANSI
	}
	return view.OpenScreen(bare(a.Stderr), a.Getenv("TERM"), profile, p)
}

// terminalSize is that of a stream.
func terminalSize(stream any) view.Size {
	if f, ok := fileOf(stream); ok {
		return view.SizeOf(f)
	}
	return view.SizeOf(nil)
}

// newServeView shows one of several runs that go on at the same time: its lines begin with the end of its id.
func (a *app) newServeView(db loader, id string) runView {
	if a.json || a.quiet {
		return a.newRunView(db)
	}
	return &linesView{app: a, progress: newProgress(db), prefix: id[max(0, len(id)-6):] + " "}
}

func newProgress(db loader) *progress {
	return &progress{
		load: db, spent: map[string]time.Duration{}, doing: map[string]doing{}, last: map[string]lastTurn{},
		raised: map[string]boulder.Blocker{},
	}
}

// printJSON writes one object on a line of stdout.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// jsonView prints the documented events, one object per line, each as soon as it happened.
type jsonView struct{ app *app }

func (v *jsonView) Event(e boulder.Event) {
	if e.Public() {
		_ = v.app.printJSON(e) // a reader that went away is no reason to stop the work
	}
}

func (v *jsonView) Stopping()     { v.app.note("%s", stoppingText) }
func (v *jsonView) Pause() func() { return func() {} }
func (v *jsonView) Close()        {}

// quietView shows nothing but how it ended.
type quietView struct{ app *app }

func (v *quietView) Event(e boulder.Event) {
	if end, ok := e.Body.(boulder.TaskComplete); ok {
		v.app.printSummary(e.BoulderID, end, 0)
	}
}

func (v *quietView) Stopping()     {}
func (v *quietView) Pause() func() { return func() {} }
func (v *quietView) Close()        {}
