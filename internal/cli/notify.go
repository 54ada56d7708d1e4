package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/notify"
	morning "github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// ending is what a run owes to people who are not there: a report when it ends, and a notification if the configuration
// asks for it. One belongs to one run; its methods are called on one goroutine.
type ending struct {
	deps     *deps
	db       reader
	notifier *notify.Notifier // nil: nobody is to be told

	id      string
	end     *boulder.TaskComplete // nil: it did not come to an end
	waiting waitingSubTask
	choices int // that agents made, and nobody has looked at
	telling sync.WaitGroup
}

// newEnding is for a run that is about to begin. The error says what is wrong with the configuration.
func (d *deps) newEnding(db reader) (*ending, error) {
	notifier, err := d.Notifier()
	return &ending{deps: d, db: db, notifier: notifier}, err
}

// take notices what somebody may want to be told.
func (e *ending) take(ctx context.Context, event boulder.Event) {
	e.id = event.BoulderID
	if end, ok := event.Body.(boulder.TaskComplete); ok {
		e.end = &end
	}
	if e.waiting.news(event.Body) && e.wants(notify.Blocked) {
		id := e.id
		e.telling.Go(func() { // the run does not wait for it
			made, err := e.report(ctx, id)
			if made == nil {
				e.deps.log.Warn("nobody was told that a sub-task is blocked", "error", err)
				return
			}
			made.Running = true
			e.send(ctx, made, notify.Blocked, nil, "")
		})
	}
}

// waitingSubTask notices once that a sub-task waits for an answer while others go on. A run that has nothing else to do
// ends at once, and that is told then. A session that holds still until a person answers is noticed at once, the first
// one of a run: its time is short.
type waitingSubTask struct {
	asked  map[boulder.AttemptRef]bool // attempts that raised a hard blocker
	parked string
	told   bool
	held   bool // that a session holds still was told
}

// news takes an event, and reports whether it is time to tell.
func (w *waitingSubTask) news(body boulder.Body) bool {
	switch b := body.(type) {
	case boulder.BlockerRaised:
		if ask := b.Blocker.Ask; ask != nil && ask.Reply == boulder.ReplyWaiting && !b.Blocker.Status.Settled() && !w.held {
			w.held = true
			return true
		}
		if b.Blocker.Hard && !b.Blocker.Status.Settled() {
			if w.asked == nil {
				w.asked = map[boulder.AttemptRef]bool{}
			}
			w.asked[b.AttemptRef] = true
		}
		return false
	case boulder.Parked:
		if w.parked == "" && w.asked[b.AttemptRef] {
			w.parked = b.SubTaskID
		}
		return false
	case boulder.BlockerSettled, boulder.SubTaskDone: // nothing goes on because of these
		return false
	}
	other, _, _ := view.Describe(body)
	if w.told || w.parked == "" || other == "" || other == w.parked {
		return false
	}
	w.told = true
	return true
}

// conclude is called when the run has ended, with the error that ended it. It writes the report, tells whoever is to be
// told, and returns the report's path, relative to the project; empty if there is none. What goes wrong here is a
// warning: the run's result stands.
func (e *ending) conclude(ctx context.Context, runErr error) string {
	e.telling.Wait()
	if e.id == "" {
		return ""
	}
	d := e.deps
	made, err := e.report(context.WithoutCancel(ctx), e.id)
	if err != nil {
		d.app.warn("the report of boulder %s lacks something: %v", e.id, err)
	}
	if made == nil {
		return ""
	}
	made.Running = false // this process was at it
	e.choices = made.Choices()
	d.warnOfUnwritten(context.WithoutCancel(ctx))
	path, err := d.writeReport(made)
	if err != nil {
		d.app.warn("the report of boulder %s could not be written: %v", e.id, err)
	}
	if what := eventOf(runErr); what != "" && e.wants(what) {
		e.send(ctx, made, what, new(exitCode(runErr)), path)
	}
	return path
}

// report is that of the boulder as it is now.
func (e *ending) report(ctx context.Context, id string) (*morning.Report, error) {
	d, err := e.db.Get(ctx, id)
	if d.Boulder.ID == "" {
		return nil, err
	}
	made, reportErr := e.deps.app.makeReport(ctx, e.db, d, time.Now())
	return made, cmp.Or(err, reportErr)
}

// told adds to the end of a run where its report is: to the error, or on stderr.
func (e *ending) told(path string, runErr error) error {
	if path == "" {
		return runErr
	}
	if e.choices > 0 && runErr == nil {
		e.deps.app.note("%s that agents made: manager report", text.Plural(e.choices, "choice"))
	}
	path = e.deps.app.pretty(filepath.Join(e.deps.Dir(), path))
	if runErr != nil {
		return fmt.Errorf("%w\nReport: %s", runErr, path)
	}
	e.deps.app.note("Report: %s", path)
	return nil
}

func (e *ending) wants(what notify.Event) bool {
	return e.notifier != nil && e.deps.Config().Notify.Wants(what)
}

// eventOf is what there is to tell about the end of a run; empty if a person ended it, who knows.
func eventOf(runErr error) notify.Event {
	if errors.Is(runErr, orchestrator.ErrDeclined) {
		return ""
	}
	switch exitCode(runErr) {
	case exitOK:
		return notify.Finished
	case exitInterrupted:
		return ""
	case exitWaiting:
		if _, ok := errors.AsType[*orchestrator.BudgetError](runErr); ok {
			return notify.Budget
		}
		return notify.Blocked
	}
	return notify.Failed
}

func (e *ending) send(ctx context.Context, made *morning.Report, what notify.Event, code *int, path string) {
	err := e.notifier.Send(ctx, notify.Message{
		Event: what, Time: made.MadeAt, BoulderID: made.BoulderID, Status: made.Status, Title: titleOf(what, made),
		Project: filepath.Base(e.deps.Dir()), Tally: made.Tally, Awaited: len(made.Awaited()), ExitCode: code,
		Report: filepath.ToSlash(path),
	})
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) { // one for each way
		e.deps.app.warn("%s", strings.TrimSuffix(line, "\n"))
	}
}

// titleOf is a notification in a sentence. It has nothing in it that a person, a model or an agent wrote.
func titleOf(what notify.Event, made *morning.Report) string {
	s := fmt.Sprintf("Boulder %s ", made.BoulderID)
	switch what {
	case notify.Finished:
		s += "is done"
	case notify.Budget:
		s += "has used its budget up"
	case notify.Blocked:
		s += "waits for a person"
		if n := len(made.Awaited()); n > 0 {
			s += ", with " + text.Plural(n, "question")
		}
		if until := heldUntil(made); !until.IsZero() {
			s += ", until " + until.UTC().Format("15:04:05 UTC")
		} else if made.Running {
			s += ", and goes on with the rest"
		}
	case notify.Failed:
		s += "was broken off by an error"
		if made.Status.Terminal() {
			s = fmt.Sprintf("Boulder %s is over, and not everything is done", made.BoulderID)
		}
	}
	return s + ": " + made.Counts()
}

// heldUntil is when the first session goes on that holds still until a person answers; zero if none does.
func heldUntil(made *morning.Report) time.Time {
	var first time.Time
	for _, b := range made.Awaited() {
		if blockers.Waiting(&b.Blocker, made.MadeAt) && (first.IsZero() || b.Until.Before(first)) {
			first = b.Until
		}
	}
	return first
}

// warnOfUnwritten says at the end of a run what the list for people lacks, and why.
func (d *deps) warnOfUnwritten(ctx context.Context) {
	if !exists(filepath.Join(d.Dir(), store.DirName, blockers.FileName)) {
		return
	}
	desk, err := d.Blockers()
	if err != nil {
		return // the run would not have begun
	}
	s, err := desk.Status(ctx)
	switch {
	case err != nil:
		d.app.warn("whether %s has every blocker is not known: %v", s.File, err)
	case s.Unwritten > 0:
		d.app.warn("%s not in %s yet: %s. Nothing is lost: see manager blockers list; it is tried again with every command",
			view.Are(s.Unwritten, "item"), s.File, cmp.Or(s.Trouble, "it could not be written"))
	}
}

// warn tells people of something that went wrong and changes nothing.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(a.Stderr, "manager: warning: %s\n", text.Safe(fmt.Sprintf(format, args...)))
}
