package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

func (a *app) newLogsCmd() *cobra.Command {
	var l logs
	follow, since := false, ""
	cmd := &cobra.Command{
		Use:        "logs [flags] [BOULDER [SUBTASK] | SUBTASK]",
		Short:      "Show events, and transcripts of sessions",
		SuggestFor: []string{"tail"},
		Long: `Prints the events of a boulder (default: the active one), one line each. With SUBTASK only those of that one, and
among them the transcripts of its sessions: prompts and who sent them, what the agent said, tool calls with the end of
what they gave back. Long texts are cut, and the cut says where all of it is; --verbose shows more. A SUBTASK alone is
one of the newest boulder.

With --json the events are printed as they are stored, all of them; lines of transcripts have the type "transcript".`,
		Example: `  manager logs --since 2h --type gate,judged
  manager logs -f -n 20
  manager logs 2`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if l.since, err = sinceWhen(since); err != nil {
				return err
			}
			types := append(boulder.EventTypes(), transcriptType)
			if i := slices.IndexFunc(l.types, func(t string) bool { return !slices.Contains(types, t) }); i >= 0 {
				return usagef("there are no events of the type %q: use one of %s", l.types[i], strings.Join(types, ", "))
			}
			return a.runLogs(cmd.Context(), follow, &l, args)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing while a process runs the boulder")
	cmd.Flags().StringVar(&since, "since", "", "what happened since `TIME`: as 90m, 2026-01-31T08:00:00Z, or 08:00 (today, here)")
	cmd.Flags().IntVarP(&l.most, "lines", "n", 0, "the `N` newest")
	cmd.Flags().StringSliceVar(&l.types, "type", nil, "events of these `TYPES` alone, as `gate,judged`; lines of transcripts are of the type transcript")
	return cmd
}

// transcriptType is the type of transcript lines.
const transcriptType = "transcript"

// sinceWhen parses --since: a duration before now, an RFC 3339 time, or a time of today.
func sinceWhen(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	now := time.Now()
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if at, err := time.ParseInLocation("15:04", text, time.Local); err == nil {
		return time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), 0, 0, time.Local), nil
	}
	return time.Time{}, usagef("--since takes a time as 90m, 2026-01-31T08:00:00Z or 08:00, not %q", text)
}

func (a *app) runLogs(ctx context.Context, follow bool, l *logs, args []string) error {
	there, err := a.project.Read(ctx)
	if err != nil {
		return err
	}
	l.app, l.o, l.transcripts = a, a.on(a.Stdout), map[int]bool{}
	err = l.read(ctx, there, args)
	there.Close() // before printing: a pager must not keep a run from starting
	slices.SortStableFunc(l.entries, func(x, y logEntry) int { return x.at.Compare(y.at) })
	l.entries = slices.DeleteFunc(l.entries, func(e logEntry) bool { return e.at.Before(l.since) || e.line == "" && !a.json })
	if l.most > 0 {
		l.entries = l.entries[max(0, len(l.entries)-l.most):]
	}
	printErr := l.print()
	switch {
	case printErr != nil:
		return printErr
	case err != nil || !follow || l.over:
		return err
	case there.Holder == nil:
		a.note("No process is at work here, so nothing more comes in.")
		return nil
	}
	for e, err := range there.Follow(ctx, l.id, l.last) {
		if errors.Is(err, project.ErrNotServed) {
			return l.printRemaining(ctx)
		}
		if err == nil {
			l.add(e)
			err = l.print()
		}
		if ctx.Err() == nil && (err != nil || l.over) {
			return err
		}
	}
	if ctx.Err() != nil {
		return errInterrupted // Ctrl-C is how to leave it, not an error of reading
	}
	return nil
}

type logs struct {
	types []string  // only these; empty: all
	since time.Time // zero: from the beginning
	most  int       // newest stored entries; 0: all

	app         *app
	o           page.Out
	subTask     string // empty: all
	id          string
	entries     []logEntry
	transcripts map[int]bool // attempts with a transcript, which covers the whole session
	last        uint64       // sequence number of the last event
	over        bool         // the last event ended the boulder, so none will follow
}

// logEntry is an event, or a line of a transcript.
type logEntry struct {
	at     time.Time
	object any    // for programs
	line   string // for people; empty: not shown
	step   int    // attempt whose transcript will replace this progress line; 0: none
}

// read collects what is stored. With an error it has collected what could be read.
func (l *logs) read(ctx context.Context, r project.Reader, args []string) error {
	d, err := l.find(ctx, r, args)
	if l.id == "" {
		return err
	}
	events, eventsErr := r.Events(ctx, l.id, 0, 0)
	if l.subTask != "" {
		err = errors.Join(err, l.readTranscripts(boulder.Turns(events, l.subTask), d.Boulder.Project))
	}
	for _, e := range events {
		l.add(e)
	}
	return errors.Join(err, eventsErr)
}

// find resolves boulder and sub-task. A single argument that is a number, or no boulder, is a sub-task of the newest
// boulder. With an error it still sets l.id if the boulder's head could be read and the sub-task exists.
func (l *logs) find(ctx context.Context, r project.Reader, args []string) (boulder.Snapshot, error) {
	ref := cmp.Or(args...)
	d, err := project.Get(ctx, r, ref)
	if _, number := subTaskPlace(ref); len(args) == 1 && (number || errors.Is(err, boulder.ErrNotFound)) {
		newest, newestErr := project.Get(ctx, r, "")
		t, findErr := findSubTask(newest, ref)
		switch {
		case newest.Boulder.ID == "": // no boulder, or unreadable
		case t != nil:
			l.id, l.subTask = newest.Boulder.ID, t.ID
			return newest, newestErr
		case err != nil:
			return d, cmp.Or(newestErr, usagef("%w; and %w", err, findErr))
		}
	}
	if len(args) == 2 && d.Boulder.ID != "" {
		t, findErr := findSubTask(d, args[1])
		if t == nil {
			return d, cmp.Or(err, findErr)
		}
		l.subTask = t.ID
	}
	l.id = d.Boulder.ID
	return d, err
}

// add collects an event. A turn that ended removes the progress lines that its transcript covers.
func (l *logs) add(e boulder.Event) {
	l.last = e.Seq
	if s := statusAfter(e); s != "" {
		l.over = s.Terminal()
	}
	told := view.Describe(e)
	of, line := told.SubTask, told.Line
	entry := logEntry{at: e.Time, object: e.Shown(), line: text.OneLine(line)}
	switch b := e.Body.(type) {
	case boulder.SubTaskProgress:
		if !b.Notice {
			entry.step = b.Attempt
		}
	case boulder.TurnEnded:
		if of == l.subTask && l.transcripts[b.Attempt] && !l.app.json && !l.app.verbose {
			l.entries = slices.DeleteFunc(l.entries, func(e logEntry) bool { return e.step == b.Attempt })
		}
	}
	if l.subTask != "" && of != l.subTask || len(l.types) > 0 && !slices.Contains(l.types, boulder.TypeOf(e.Body)) {
		return
	}
	if of != "" && l.subTask == "" && line != "" {
		entry.line = l.o.Cyan(text.OneLine(of)) + " " + entry.line
	}
	l.entries = append(l.entries, entry)
}

type transcriptJSON struct {
	Type      string    `json:"type"` // transcript
	Time      time.Time `json:"time"`
	BoulderID string    `json:"boulder_id"`
	boulder.AttemptRef
	Line executor.TranscriptLine `json:"line"`
}

// readTranscripts collects the lines of each attempt's newest transcript, which covers the whole session.
func (l *logs) readTranscripts(turns []boulder.Turn, project string) error {
	all, err := view.ReadTranscripts(project, turns)
	for _, of := range all {
		l.transcripts[of.Attempt] = true
		if len(l.types) > 0 && !slices.Contains(l.types, transcriptType) {
			continue
		}
		told, ref := view.NewTranscript(l.o, l.app.verbose, of, turns), boulder.AttemptRef{SubTaskID: l.subTask, Attempt: of.Attempt}
		for _, line := range of.Lines {
			object := transcriptJSON{transcriptType, line.Time, l.id, ref, line}
			l.entries = append(l.entries, logEntry{at: line.Time, object: object, line: told.Tell(line)})
		}
	}
	return err
}

// printRemaining prints the last events of a holder that has ended.
func (l *logs) printRemaining(ctx context.Context) error {
	there, err := l.app.project.Read(ctx)
	if err != nil {
		return err
	}
	events, err := there.Events(ctx, l.id, l.last, 0)
	there.Close()
	for _, e := range events {
		l.add(e)
	}
	return errors.Join(err, l.print())
}

// print prints the collected entries and drops them.
func (l *logs) print() (err error) {
	for _, e := range l.entries {
		switch {
		case err != nil:
		case l.app.json:
			err = l.app.printJSON(e.object)
		case e.line != "":
			_, err = fmt.Fprintf(l.o, "%s %s\n", l.o.Dim(text.Stamp(e.at)), e.line)
		}
	}
	l.entries = nil
	return err
}
