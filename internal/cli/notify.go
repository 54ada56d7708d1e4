package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/notify"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/tracing"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

// ending is what a run owes to users who are not there: a report when it ends, and notifications if the configuration asks
// for them. One belongs to one run; its methods are called on one goroutine.
type ending struct {
	*app
	db       project.Reader
	notifier *notify.Notifier

	id           string
	complete     *boulder.TaskComplete // nil: it did not come to an end
	choices      string                // that agents made, and nobody has looked at
	held, parked bool                  // it was told that a session holds still, and that a sub-task waits
	limited      map[string]time.Time  // by model: the end of a limit that was told
	telling      sync.WaitGroup
}

// take notices what the user may want to be told.
func (e *ending) take(ctx context.Context, event boulder.Event) {
	e.id = event.BoulderID
	if end, ok := event.Body.(boulder.TaskComplete); ok {
		e.complete = &end
	}
	what, until := e.news(ctx, event)
	if !e.wants(what) {
		return
	}
	id := e.id
	e.telling.Go(func() { // the run does not wait for it
		made, err := e.report(ctx, id)
		if made == nil {
			e.logger().Warn("no notification was sent about the boulder", "event", what, "error", err)
			return
		}
		made.Running = true
		e.send(ctx, made, what, nil, "", until)
	})
}

// news is what there is to tell while a run goes on, once each: that a model is limited, for ten minutes or more; that a
// session holds still until the user answers; and that a sub-task waits for an answer while others go on. A run that has
// nothing else to do ends at once, and that is told then.
func (e *ending) news(ctx context.Context, event boulder.Event) (what notify.Event, until time.Time) {
	switch b := event.Body.(type) {
	case boulder.Cooled:
		if b.Until.Sub(event.Time) >= 10*time.Minute && !event.Time.Before(e.limited[b.Model]) {
			e.limited[b.Model] = b.Until
			return notify.Limited, b.Until
		}
	case boulder.BlockerRaised:
		ask := b.Blocker.Ask
		if !e.held && ask != nil && ask.Reply == boulder.ReplyWaiting && !b.Blocker.Status.Settled() {
			e.held = true
			return notify.Blocked, until
		}
	case boulder.Parked:
		d, _ := e.db.Get(ctx, e.id) // what cannot be read is told at the end
		asked := slices.ContainsFunc(d.SubTasks, func(t *boulder.SubTask) bool {
			return t.ID == b.SubTaskID && len(t.AwaitedBy(b.Attempt)) > 0
		})
		others := slices.ContainsFunc(d.Attempts, func(t *boulder.Attempt) bool { return !t.Status.Terminal() })
		if !e.parked && asked && others {
			e.parked = true
			return notify.Blocked, until
		}
	}
	return "", until
}

// conclude is called when the run has ended, with the error that ended it. It writes the report, tells whoever is to be
// told, and returns the report's path, relative to the project; empty if there is none. What goes wrong here is a
// warning: the run's result stands.
func (e *ending) conclude(ctx context.Context, runErr error) string {
	e.telling.Wait()
	if e.id == "" {
		return ""
	}
	made, err := e.report(context.WithoutCancel(ctx), e.id)
	if err != nil {
		e.warn("the report of boulder %s lacks something: %v", e.id, err)
	}
	if made == nil {
		return ""
	}
	made.Running = false // this process was at it
	e.choices = made.Choices()
	e.warnOfUnwritten(context.WithoutCancel(ctx))
	path, err := e.writeReport(made)
	if err != nil {
		e.warn("the report of boulder %s could not be written: %v", e.id, err)
	}
	if to := e.Config().Tracing.Endpoint; to != "" {
		events, err := e.db.Events(context.WithoutCancel(ctx), e.id, 0, 0)
		if err == nil {
			err = tracing.Export(context.WithoutCancel(ctx), to, events)
		}
		if err != nil {
			e.warn("the trace of boulder %s was not sent: %v", e.id, err)
		}
	}
	if what := eventOf(runErr); e.wants(what) {
		e.send(ctx, made, what, new(exitCode(runErr)), path, time.Time{})
	}
	return path
}

func (e *ending) report(ctx context.Context, id string) (*report.Report, error) {
	d, err := e.db.Get(ctx, id)
	if d.Boulder.ID == "" {
		return nil, err
	}
	made, reportErr := e.ReadReport(ctx, &project.Access{Reader: e.db}, d)
	return made, cmp.Or(err, reportErr)
}

// told adds to the end of a run where its report is: to the error, or on stderr.
func (e *ending) told(path string, runErr error) error {
	if path == "" {
		return runErr
	}
	path = e.pretty(filepath.Join(e.Dir(), path))
	if runErr != nil {
		return fmt.Errorf("%w\nReport: %s", runErr, path)
	}
	if e.choices != "" {
		e.note("%s: manager report", e.choices)
	}
	e.note("Report: %s", path)
	return nil
}

func (e *ending) wants(what notify.Event) bool {
	return what != "" && e.Config().Notify.Wants(what)
}

// eventOf is what there is to tell about the end of a run; empty if the user ended it, who knows.
func eventOf(runErr error) notify.Event {
	_, spent := errors.AsType[*orchestrator.BudgetError](runErr)
	switch code := exitCode(runErr); {
	case code == exitOK:
		return notify.Finished
	case code == exitInterrupted || errors.Is(runErr, orchestrator.ErrDeclined):
		return ""
	case code == exitWaiting && spent:
		return notify.Budget
	case code == exitWaiting:
		return notify.Blocked
	}
	return notify.Failed
}

func (e *ending) send(ctx context.Context, made *report.Report, what notify.Event, code *int, path string, until time.Time) {
	err := e.notifier.Send(ctx, notify.Message{
		Event: what, Time: made.MadeAt, BoulderID: made.BoulderID, Status: made.Status, Title: titleOf(what, made, until),
		Project: filepath.Base(e.Dir()), Tally: made.Tally, Awaited: len(made.Awaited()), ExitCode: code,
		Report: filepath.ToSlash(path),
	})
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") { // one for each way
			e.warn("%s", line)
		}
	}
}

// titleOf is a notification in a sentence. It has nothing in it that the user, a model or an agent wrote.
func titleOf(what notify.Event, made *report.Report, until time.Time) string {
	says := map[notify.Event]string{
		notify.Finished: "is done", notify.Budget: "has used its budget up", notify.Blocked: "waits for the user",
		notify.Failed: "was broken off by an error", notify.Limited: "is limited until " + text.Until(until, made.MadeAt),
	}[what]
	awaited := made.Awaited() // the session first that goes on first
	if what == notify.Blocked && len(awaited) > 0 {
		says += ", with " + text.Plural(len(awaited), "question")
	}
	switch {
	case what == notify.Failed && made.Status.Terminal():
		says = "is over, and not everything is done"
	case what != notify.Blocked:
	case len(awaited) > 0 && blockers.Waiting(&awaited[0].Blocker, made.MadeAt):
		says += ", until " + awaited[0].Until.UTC().Format("15:04:05 UTC")
	case made.Running:
		says += ", and continues with the rest"
	}
	return fmt.Sprintf("Boulder %s %s: %s", made.BoulderID, says, made.Counts())
}

// warnOfUnwritten says at the end of a run what the list for people lacks, and why.
func (a *app) warnOfUnwritten(ctx context.Context) {
	switch s, err := a.Blockers().Status(ctx); {
	case err != nil:
		a.warn("whether %s has every blocker is not known: %v", s.File, err)
	case s.Unwritten > 0:
		a.warn("%s not in %s yet: %s. Nothing is lost: see manager blockers list; it is tried again with every command",
			text.Are(s.Unwritten, "item"), s.File, cmp.Or(s.Trouble, "it could not be written"))
	}
}

// warn tells the user of something that went wrong and changes nothing.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(a.Stderr, "manager: warning: %s\n", text.Safe(fmt.Sprintf(format, args...)))
}
