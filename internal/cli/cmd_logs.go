package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
)

type logsOptions struct{ follow bool }

func (a *app) newLogsCmd() *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:   "logs [flags] [BOULDER [SUBTASK]]",
		Short: "What happened, event by event",
		Long: `Prints the events of a boulder (default: the newest one), one line each. With SUBTASK only those of that
sub-task, and among them the transcripts of its sessions: prompts, answers and tool calls (with --verbose also what
the tools gave back).

With --json the events are printed as they are stored, all of them; lines of transcripts have the type "transcript".`,
		Args:              atMostTwo,
		ValidArgsFunction: a.completeBoulder(true),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runLogs(cmd.Context(), &o, args) },
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on printing while a process runs the boulder")
	return cmd
}

func atMostTwo(cmd *cobra.Command, args []string) error {
	if len(args) > 2 {
		return usagef("%s takes a BOULDER and a SUBTASK, not %d arguments", cmd.CommandPath(), len(args))
	}
	return nil
}

func (a *app) runLogs(ctx context.Context, o *logsOptions, args []string) error {
	l := &logs{app: a}
	if len(args) == 2 {
		l.subTask = args[1]
	}
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return err
	}
	err = l.read(ctx, r, newestOr(args))
	client, held := r.(*control.Client)
	if !held {
		closeReader() // before anything is printed: a pager must not keep a run from starting
	} else {
		defer closeReader()
	}
	if printErr := l.printAll(); printErr != nil {
		return printErr
	}
	if err != nil || !o.follow || l.over {
		return err
	}
	if !held {
		a.note("No process is at work here, so nothing more will come.")
		return nil
	}
	return l.follow(ctx, client)
}

// logs collects what is to be printed.
type logs struct {
	app     *app
	subTask string // empty: all
	id      string
	entries []logEntry
	last    uint64 // number of the last event
	over    bool   // the last event ended the boulder: none will follow
}

// logEntry is an event, or a line of a transcript.
type logEntry struct {
	at      time.Time
	event   *boulder.Event
	attempt boulder.AttemptRef // of the line
	line    transcriptLine
}

// read collects what is stored. With an error there is what could be read.
func (l *logs) read(ctx context.Context, r reader, ref string) error {
	id, err := resolve(ctx, r, ref)
	if err != nil {
		return err
	}
	d, err := r.Get(ctx, id)
	if l.subTask != "" {
		if !slices.ContainsFunc(d.SubTasks, func(t boulder.SubTask) bool { return t.ID == l.subTask }) {
			return cmp.Or(err, usagef("boulder %s has no sub-task %q: it has %s", id, l.subTask, subTaskIDs(d.SubTasks)))
		}
	}
	l.id = id
	events, eventsErr := r.Events(ctx, id, 0, 0)
	for _, e := range events {
		l.add(e)
	}
	err = errors.Join(err, eventsErr)
	if l.subTask != "" {
		err = errors.Join(err, l.readTranscripts(ctx, r, d.Boulder.Project))
	}
	return err
}

// subTaskIDs lists what could have been meant.
func subTaskIDs(subTasks []boulder.SubTask) string {
	var ids []string
	for _, t := range subTasks {
		ids = append(ids, t.ID)
	}
	return clipText(cmp.Or(strings.Join(ids, ", "), "none yet"), 400)
}

func (l *logs) add(e boulder.Event) {
	l.last = e.Seq
	switch b := e.Body.(type) {
	case boulder.TaskComplete:
		l.over = true
	case boulder.StatusChanged:
		l.over = b.Status.Terminal() // cancelled
	}
	if l.subTask == "" || refOf(e.Body).SubTaskID == l.subTask {
		l.entries = append(l.entries, logEntry{at: e.Time, event: &e})
	}
}

// readTranscripts collects the lines of each attempt's newest transcript, which has the whole session.
func (l *logs) readTranscripts(ctx context.Context, r reader, project string) error {
	turns, err := r.Turns(ctx, l.id, l.subTask)
	names := map[int]string{} // by attempt; a later turn's holds the earlier ones
	for _, t := range turns {
		if t.Evidence != nil && t.Evidence.Transcript != "" {
			names[t.Attempt] = t.Evidence.Transcript
		}
	}
	for attempt, name := range names {
		lines, readErr := readTranscript(project, name)
		err = errors.Join(err, readErr)
		for _, line := range lines {
			ref := boulder.AttemptRef{SubTaskID: l.subTask, Attempt: attempt}
			l.entries = append(l.entries, logEntry{at: line.Time, attempt: ref, line: line})
		}
	}
	return err
}

// follow prints the events that come, until the boulder or its process ends.
func (l *logs) follow(ctx context.Context, client *control.Client) error {
	for e, err := range client.Follow(ctx, l.id, l.last) {
		if errors.Is(err, control.ErrNotServed) {
			return l.rest(ctx)
		}
		if err != nil {
			return err
		}
		l.add(e)
		if err := l.printAll(); err != nil {
			return err
		}
		if l.over {
			return nil
		}
	}
	return nil
}

// rest prints what the process that ended wrote last.
func (l *logs) rest(ctx context.Context) error {
	r, closeReader, err := l.app.openReader(ctx)
	if err != nil {
		return err
	}
	events, err := r.Events(ctx, l.id, l.last, 0)
	closeReader()
	for _, e := range events {
		l.add(e)
	}
	return errors.Join(err, l.printAll())
}

// printAll prints what was collected, in the order in which it happened, and forgets it.
func (l *logs) printAll() error {
	slices.SortStableFunc(l.entries, func(x, y logEntry) int { return x.at.Compare(y.at) })
	for _, e := range l.entries {
		if err := l.print(e); err != nil {
			return err
		}
	}
	l.entries = nil
	return nil
}

// transcriptJSON is a line of a transcript in `manager logs --json`.
type transcriptJSON struct {
	Type      string    `json:"type"` // transcript
	Time      time.Time `json:"time"`
	BoulderID string    `json:"boulder_id"`
	boulder.AttemptRef
	Line json.RawMessage `json:"line"` // as it is in the transcript
}

func (l *logs) print(e logEntry) error {
	switch {
	case l.app.json && e.event != nil:
		return l.app.printJSON(e.event)
	case l.app.json:
		return l.app.printJSON(transcriptJSON{"transcript", e.at, l.id, e.attempt, e.line.raw})
	}
	p := l.app.paint(l.app.Stdout)
	text := e.line.describe(l.app.verbose)
	if e.event != nil {
		text = oneLine(describe(e.event.Body))
		if id := refOf(e.event.Body).SubTaskID; id != "" && l.subTask == "" {
			text = p.cyan(oneLine(id)) + " " + text
		}
	}
	_, err := fmt.Fprintf(l.app.Stdout, "%s %s\n", p.dim(e.at.Local().Format(time.DateTime)), text)
	return err
}
