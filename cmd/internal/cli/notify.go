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

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

// ending writes the report at the end of one run, and sends its notifications. It is used on one goroutine.
type ending struct {
	*app
	db       project.Reader
	notifier *project.Notifier

	id           string
	complete     *boulder.TaskComplete // nil: the run is not complete
	choices      string                // of agents, that the user has not reviewed
	held, parked bool                  // notified: a session waits for a reply; a sub-task is parked
	limited      map[string]time.Time  // by model: end of the limit that was notified last
	telling      sync.WaitGroup
}

// take records an event, and sends a notification if one is due.
func (e *ending) take(ctx context.Context, event boulder.Event) {
	e.id = event.BoulderID
	if end, ok := event.Body.(boulder.TaskComplete); ok {
		e.complete = &end
	}
	what, until := e.dueNotification(ctx, event)
	if !e.wants(what) {
		return
	}
	id := e.id
	e.telling.Go(func() { // must not delay the run
		made, err := e.report(ctx, id)
		if made == nil {
			e.logger().Warn("no notification was sent about the boulder", "event", what, "error", err)
			return
		}
		made.Running = true
		e.send(ctx, made, what, nil, "", until)
	})
}

// dueNotification returns the notification that is due during a run: a model is limited for ten minutes or more (once
// per limit); a session waits for a reply, or a sub-task for an answer while others continue (once per run). A run
// with nothing else to do ends at once, with the notification of its end.
func (e *ending) dueNotification(ctx context.Context, event boulder.Event) (what project.NotifyEvent, until time.Time) {
	switch b := event.Body.(type) {
	case boulder.Cooled:
		longer := b.Until.Sub(event.Time) >= 10*time.Minute && b.Out == "" // else others take its place, or the run's end is told
		if longer && !event.Time.Before(e.limited[b.Model]) {
			e.limited[b.Model] = b.Until
			return project.NotifyLimited, b.Until
		}
	case boulder.BlockerRaised:
		if !e.held && b.Blocker.Waiting(event.Time) {
			e.held = true
			return project.NotifyBlocked, until
		}
	case boulder.Parked:
		d, _ := e.db.Get(ctx, e.id) // errors show at the end
		asked := slices.ContainsFunc(d.SubTasks, func(t *boulder.SubTask) bool {
			return t.ID == b.SubTaskID && len(t.AwaitedBy(b.Attempt)) > 0
		})
		others := slices.ContainsFunc(d.Attempts, func(t *boulder.Attempt) bool { return !t.Status.Terminal() })
		if !e.parked && asked && others {
			e.parked = true
			return project.NotifyBlocked, until
		}
	}
	return "", until
}

// conclude is called at the end of the run with its error. It writes the report, sends trace and notification, and
// returns the report's path relative to the project, or "". Its own errors are only warnings: the run's result stands.
func (e *ending) conclude(ctx context.Context, runErr error) string {
	e.telling.Wait()
	if e.id == "" {
		return ""
	}
	made, err := e.report(context.WithoutCancel(ctx), e.id)
	if err != nil {
		e.warn("the report of boulder %s lacks something: %v", boulder.ShortID(e.id), err)
	}
	if made == nil {
		return ""
	}
	made.Running = false // this process still holds the state, but has ended the run
	e.choices = made.Choices()
	for _, s := range made.SubTasks {
		for _, w := range s.Warnings {
			e.warn("%s: %s", s.ID, w)
		}
	}
	e.warnOfUnwritten(context.WithoutCancel(ctx), e.db)
	path, err := e.writeReport(made)
	if err != nil {
		e.warn("the report of boulder %s could not be written: %v", boulder.ShortID(e.id), err)
	}
	if e.project.Config().Tracing.Endpoint != "" {
		events, err := e.db.Events(context.WithoutCancel(ctx), e.id, 0, 0)
		if err == nil {
			err = e.project.SendTrace(context.WithoutCancel(ctx), events)
		}
		if err != nil {
			e.warn("the trace of boulder %s was not sent: %v", boulder.ShortID(e.id), err)
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
	made, reportErr := e.project.ReadReport(ctx, &project.Access{Reader: e.db}, d)
	return made, cmp.Or(err, reportErr)
}

// withReportPath adds the report's path to the error of a run, or prints it on stderr.
func (e *ending) withReportPath(path string, runErr error) error {
	if path == "" {
		return runErr
	}
	path = e.pretty(filepath.Join(e.project.Dir(), path))
	if runErr != nil {
		return fmt.Errorf("%w\nReport: %s", runErr, path)
	}
	if e.choices != "" {
		e.note("%s: manager report", e.choices)
	}
	e.note("Report: %s", path)
	return nil
}

func (e *ending) wants(what project.NotifyEvent) bool {
	return what != "" && e.project.Config().Notify.Wants(what)
}

// eventOf returns the event for the end of a run, or "" if the user ended it.
func eventOf(runErr error) project.NotifyEvent {
	_, spent := errors.AsType[*orchestrator.BudgetError](runErr)
	switch code := exitCode(runErr); {
	case code == exitOK:
		return project.NotifyFinished
	case code == exitInterrupted || errors.Is(runErr, orchestrator.ErrDeclined):
		return ""
	case code == exitWaiting && spent:
		return project.NotifyBudget
	case code == exitWaiting:
		return project.NotifyBlocked
	}
	return project.NotifyFailed
}

func (e *ending) send(ctx context.Context, made *report.Report, what project.NotifyEvent, code *int, path string, until time.Time) {
	err := e.notifier.Send(ctx, project.Notification{
		Event: what, Time: made.MadeAt, BoulderID: made.BoulderID, Status: made.Status, Title: titleOf(what, made, until),
		Answer:  text.Excerpt(made.Written(), maxAnswer, text.Start),
		Project: filepath.Base(e.project.Dir()), Tally: made.Tally, Awaited: len(made.Awaited()), ExitCode: code,
		Report: filepath.ToSlash(path),
	})
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") { // of command and webhook
			e.warn("%s", line)
		}
	}
}

const maxAnswer = 2_000 // characters of the answer in a notification

// titleOf returns a notification as a sentence, without text from the user, a model or an agent.
func titleOf(what project.NotifyEvent, made *report.Report, until time.Time) string {
	says := map[project.NotifyEvent]string{
		project.NotifyFinished: "is done", project.NotifyBudget: "has used its budget up", project.NotifyBlocked: "waits for the user",
		project.NotifyFailed: "was broken off by an error", project.NotifyLimited: "is limited until " + text.Until(until, made.MadeAt),
	}[what]
	awaited := made.Awaited() // first the session that will continue first
	if what == project.NotifyBlocked && len(awaited) > 0 {
		says += ", with " + text.Plural(len(awaited), "question")
	}
	switch {
	case what == project.NotifyFailed && made.Status.Terminal():
		says = "is over, and not everything is done"
	case what != project.NotifyBlocked:
	case len(awaited) == 0 && len(made.Limited) > 0 && !made.Running:
		first := slices.MinFunc(made.Limited, func(a, b report.Limit) int { return a.Until.Compare(b.Until) }).Until
		says += ", as no model can be used"
		if !(boulder.Cooldown{Until: first}).Endless() {
			says += " before " + text.Until(first, made.MadeAt)
		}
	case len(awaited) > 0 && awaited[0].Waiting(made.MadeAt):
		says += ", until " + awaited[0].Until.UTC().Format("15:04:05 UTC")
	case made.Running:
		says += ", and continues with the rest"
	}
	return fmt.Sprintf("Boulder %s %s: %s", boulder.ShortID(made.BoulderID), says, made.Counts())
}

// warnOfUnwritten warns if blockers.md lacks blockers, and says why.
func (a *app) warnOfUnwritten(ctx context.Context, there project.Reader) {
	switch s, err := a.project.BlockersStatus(ctx, there); {
	case err != nil:
		a.warn("whether %s has every blocker is not known: %v", s.File, err)
	case s.Unwritten > 0:
		a.warn("%s not in %s yet: %s. Nothing is lost: see manager blockers list; it is tried again with every command",
			text.Are(s.Unwritten, "item"), s.File, cmp.Or(s.Trouble, "it could not be written"))
	}
}

// warn prints a problem that does not change the result.
func (a *app) warn(format string, args ...any) {
	a.tell("manager: warning: " + text.Safe(text.Format(format, args...)))
}
