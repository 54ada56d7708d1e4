package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/schema"
)

func (a *app) newSchemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [flags] " + strings.Join(schema.Names, "|"),
		Short: "Print the JSON Schema of plan files, of the configuration, or of events",
		Long: `Prints what a plan file or a configuration may hold, or what an event of ` + "`--json`" + ` looks like, as JSON Schema (draft 2020-12).
` + "`manager plan`" + ` writes the schema of plans beside .manager/plan.yaml, and names it there for editors.`,
		Example: `  manager schema config > .manager/config.schema.json
  # the first line of .manager/config.yaml, for YAML language servers:
  # yaml-language-server: $schema=config.schema.json`,
		ValidArgs: schema.Names,
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(schema.Names, args[0]) {
				return usagef("there is no schema %q: use plan, config or events", args[0])
			}
			text, err := schema.Text(args[0])
			if err == nil {
				_, err = a.Stdout.Write(text)
			}
			return err
		},
	}
}
