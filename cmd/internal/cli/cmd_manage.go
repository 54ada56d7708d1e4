package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

func (a *app) newExportCmd() *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "export [flags] [BOULDER]",
		Short: "Export a boulder as one JSON document",
		Long: `Writes everything that is stored about a boulder (default: the active one) as one JSON document, for
` + "`manager import`" + `. Transcripts and the files of briefs in .manager/runs are not part of it.`,
		Example: `  manager export > boulder.json
  manager export 01k3 -o boulder.json`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runExport(cmd.Context(), output, args) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to a new `FILE` instead of stdout")
	return cmd
}

func (a *app) runExport(ctx context.Context, output string, args []string) error {
	r, err := project.Look(ctx, a.project, cmp.Or(args...), a.project.Whole)
	if err != nil { // never export an incomplete boulder
		return err
	}
	x := store.NewExport(r.Events)
	switch {
	case output == "" && a.json:
		return a.printJSON(x)
	case output == "":
		return x.Write(a.Stdout)
	}
	s, err := x.State()
	if err != nil {
		return err
	}
	file, id := a.file(output), s.Boulder.ID
	if err := writeNew(file, false, x.Write); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			Type      string `json:"type"` // export
			BoulderID string `json:"boulder_id"`
			File      string `json:"file"`
			SubTasks  int    `json:"sub_tasks"`
			Events    int    `json:"events"`
		}{"export", id, file, len(s.SubTasks), len(x.Events)})
	}
	a.note("Exported %s with %s and %s to %s. Transcripts are not part of it.", boulder.ShortID(id),
		text.Plural(len(s.SubTasks), "sub-task"), text.Plural(len(x.Events), "event"), file)
	return nil
}

// writeNew writes an export to a new file. Only with force does it replace one, which may be the only copy of
// something.
func writeNew(file string, force bool, write func(io.Writer) error) error {
	unless := os.O_EXCL
	if force {
		unless = os.O_TRUNC
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|unless, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s is there already, and is not overwritten: choose another name, or remove it first", file)
	}
	if err == nil {
		if err = errors.Join(write(f), f.Sync(), f.Close()); err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("cannot write %s: there is no directory %s: create it or name another file", file, filepath.Dir(file))
	}
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

func (a *app) newImportCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "import [flags] FILE|-",
		Short: "Import a boulder",
		Long: `Stores what ` + "`manager export`" + ` wrote, from a file or with - from stdin, in this project. An unfinished
boulder becomes paused: ` + "`manager resume`" + ` continues it in fresh sessions, and runs its gates, which are shell
commands. Import only what you would run. What contradicts itself, or is here already, is refused as a whole.`,
		Example: `  manager import boulder.json
  ssh host manager -C work export | manager import -`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runImport(cmd.Context(), args[0]) },
	}
}

type importReport struct {
	Type      string         `json:"type"` // import
	BoulderID string         `json:"boulder_id"`
	Status    boulder.Status `json:"status"`
	Completed int            `json:"completed"` // sub-tasks
	Total     int            `json:"total"`
	Project   string         `json:"project"`         // that it belongs to now
	From      string         `json:"from"`            // the root that it comes from
	Gates     []string       `json:"gates,omitempty"` // commands that a resume will run
}

func (a *app) runImport(ctx context.Context, name string) error {
	x, err := a.readExport(name)
	if err != nil {
		return err
	}
	s, from, err := a.project.Import(ctx, x)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b := &s.Boulder
	r := importReport{"import", b.ID, b.Status, b.Tally.Completed, b.Tally.Planned, b.Project, from, gatesToRun(s)}
	if a.json {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.Stdout, "Imported %s: %s, %d of %s done.\n", boulder.ShortID(b.ID), b.Status, r.Completed, text.Plural(r.Total, "sub-task"))
	if from != b.Project {
		a.note("It comes from %s and belongs to %s now.", text.OneLine(from), b.Project)
	}
	for _, gate := range r.Gates {
		a.note("A resume will run this gate: %s", text.OneLine(gate))
	}
	if !b.Status.Terminal() {
		a.note("Continue with: manager resume %s", boulder.ShortID(b.ID))
	}
	return nil
}

// readExport reads an export from a file, or from stdin for "-".
func (a *app) readExport(name string) (x store.Export, err error) {
	source, err := a.source(name)
	if err != nil {
		return x, a.unreadable("export", name, err)
	}
	defer source.Close()
	if x, err = store.ReadExport(source); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return x, err
}

func gatesToRun(s *boulder.State) (gates []string) {
	b := &s.Boulder
	switch {
	case b.Status.Terminal():
	case len(s.SubTasks) == 0: // not planned yet: the gates of all sub-tasks
		gates = slices.Concat(b.Gates, b.NoWorse, b.Checks.Tests, b.Checks.Lint)
	default:
		for _, t := range s.SubTasks {
			if !t.Status.Terminal() {
				gates = slices.Concat(gates, t.Gates, t.NoWorse, t.Lint)
			}
		}
	}
	slices.Sort(gates)
	return slices.Compact(gates)
}

type versionInfo struct {
	Type     string `json:"type"`    // version
	Version  string `json:"version"` // of the module; (devel) for a build from a work tree without one
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a work tree with changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
	OpenCode string `json:"opencode"` // the version that this one was tested with
}

func (a *app) newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version [flags]",
		Short: "Show the version",
		RunE:  func(*cobra.Command, []string) error { return a.runVersion() },
	}
}

func (a *app) runVersion() error {
	return a.show(newVersionInfo(debug.ReadBuildInfo()))
}

// newVersionInfo describes the binary by its build information, which may be nil.
func newVersionInfo(build *debug.BuildInfo, _ bool) *versionInfo {
	v := &versionInfo{
		Type: "version", Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		OpenCode: opencode.TestedVersion,
	}
	if build == nil {
		return v
	}
	v.Version = cmp.Or(build.Main.Version, v.Version)
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v *versionInfo) Print(o page.Out) {
	commit := text.Prefixed(", commit ", project.Short(v.Commit)) + text.If(v.Modified, " with changes")
	o.Say(fmt.Sprintf("manager %s (%s, %s%s)", v.Version, v.Go, v.Platform, commit))
	o.Say("tested with OpenCode " + v.OpenCode)
}

func (a *app) newBlockersMCPCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Serve the blocker tool to agents over stdin and stdout",
		Long: `An MCP server over standard input and output, for agents that manager does not run itself, with one tool, blocker; see
` + "`manager blockers`" + `, which also says whether anything is recorded. What one client's agents report is one session,
named after the client and the process id of this command. Runs and ` + "`manager watch`" + ` offer the tool by themselves.

In the configuration of OpenCode, under a name other than manager, which is that of runs:

  "mcp": {"night": {"type": "local", "command": ["manager", "blockers", "mcp"]}}`,
		Example: `  manager blockers mcp -C ~/src/shop`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if terminal(a.Stdin) {
				a.note("Waiting for an MCP client on standard input; Ctrl-D ends it.")
			}
			return mcptool.New(mcptool.Config{Register: a.project.Blockers(), Logger: a.logger()}).ServeStdio(cmd.Context(), a.Stdin, a.Stdout)
		},
	}
}

type replayOptions struct {
	of    string // BOULDER, FILE or -
	to    uint64
	check bool
}

func (a *app) newReplayCmd() *cobra.Command {
	var opts replayOptions
	cmd := &cobra.Command{
		Use:   "replay [flags] [BOULDER|FILE|-]",
		Short: "Replay the log of a boulder, without running anything",
		Long: `Folds the log of a boulder (default: the active one), or of what ` + "`manager export`" + ` wrote to FILE or, with -, to
stdin, and shows the status that it leads to. It writes nothing and asks no model.

With --check it asks the scheduler again for each decision in the log, with the state, limits and time of then, and names
the first one that this version makes differently: exit code 1.`,
		Example: `  manager replay --to 40          the status as it was at event 40
  manager replay --check
  ssh host manager -C work export | manager replay --check -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.of = cmp.Or(args...); cmd.Flags().Changed("to") && opts.to == 0 {
				return usagef("--to takes the number of an event, from 1")
			}
			return a.runReplay(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVar(&opts.check, "check", false, "compare each decision with the one that is made now")
	cmd.Flags().Uint64Var(&opts.to, "to", 0, "only the events up to number `N`, as `manager logs --json` prints it in seq")
	return cmd
}

func (a *app) runReplay(ctx context.Context, opts replayOptions) error {
	events, err := a.readLog(ctx, opts.of)
	if err != nil {
		return err
	}
	if n := uint64(len(events)); opts.to > n {
		return usagef("--to %d: the log has %d events", opts.to, n)
	} else if opts.to > 0 {
		events = events[:opts.to]
	}
	x := store.NewExport(events)
	s, err := x.State()
	if err != nil {
		return usagef("%w", err)
	}
	if !opts.check {
		return a.show(view.StatusAt(s, events, a.project.LimitsOf(nil)))
	}
	check, err := orchestrator.CheckDecisions(events)
	switch {
	case err != nil:
		return err
	case check.Unchecked == check.Events && check.Difference == nil:
		return fmt.Errorf("boulder %s cannot be checked: its log does not have the limits that it was run with, because an older "+
			"manager wrote it", s.Boulder.ID)
	}
	if err := a.show(&view.Replayed{Type: "replay", BoulderID: s.Boulder.ID, Check: check}); err != nil {
		return err
	}
	if check.Unchecked > 0 {
		a.note("%d of these events were not checked: no limits were recorded with them.", check.Unchecked)
	}
	if check.Difference != nil {
		return errSilent
	}
	return nil
}

// readLog reads the log of a boulder, or from an export: a file or "-".
func (a *app) readLog(ctx context.Context, of string) ([]boulder.Event, error) {
	if of != "-" && !exists(a.file(of)) {
		r, err := project.Look(ctx, a.project, of, a.project.Whole)
		if err != nil {
			return nil, err
		}
		return r.Events, nil
	}
	x, err := a.readExport(of)
	return x.Events, err
}
