package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

// look reads a boulder, with read, and shows a report of it.
func (a *app) look(
	ctx context.Context, ref string, read func(context.Context, *project.Access, boulder.Snapshot) (*project.Reading, error),
	of func(r *project.Reading) (view.Report, error),
) error {
	r, err := project.Look(ctx, a.Project, ref, read)
	if r == nil {
		return err
	}
	report, ofErr := of(r)
	if err = cmp.Or(err, ofErr); report == nil {
		return err
	}
	return cmp.Or(a.show(report), err)
}

func (a *app) show(report view.Report) error {
	if a.json {
		return a.printJSON(report)
	}
	report.Print(a.on(a.Stdout))
	return nil
}

// on is a stream as views print on it.
func (a *app) on(stream io.Writer) page.Out {
	o := page.Out{Paint: page.Paint{On: a.color(stream)}, Writer: stream}
	if f, ok := fileOf(stream); ok && terminal(f) {
		o.File = f
	}
	return o
}

func (a *app) console() view.Console {
	return view.Console{
		Stdout: a.on(a.Stdout), Stderr: a.on(a.Stderr), JSON: a.json, Quiet: a.quiet, Verbose: a.verbose,
		TermType: a.Getenv("TERM"), Limits: a.Config().Limits,
	}
}

func (a *app) printJSON(v any) error { return view.WriteJSON(a.Stdout, v) }

func (a *app) newStatusCmd() *cobra.Command {
	var follow, stale bool
	cmd := &cobra.Command{
		Use:        "status [flags] [BOULDER]",
		Short:      "Show how far a boulder is",
		Aliases:    []string{"ps"},
		SuggestFor: []string{"st", "progress"},
		Long: `Shows how far a boulder is (default: the active one): each sub-task with its state, what it waits for,
what its agent does, and what it cost. It also works while another process runs it.

With --follow it shows the boulder as ` + "`manager run`" + ` does, until it is over or you press Ctrl-C, which does not
disturb it: what needs you on top, then what is at work and what waits.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := cmp.Or(args...)
			if stale {
				return a.look(cmd.Context(), ref, a.Recent, func(r *project.Reading) (view.Report, error) {
					stale, err := a.Stale(cmd.Context(), &r.Snapshot)
					return view.NewStale(&r.Snapshot, stale), err
				})
			}
			if follow {
				followed, err := a.followStatus(cmd.Context(), ref, false)
				if followed || err != nil {
					return err
				}
			}
			err := a.runStatus(cmd.Context(), ref)
			if follow && err == nil {
				a.note("Nothing here runs it, so there is nothing to follow.")
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the boulder while a process runs it")
	cmd.Flags().BoolVar(&stale, "stale", false, "only what is completed and out of date, and why; see 'manager redo --help'")
	cmd.MarkFlagsMutuallyExclusive("follow", "stale")
	return cmd
}

// followStatus shows a boulder that another process runs as that process would show it, unless none does: until it is over, or
// with toPause until it is paused.
func (a *app) followStatus(ctx context.Context, ref string, toPause bool) (followed bool, err error) {
	there, err := a.Read(ctx)
	if err != nil {
		return false, err
	}
	defer there.Close()
	d, err := project.Get(ctx, there, ref)
	id, holder := d.Boulder.ID, there.Holder
	if err != nil || !holder.Runs(d.Boulder) || toPause && d.Boulder.Status == boulder.Paused && !holder.Beginning() {
		return false, err
	}
	r, err := a.Recent(ctx, there, d)
	if err != nil {
		return false, err
	}
	p, err := view.ProgressOf(there, d, r.Events, r.Records)
	if err != nil {
		return false, err
	}
	c := a.console()
	c.Limits = r.Limits
	v := view.NewRun(c, p, text.If(len(holder.Running) > 1, " -b "+id))
	defer v.Close()
	for e, err := range there.Client.Follow(ctx, id, d.Boulder.Seq) {
		switch {
		case ctx.Err() != nil:
			return true, errInterrupted // that is how to leave it
		case errors.Is(err, control.ErrNotServed): // the process has ended
			v.Close()
			return true, a.runStatus(ctx, id)
		case err != nil:
			return true, err
		}
		v.Event(e)
		if s := statusAfter(e); s.Terminal() || toPause && s == boulder.Paused {
			break
		}
	}
	return true, nil
}

// statusAfter is what a boulder is after an event that tells so; else empty.
func statusAfter(e boulder.Event) boulder.Status {
	switch b := e.Body.(type) {
	case boulder.TaskComplete:
		return b.Status
	case boulder.StatusChanged:
		return b.Status
	}
	return ""
}

func (a *app) runStatus(ctx context.Context, ref string) error {
	err := a.look(ctx, ref, a.Recent, func(r *project.Reading) (view.Report, error) { return view.NewStatus(r), nil })
	archived := errors.Is(err, project.ErrAllArchived)
	if archived || ref == "" && errors.Is(err, boulder.ErrNotFound) {
		a.noteNothing(archived)
		return nil
	}
	return err
}

func (a *app) noteNothing(archived bool) {
	switch {
	case archived:
		a.note("Everything that was run here is archived; see: manager list --archived")
	case exists(a.PlanPath()):
		a.note("Nothing has been run here yet. There is a plan; run it with: manager run")
	default:
		a.note("Nothing has been run here yet. Start with: manager plan \"TASK\"")
	}
}

func (a *app) newShowCmd() *cobra.Command {
	why, receipt := "", false
	cmd := &cobra.Command{
		Use:        "show [flags] [BOULDER]",
		Short:      "Show plan, attempts, sessions and verdicts of a boulder",
		SuggestFor: []string{"why", "describe"},
		Long: `Shows everything that is known about a boulder (default: the active one): the plan, and of each sub-task the
attempts with their sessions, each turn's verdict with the evidence, and the gates.

With --why SUBTASK it shows what was sent to that one's sessions, what was seen, how it was judged, and what was decided,
in order of time; with --why and the id of an OpenCode session, or its end as ` + "`manager watch`" + ` prints it, every
decision of the watch about that one.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case view.IsSession(why):
				return a.runWhySession(cmd.Context(), why)
			case cmd.Flags().Changed("why"):
				err := a.look(cmd.Context(), cmp.Or(args...), a.Whole, func(r *project.Reading) (view.Report, error) {
					t, err := findSubTask(r.Snapshot, why)
					if err != nil {
						return nil, err
					}
					return view.NewWhy(r, t, boulder.Turns(r.Events, t.ID)), nil
				})
				if exitCode(err) != exitUsage {
					return err
				}
				if id := a.watchedSession(cmd.Context(), why); id != "" {
					return a.runWhySession(cmd.Context(), id)
				}
				return err
			case receipt:
				return a.look(cmd.Context(), cmp.Or(args...), a.Recent, func(r *project.Reading) (view.Report, error) {
					return view.NewReceipt(r), nil
				})
			}
			return a.look(cmd.Context(), cmp.Or(args...), a.Whole, func(r *project.Reading) (view.Report, error) {
				if r.Holder.Has(r.Boulder.ID) {
					r.Boulder.Left = nil // it stops them now
				}
				return view.NewShow(r.Snapshot, boulder.Turns(r.Events, "")), nil
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "only the chain of decisions about `SUBTASK`, or about a watched session")
	cmd.Flags().BoolVar(&receipt, "receipt", false, "only where tokens, money and time went")
	cmd.MarkFlagsMutuallyExclusive("why", "receipt")
	return cmd
}

func (a *app) newListCmd() *cobra.Command {
	var archived bool
	var statuses []string
	most := 0
	cmd := &cobra.Command{
		Use:        "list [flags]",
		Aliases:    []string{"ls"},
		Short:      "List the boulders of the project",
		SuggestFor: []string{"boulders"},
		Long: `Lists the project's boulders, newest first, without the archived ones. The active one, marked with *, was started or
resumed last: commands that are given no boulder use it.`,
		Example: `  manager list --status paused,interrupted
  manager list -n 10 --archived`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runList(cmd.Context(), archived, statuses, most) },
	}
	cmd.Flags().BoolVar(&archived, "archived", false, "only archived boulders")
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only boulders with one of these `STATUSES`, as the list shows them")
	cmd.Flags().IntVarP(&most, "lines", "n", 0, "the `N` newest")
	return cmd
}

func (a *app) runList(ctx context.Context, archived bool, statuses []string, most int) error {
	if i := slices.IndexFunc(statuses, func(s string) bool { return !slices.Contains(view.ListStatuses, s) }); i >= 0 {
		return usagef("--status does not know %q: use %s", statuses[i], strings.Join(view.ListStatuses, ", "))
	}
	there, err := a.Read(ctx)
	if err != nil {
		return err
	}
	all, err := there.Listing(ctx)
	there.Close() // before anything is printed: a pager must not keep a run from starting
	var shown []view.ListItem
	for i := range all {
		item := view.NewListItem(&all[i], there.Holder)
		if all[i].ArchivedAt.IsZero() != archived && (len(statuses) == 0 || slices.Contains(statuses, item.Shown())) {
			shown = append(shown, item)
		}
	}
	if most > 0 {
		shown = shown[:min(most, len(shown))]
	}
	switch {
	case a.json:
		return errors.Join(writeLines(a.Stdout, shown), err)
	case len(shown) > 0:
		view.List(a.on(a.Stdout), shown, time.Now())
		if h := there.Holder; h != nil && h.Trouble != "" {
			a.note("This may be out of date: %s", text.OneLine(h.Trouble))
		}
	case err != nil:
	case len(statuses) > 0:
		a.note("There is none with the status %s.", strings.Join(statuses, " or "))
	case archived:
		a.note("Nothing is archived here.")
	default:
		a.noteNothing(len(all) > 0)
	}
	return err
}

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
			if i := slices.IndexFunc(l.types, func(t string) bool { return t != transcriptType && !boulder.IsEventType(t) }); i >= 0 {
				return usagef("there are no events of the type %q: see docs/cli.md, or the field type of `manager logs --json`", l.types[i])
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

// transcriptType is that of lines of transcripts.
const transcriptType = "transcript"

// sinceWhen reads how long ago, or when.
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
	there, err := a.Read(ctx)
	if err != nil {
		return err
	}
	l.app, l.o, l.transcripts = a, a.on(a.Stdout), map[int]bool{}
	err = l.read(ctx, there, args)
	there.Close() // before anything is printed: a pager must not keep a run from starting
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
	for e, err := range there.Client.Follow(ctx, l.id, l.last) {
		if errors.Is(err, control.ErrNotServed) {
			return l.rest(ctx)
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
		return errInterrupted // that is how to leave it, and no fault of the way it was read
	}
	return nil
}

type logs struct {
	types []string  // no others; empty: all
	since time.Time // zero: from the beginning
	most  int       // of what is stored; 0: all

	app         *app
	o           page.Out
	subTask     string // empty: all
	id          string
	entries     []logEntry
	transcripts map[int]bool // attempts that have one, which has the whole session
	last        uint64       // number of the last event
	over        bool         // the last event ended the boulder: none will follow
}

// logEntry is an event, or a line of a transcript.
type logEntry struct {
	at     time.Time
	object any    // for programs
	line   string // for people; empty: nothing
	step   int    // attempt of a step that the transcript of its turn will tell; 0: it is none
}

// read collects what is stored. With an error there is what could be read.
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

// find says which boulder is meant, and which sub-task: one argument that names no boulder is a sub-task of the newest one,
// and so is a number. With an error there is a boulder as well if its head could be read and the sub-task is there.
func (l *logs) find(ctx context.Context, r project.Reader, args []string) (boulder.Snapshot, error) {
	ref := cmp.Or(args...)
	d, err := project.Get(ctx, r, ref)
	if _, number := subTaskPlace(ref); len(args) == 1 && (number || errors.Is(err, boulder.ErrNotFound)) {
		newest, newestErr := project.Get(ctx, r, "")
		t, findErr := findSubTask(newest, ref)
		switch {
		case newest.Boulder.ID == "": // nothing was run
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

// add collects an event. Steps that the transcript of an ended turn tells are left out.
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

// transcriptJSON is a line of a transcript in `manager logs --json`.
type transcriptJSON struct {
	Type      string    `json:"type"` // transcript
	Time      time.Time `json:"time"`
	BoulderID string    `json:"boulder_id"`
	boulder.AttemptRef
	Line executor.Line `json:"line"`
}

// readTranscripts collects the lines of each attempt's newest transcript, which has the whole session.
func (l *logs) readTranscripts(turns []boulder.Turn, project string) error {
	all, err := view.ReadSaid(project, turns)
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

// rest prints what the process that ended wrote last.
func (l *logs) rest(ctx context.Context) error {
	there, err := l.app.Read(ctx)
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

// print prints what was collected, and forgets it.
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

func (a *app) newAttachCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "attach [flags] [BOULDER]",
		Short: "Follow a boulder that runs in the background, with the exit code of its run",
		Long: `Shows a boulder (default: the active one) as ` + "`manager run`" + ` does, while another process runs it. When it is over or paused
it ends, with the exit code of ` + "`manager run`" + `: 4 at a pause, or if no process runs it. Ctrl-C leaves it, and does not disturb the run.`,
		Example: `  manager run --detach && manager attach`,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runAttach(cmd.Context(), cmp.Or(args...)) },
	}
}

func (a *app) runAttach(ctx context.Context, ref string) error {
	w := &view.Wait{For: waitDone}
	for ctx.Err() == nil {
		arrived, err := a.attachOnce(ctx, w, ref)
		switch {
		case errors.Is(err, control.ErrNotServed): // the process has just ended
		case arrived || err != nil: // else somebody has resumed it
			return err
		}
	}
	return context.Cause(ctx)
}

func (a *app) attachOnce(ctx context.Context, w *view.Wait, ref string) (arrived bool, err error) {
	d, err := a.Snapshot(ctx, cmp.Or(w.BoulderID, ref))
	if err != nil {
		return false, err
	}
	w.BoulderID = d.Boulder.ID
	followed, err := a.followStatus(ctx, w.BoulderID, true)
	if ctx.Err() != nil {
		a.note("The run continues. Show it again with: manager attach %s", w.BoulderID)
	}
	if err == nil && !followed {
		if d.Boulder.Status != boulder.Paused { // that is told
			a.note("Nothing here runs it.")
		}
		err = a.runStatus(ctx, w.BoulderID)
	}
	if err != nil {
		return false, err
	}
	arrived, err = a.lookOnce(ctx, w, "")
	if w.Status == boulder.Paused {
		if d, readErr := a.Snapshot(ctx, w.BoulderID); readErr == nil {
			a.receipt(d)
		}
	}
	return arrived, err
}
