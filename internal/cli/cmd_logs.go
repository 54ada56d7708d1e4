package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

func (a *app) newLogsCmd() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:        "logs [flags] [BOULDER [SUBTASK] | SUBTASK]",
		Short:      "Show events, and transcripts of sessions",
		SuggestFor: []string{"tail"},
		Long: `Prints the events of a boulder (default: the active one), one line each. With SUBTASK only those of that
sub-task, and among them the transcripts of its sessions: prompts and who sent them, what the agent said, tool calls
with the end of what they gave back. Long texts are cut, and the cut says where all of it is; --verbose shows more.
A SUBTASK alone is one of the newest boulder.

With --json the events are printed as they are stored, all of them; lines of transcripts have the type "transcript".`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return usagef("%s takes a BOULDER and a SUBTASK, not %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		ValidArgsFunction: a.completeBoulder(true),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runLogs(cmd.Context(), follow, args) },
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing while a process runs the boulder")
	return cmd
}

func (a *app) runLogs(ctx context.Context, follow bool, args []string) error {
	l := &logs{app: a}
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return err
	}
	err = l.read(ctx, r, args)
	client, held := r.(*control.Client)
	if !held {
		closeReader() // before anything is printed: a pager must not keep a run from starting
	} else {
		defer closeReader()
	}
	if printErr := l.printAll(); printErr != nil {
		return printErr
	}
	if err != nil || !follow || l.over {
		return err
	}
	if !held {
		a.note("No process is at work here, so nothing more will come.")
		return nil
	}
	if err := l.follow(ctx, client); ctx.Err() == nil {
		return err
	}
	return errInterrupted // that is how to leave it, and no fault of the way it was read
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
	line    view.TranscriptLine
	view    *view.TranscriptView // of the line's attempt
}

// read collects what is stored. With an error there is what could be read.
func (l *logs) read(ctx context.Context, r reader, args []string) error {
	d, err := l.find(ctx, r, args)
	if l.id == "" {
		return err
	}
	var turns []boulder.Turn
	if l.subTask != "" {
		var turnsErr error
		turns, turnsErr = r.Turns(ctx, l.id, l.subTask)
		err = errors.Join(err, turnsErr, l.readTranscripts(turns, d.Boulder.Project))
	}
	for e, eventErr := range eventsOf(ctx, r, l.id, 0) {
		err = errors.Join(err, eventErr)
		if eventErr == nil {
			l.add(e)
		}
	}
	l.leaveOut(turns)
	return err
}

// find says which boulder is meant, and which sub-task: one argument that names no boulder is a sub-task of the newest one,
// and so is a number. With an error there is a boulder as well if its head could be read and the sub-task is there.
func (l *logs) find(ctx context.Context, r reader, args []string) (store.Detail, error) {
	ref, subTask := newestOr(args), ""
	if len(args) == 2 {
		subTask = args[1]
	}
	id, noBoulder := project.Resolve(ctx, r, ref)
	_, numbered := subTaskPlace(ref)
	if len(args) == 1 && (numbered || errors.Is(noBoulder, boulder.ErrNotFound)) {
		if newest, err := project.Get(ctx, r, ""); newest.Boulder.ID != "" {
			t, findErr := findSubTask(newest, ref)
			if t != nil {
				l.id, l.subTask = newest.Boulder.ID, t.ID
				return newest, err
			}
			if noBoulder != nil {
				return newest, cmp.Or(err, usagef("%w; and %w", noBoulder, findErr))
			}
		}
	}
	if noBoulder != nil {
		return store.Detail{}, noBoulder
	}
	d, err := r.Get(ctx, id)
	if subTask != "" {
		t, findErr := findSubTask(d, subTask)
		if t == nil {
			return d, cmp.Or(err, findErr)
		}
		l.subTask = t.ID
	}
	l.id = id
	return d, err
}

// leaveOut drops events that say less than the transcripts that are printed with them.
func (l *logs) leaveOut(turns []boulder.Turn) {
	if l.app.json || l.app.verbose {
		return
	}
	written := map[view.TurnRef]bool{}
	for _, t := range turns {
		written[view.TurnRef{Attempt: t.Attempt, Turn: t.Number}] = t.Evidence != nil && t.Evidence.Transcript != ""
	}
	told := map[int]uint64{} // by attempt: the last event of which the transcript tells
	for _, e := range l.entries {
		if e.event == nil {
			continue
		}
		if b, ok := e.event.Body.(boulder.TurnEnded); ok && written[view.TurnRef{Attempt: b.Attempt, Turn: b.Turn}] {
			told[b.Attempt] = e.event.Seq
		}
	}
	l.entries = slices.DeleteFunc(l.entries, func(e logEntry) bool {
		if e.event == nil {
			return false
		}
		b, ok := e.event.Body.(boulder.SubTaskProgress)
		return ok && !b.Notice && e.event.Seq < told[b.Attempt]
	})
}

func (l *logs) add(e boulder.Event) {
	l.last = e.Seq
	switch b := e.Body.(type) {
	case boulder.TaskComplete:
		l.over = true
	case boulder.StatusChanged:
		l.over = b.Status.Terminal() // cancelled
	}
	if of, _ := view.Describe(e.Body); l.subTask == "" || of == l.subTask {
		l.entries = append(l.entries, logEntry{at: e.Time, event: &e})
	}
}

// readTranscripts collects the lines of each attempt's newest transcript, which has the whole session.
func (l *logs) readTranscripts(turns []boulder.Turn, project string) error {
	names := map[int]string{} // by attempt; a later turn's holds the earlier ones
	for _, t := range turns {
		if t.Evidence != nil && t.Evidence.Transcript != "" {
			names[t.Attempt] = t.Evidence.Transcript
		}
	}
	o := l.app.on(l.app.Stdout)
	var err error
	for attempt, name := range names {
		lines, readErr := readTranscript(project, name)
		err = errors.Join(err, readErr)
		told := &view.TranscriptView{
			Paint: o.Paint, Verbose: l.app.verbose, Width: o.Lines(), Path: name,
			Prompts: view.PromptsOf(turns, attempt),
		}
		for _, line := range lines {
			ref := boulder.AttemptRef{SubTaskID: l.subTask, Attempt: attempt}
			l.entries = append(l.entries, logEntry{at: line.Time, attempt: ref, line: line, view: told})
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
		return l.app.printJSON(transcriptJSON{"transcript", e.at, l.id, e.attempt, e.line.Raw})
	}
	p := l.app.on(l.app.Stdout)
	var s string
	if e.event == nil {
		if s = e.view.Tell(e.line); s == "" {
			return nil
		}
	} else {
		id, line := view.Describe(e.event.Body)
		if s = text.OneLine(line); s == "" {
			return nil
		}
		if id != "" && l.subTask == "" {
			s = p.Cyan(text.OneLine(id)) + " " + s
		}
	}
	_, err := fmt.Fprintf(l.app.Stdout, "%s %s\n", p.Dim(view.Stamp(e.at)), s)
	return err
}
