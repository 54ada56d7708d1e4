package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
	"github.com/bouldermgr/manager/store"
)

// A mistake in the configuration is shown with the lines around it, but without the webhook.
func TestWebhookIsNotShown(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	for _, text := range []string{
		"notify:\n  webhook: https://example.com/S3CR3T/abcdefghijklmnop\n  onn: [failed]\n",
		"notify: {webhook: 'https://example.com/S3CR3T/abcdefghijklmnop', onn: 3}\n",
		"notify: {\"webhook\": \"https://example.com/S3CR3T/abcdefghijklmnop\"\n",
	} {
		writeFile(t, filepath.Join(project, store.DirName, "config.yaml"), text)
		expect(t, project, exitUsage, []string{"run", "x"}, "config.yaml", "!S3CR3T")
	}
}

func TestEventOf(t *testing.T) {
	t.Parallel()
	waiting := fmt.Errorf("%w: a question", orchestrator.ErrWaiting)
	budget := fmt.Errorf("%w: %w", orchestrator.ErrWaiting, &orchestrator.BudgetError{Reason: "used up"})
	for _, test := range []struct {
		err  error
		want project.NotifyEvent
	}{
		{nil, project.NotifyFinished}, {errPartial, project.NotifyFailed}, {errors.New("no disk"), project.NotifyFailed},
		{waiting, project.NotifyBlocked}, {fmt.Errorf("%w\nGo on", budget), project.NotifyBudget},
		{orchestrator.ErrStopped, ""}, {errInterrupted, ""}, {orchestrator.ErrCancelled, ""}, {orchestrator.ErrDeclined, ""},
	} {
		if got := eventOf(test.err); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

type detailReader struct {
	project.Reader
	detail boulder.Snapshot
}

func (r detailReader) Get(context.Context, string) (boulder.Snapshot, error) { return r.detail, nil }

// A sub-task that waits for an answer is notified once, and only if others continue. A held session is notified once.
func TestWaitingIsToldOnce(t *testing.T) {
	t.Parallel()
	a := boulder.AttemptRef{SubTaskID: "a", Attempt: 1}
	parked := boulder.Parked{AttemptRef: a}
	held := boulder.BlockerRaised{AttemptRef: a, Blocker: boulder.Blocker{
		ID: "B2", Status: boulder.BlockerPending, Until: sampleStart.Add(time.Minute),
	}}
	hard := []boulder.Blocker{{ID: "B1", BlockerScope: boulder.BlockerScope{Attempt: 1}, Hard: true, Status: boulder.BlockerPending}}
	answered := []boulder.Blocker{{ID: "B1", BlockerScope: boulder.BlockerScope{Attempt: 1}, Hard: true, Status: boulder.BlockerAnswered}}
	for name, test := range map[string]struct {
		blockers []boulder.Blocker
		other    boulder.AttemptStatus
		events   []boulder.Body
		want     string
	}{
		"others go on":       {hard, boulder.AttemptExecuting, []boulder.Body{boulder.TurnEnded{AttemptRef: a}, parked, parked}, "010"},
		"others wait":        {hard, boulder.AttemptQueued, []boulder.Body{parked}, "1"},
		"nothing goes on":    {hard, boulder.AttemptCompleted, []boulder.Body{parked}, "0"},
		"a session holds":    {nil, boulder.AttemptExecuting, []boulder.Body{held, held}, "10"},
		"holds, then parked": {hard, boulder.AttemptExecuting, []boulder.Body{held, parked}, "11"},
		"a budget":           {nil, boulder.AttemptExecuting, []boulder.Body{parked}, "0"},
		"answered already":   {answered, boulder.AttemptExecuting, []boulder.Body{parked}, "0"},
	} {
		e := &ending{db: detailReader{detail: boulder.Snapshot{
			SubTasks: []*boulder.SubTask{{ID: "a", Blockers: test.blockers}},
			Attempts: []*boulder.Attempt{{AttemptRef: a, Status: boulder.AttemptCancelled}, {Status: test.other}},
		}}}
		got := ""
		for _, body := range test.events {
			what, _ := e.dueNotification(t.Context(), boulder.Event{Time: sampleStart, Body: body})
			got += map[project.NotifyEvent]string{project.NotifyBlocked: "1", "": "0"}[what]
		}
		if got != test.want {
			t.Errorf("%s: told %s, want %s", name, got, test.want)
		}
	}
}

func TestTitles(t *testing.T) {
	t.Parallel()
	made := report.Report{
		BoulderID: "01k3", Task: "SECRET", Goal: "SECRET", Reason: "SECRET", Tally: boulder.Tally{Planned: 3, Completed: 1, Blocked: 2},
		Blockers: []report.Blocker{{Awaited: true}, {}}, MadeAt: sampleStart,
	}
	over, live := made, made
	over.Status, live.Running = boulder.Partial, true
	held := live
	held.Blockers = []report.Blocker{{Awaited: true, Blocker: boulder.Blocker{
		Until: sampleStart.Add(time.Minute),
	}}}
	until := sampleStart.Add(time.Minute).UTC().Format("15:04:05 UTC")
	for _, test := range []struct {
		what project.NotifyEvent
		made report.Report
		want string
	}{
		{project.NotifyFinished, made, "is done"},
		{project.NotifyBudget, made, "has used its budget up"},
		{project.NotifyBlocked, made, "waits for the user, with 1 question"},
		{project.NotifyBlocked, live, "waits for the user, with 1 question, and continues with the rest"},
		{project.NotifyBlocked, held, "waits for the user, with 1 question, until " + until},
		{project.NotifyFailed, made, "was broken off by an error"},
		{project.NotifyFailed, over, "is over, and not everything is done"},
		{project.NotifyLimited, live, "is limited until " + sampleStart.Add(time.Hour).Local().Format("15:04 MST")},
	} {
		want := "Boulder 01k3 " + test.want + ": 1 of 3 sub-tasks completed, 2 blocked"
		if got := titleOf(test.what, &test.made, sampleStart.Add(time.Hour)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// endingOf is the ending of a run of the sample with a configuration. Its database is open.
func endingOf(t *testing.T, config string) (e *ending, stderr *bytes.Buffer) {
	t.Helper()
	s := newSample(t)
	s.Play()
	s.Finish()
	project := s.store()
	writeFile(t, filepath.Join(project, store.DirName, "config.yaml"), config)
	a, _, stderr := testApp(t, project, "PATH="+os.Getenv("PATH"))
	notifier, err := a.project.Notifier()
	if err != nil {
		t.Fatal(err)
	}
	e = &ending{app: a, db: openState(t, project), notifier: notifier, limited: map[string]time.Time{}}
	for _, event := range s.Events {
		e.take(t.Context(), event)
	}
	return e, stderr
}

// A completed run mentions choices that agents made themselves: they wait for no answer, but the user may want to know.
func TestChoicesAreTold(t *testing.T) {
	t.Parallel()
	e, stderr := endingOf(t, "")
	d, err := e.db.Get(t.Context(), sampleID)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"B1", "B2"} {
		d.SubTasks[i].Blockers = []boulder.Blocker{{ID: id, BlockerScope: boulder.BlockerScope{Attempt: 1}, Status: boulder.BlockerPending}}
	}
	e.db = detailReader{e.db, d}
	path := e.conclude(t.Context(), nil)
	if err := e.withReportPath(path, nil); err != nil || !strings.Contains(stderr.String(), "2 choices that agents made where they could not ask: manager report\n") {
		t.Errorf("%v, %s", err, stderr)
	}
}

// Failed reports and notifications are warnings and do not change how a run ends.
func TestConcludeInTrouble(t *testing.T) {
	t.Parallel()
	e, stderr := endingOf(t, "notify: {command: 'echo never shown; exit 3'}")
	runs := filepath.Join(e.project.Dir(), view.RunsDir)
	if err := errors.Join(os.RemoveAll(runs), os.Symlink(t.TempDir(), runs)); err != nil { // an agent could do that
		t.Fatal(err)
	}
	if name := e.conclude(t.Context(), errPartial); name != "" {
		t.Errorf("the report was written to %s", name)
	}
	checkTexts(t, "the warnings", []string{
		"manager: warning: the report of boulder " + shortID + " could not be written: ",
		"manager: warning: the notification command sh failed: exit status 3\n",
	}, []string{"never shown"}, stderr.String())
	if err := e.withReportPath("", errPartial); !errors.Is(err, errPartial) || strings.Contains(err.Error(), "Report") {
		t.Errorf("%v", err)
	}
}

// Nothing is sent without a configuration, for an event that is not listed, or if the user ended the run.
func TestNobodyIsTold(t *testing.T) {
	t.Parallel()
	for config, err := range map[string]error{
		"": nil, "notify: {command: 'touch told', on: [finished]}": errPartial, "notify: {command: 'touch told', on: []}": nil,
		"notify: {command: 'touch told'}": orchestrator.ErrStopped,
	} {
		e, stderr := endingOf(t, config)
		e.complete = nil
		if name := e.conclude(t.Context(), err); name == "" || stderr.Len() > 0 {
			t.Errorf("%s: report %q, stderr %s", config, name, stderr)
		}
		if exists(filepath.Join(e.project.Dir(), "told")) {
			t.Errorf("%s: it was told", config)
		}
		if got := e.withReportPath("r.md", err); err != nil && (!errors.Is(got, err) || !strings.HasSuffix(got.Error(), "\nReport: "+
			e.pretty(filepath.Join(e.project.Dir(), "r.md")))) {
			t.Errorf("%v", got)
		}
	}
}

// During a run a sub-task that waits for an answer is notified, without an exit code.
func TestToldWhileItRuns(t *testing.T) {
	t.Parallel()
	e, stderr := endingOf(t, "notify: {command: 'cat >> told', on: [blocked]}")
	d, err := e.db.Get(t.Context(), sampleID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.SubTasks {
		d.SubTasks[i].Blockers = []boulder.Blocker{{ID: "B1", BlockerScope: boulder.BlockerScope{Attempt: 1}, Hard: true}}
	}
	d.Attempts[len(d.Attempts)-1].Status = boulder.AttemptExecuting
	e.db = detailReader{e.db, d}
	e.take(t.Context(), boulder.Event{BoulderID: sampleID, Body: boulder.Parked{AttemptRef: boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}}})
	e.conclude(t.Context(), nil) // waits for the command; "failed" is not listed
	told, err := os.ReadFile(filepath.Join(e.project.Dir(), "told"))
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v, stderr %s", err, stderr)
	}
	if n := strings.Count(string(told), `"event":"blocked"`); n != 1 || !strings.Contains(string(told), `"exit_code":null`) ||
		!strings.Contains(string(told), "and continues with the rest") {
		t.Errorf("told %d times: %s", n, told)
	}
}

// A limit that holds for long is notified once, during the run.
func TestLimitIsTold(t *testing.T) {
	t.Parallel()
	e, stderr := endingOf(t, "notify: {command: 'cat >> told', on: [limited]}")
	for _, wait := range []time.Duration{9 * time.Minute, 3 * time.Hour, 4 * time.Hour} {
		e.take(t.Context(), boulder.Event{
			BoulderID: sampleID, Time: sampleStart, Body: boulder.Cooled{Model: "p/m", Cooldown: boulder.Cooldown{Until: sampleStart.Add(wait)}},
		})
	}
	e.conclude(t.Context(), nil)
	told, err := os.ReadFile(filepath.Join(e.project.Dir(), "told"))
	if n := strings.Count(string(told), `"event":"limited"`); err != nil || n != 1 || stderr.Len() > 0 ||
		!strings.Contains(string(told), "is limited until ") {
		t.Errorf("told %d times (%v): %s%s", n, err, told, stderr)
	}
}
