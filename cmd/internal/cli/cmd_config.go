package cli

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/project"
)

func (a *app) newConfigCmd() *cobra.Command {
	origin := false
	shown := &cobra.Command{
		Use:   "show [flags]",
		Short: "Show the configuration in force",
		Long: `Begins with what decides a run here: models, where it works, what says that it is done, budget, with the commands that were
detected. Then it shows the values that count: the defaults, your configuration file over them, the repository's manager.yaml over that, and
.manager/config.yaml over all. Empty values are left out. What does not count, since you have not trusted it, is below.`,
		Example: `  manager config show --origin`,
		RunE: func(*cobra.Command, []string) error {
			return a.show(&configReport{"config", a.project.Decides(), a.project.Config().Entries(), a.project.Config().Untrusted, origin})
		},
	}
	shown.Flags().BoolVar(&origin, "origin", false, "with the file and the line that each value comes from")
	cmd := &cobra.Command{Use: "config COMMAND", Short: "Show the configuration in force"}
	cmd.AddCommand(shown)
	return cmd
}

// configReport is the --json output of `manager config show`.
type configReport struct {
	Type      string                `json:"type"`    // config
	Decides   []project.ConfigEntry `json:"decides"` // a run without flags, with what is detected
	Values    []project.ConfigEntry `json:"values"`
	Untrusted *project.Untrusted    `json:"untrusted,omitempty"`
	origins   bool
}

func (r *configReport) Print(o page.Out) {
	o.Say("# what decides a run here, without flags:")
	for _, e := range r.Decides {
		o.Say("#   ", e.Key, ": ", o.Plain(e.Value), "  ", o.Dim("("+o.Plain(e.Origin)+")"))
	}
	o.Say()
	for _, e := range r.Values {
		o.Say(e.Key, ": ", o.Plain(e.Value), text.If(r.origins, "  "+o.Dim("# "+e.Origin)))
	}
	if r.Untrusted != nil {
		o.Say("# not trusted, and without effect: ", o.Plain(r.Untrusted.Path), " (read it, then: manager trust)")
		for _, e := range r.Untrusted.Ignored {
			o.Say("# ", o.Plain(text.Whole(e.Key)), ": ", o.Plain(text.Whole(e.Value)))
		}
	}
}

//go:embed agents.md
var agentsParagraph string

func (a *app) newInitCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "init [flags]",
		Short: "Write a commented configuration file for the project",
		Long: `Writes .manager/config.yaml with every option commented out, unless there is one, and its schema for editors. Git ignores
.manager: what all who work on the project should have goes into manager.yaml at its top. If copies of your files lack ignored
ones that commands may need, such as .env or node_modules, its line slots is what brings these. Prints a
paragraph for AGENTS.md that tells agents what manager expects of them.`,
		Example: `  manager init >> AGENTS.md`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, slots, err := a.project.Init(cmd.Context())
			if errors.Is(err, fs.ErrExist) {
				return usagef("there is a configuration already: %s; see `manager config show`", a.pretty(path))
			}
			if err != nil {
				return err
			}
			if slots != "" {
				a.note("Sub-tasks that work in copies lack files that git ignores. This line of %s brings them, without its #;"+
					" `manager doctor --night` tries it with the gates: %s", a.pretty(path), slots)
			}
			a.note("Wrote %s. For AGENTS.md:", a.pretty(path))
			_, err = fmt.Fprint(a.Stdout, a.flow(agentsParagraph))
			return err
		},
	}
}

func (a *app) newValidateCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [flags] [PLAN.yaml | LIST]",
		Short: "Check the configuration and a plan file",
		Long: `Checks the configuration and a plan file (default: .manager/plan.yaml, if there is one) or a list of tasks: all mistakes at once, each with its
place. Nothing is run, and no model is asked.

Exit codes: 0 both can be used · 2 something is wrong.`,
		RunE: func(_ *cobra.Command, args []string) error {
			r := &validReport{Type: "validate", Problems: []yamlfile.Problem{}, Warnings: append([]yamlfile.Problem{}, a.project.ConfigWarnings()...)}
			path, planErr := a.project.PlanPath(), error(nil)
			if len(args) > 0 {
				path = a.file(args[0])
			}
			switch {
			case len(args) > 0 && !exists(path):
				return a.noFile("plan file", args[0])
			case exists(path):
				planErr = a.checkPlan(cmp.Or(cmp.Or(args...), path), path, r)
			}
			for _, w := range r.Warnings {
				a.warn("%s", w)
			}
			err := errors.Join(a.openErr, planErr)
			r.OK = err == nil
			for _, e := range []error{a.openErr, planErr} {
				if bad, ok := errors.AsType[*yamlfile.Error](e); ok {
					r.Problems = append(r.Problems, bad.Problems...)
				}
			}
			if err == nil || a.json {
				return cmp.Or(a.show(r), err)
			}
			return err
		},
	}
}

func (a *app) checkPlan(name, path string, r *validReport) error {
	plan, warnings, kind, err := a.readAny(name, path)
	if err == nil {
		r.List = kind
		r.Plan, r.SubTasks, r.Warnings = a.pretty(path), len(plan.SubTasks), append(r.Warnings, warnings...)
	}
	return err
}

// validReport is the --json output of `manager validate`.
type validReport struct {
	Type     string             `json:"type"` // validate
	OK       bool               `json:"ok"`
	Plan     string             `json:"plan,omitempty"` // the file, if it can be used
	List     string             `json:"list,omitempty"` // what the file is instead of a plan: a list of tasks of another tool
	SubTasks int                `json:"sub_tasks"`
	Problems []yamlfile.Problem `json:"problems"` // with file, line and column
	Warnings []yamlfile.Problem `json:"warnings"` // about commands
}

func (r *validReport) Print(o page.Out) {
	o.Say("The configuration can be used.")
	if r.Plan != "" {
		o.Say(o.Plain(r.Plan), " can be used: ", text.Prefixed("it is ", r.List)+text.If(r.List != "", ", "), text.Plural(r.SubTasks, "sub-task"), ".")
	}
}

func (a *app) newSchemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [flags] " + strings.Join(project.Schemas(), "|"),
		Short: "Print the JSON Schema of plan files, of the configuration, or of events",
		Long: `Prints what a plan file or a configuration may hold, or what an event of ` + "`--json`" + ` looks like, as JSON Schema (draft 2020-12).
` + "`manager plan`" + ` writes the schema of plans next to .manager/plan.yaml, and names it there for editors.`,
		Example: `  manager schema config > .manager/config.schema.json
  # the first line of .manager/config.yaml, for YAML language servers:
  # yaml-language-server: $schema=config.schema.json`,
		ValidArgs: project.Schemas(),
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(project.Schemas(), args[0]) {
				return usagef("there is no schema %q: use plan, config or events", args[0])
			}
			text, err := project.Schema(args[0])
			if err == nil {
				_, err = a.Stdout.Write(text)
			}
			return err
		},
	}
}
