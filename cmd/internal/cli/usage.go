package cli

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bouldermgr/manager/internal/text"
)

// argCount limits the number of a command's arguments. what names them in the error.
func argCount(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 && least > 0:
			return usagef("%s needs %s: see `%[1]s --help`", cmd.CommandPath(), what)
		case len(args) < least || len(args) > most:
			return usagef("%s takes %s, not %q", cmd.CommandPath(), what, strings.Join(args, " "))
		}
		return nil
	}
}

// gone says what to use instead of flags that older versions had.
var gone = map[string]string{
	"run --fork":       "`manager redo SUBTASK -b BOULDER` begins a new boulder where the old one is over",
	"replay --limits":  "`manager replay --check` compares the decisions of a log with those made now",
	"replay --rejudge": "`manager export` has the evidence of each turn, for a judge of your own",
}

// badFlag says what is wrong with a flag, without the words of the libraries that parse it.
func badFlag(c *cobra.Command, err error) error {
	if args := c.Flags().Args(); len(args) > 0 && c.HasSubCommands() { // the flag may belong to a misspelt command
		return noSuchCommand(c, args)
	}
	unknown, _ := errors.AsType[*pflag.NotExistError](err)
	invalid, _ := errors.AsType[*pflag.InvalidValueError](err)
	missing, _ := errors.AsType[*pflag.ValueRequiredError](err)
	switch {
	case unknown != nil && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		if instead := gone[c.Name()+" --"+name]; instead != "" {
			return usagef("%v: it is gone, %s", err, instead)
		}
		if near := text.Nearest(name, visible(c)); near != "" {
			return usagef("%v: did you mean --%s?", err, near)
		}
	case unknown != nil:
		return usagef("unknown flag: -%s: see `%s --help`", unknown.GetSpecifiedName(), c.CommandPath())
	case missing != nil:
		name, _ := pflag.UnquoteUsage(missing.GetFlag())
		return usagef("--%s needs a value, %s: see `%s --help`", missing.GetFlag().Name, name, c.CommandPath())
	case invalid != nil:
		f, why := invalid.GetFlag(), invalid.Unwrap()
		if takes := takes(f, why); takes != "" {
			return usagef("--%s takes %s, not %q: see `%s --help`", f.Name, takes, invalid.GetValue(), c.CommandPath())
		}
		return usagef("--%s %q: %w: see `%s --help`", f.Name, invalid.GetValue(), why, c.CommandPath())
	}
	return usagef("%v: see `%s --help`", err, c.CommandPath())
}

func visible(c *cobra.Command) (names []string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// takes says what values a flag has whose own error is that of the library that parses numbers, times and booleans.
func takes(f *pflag.Flag, err error) string {
	_, number := errors.AsType[*strconv.NumError](err)
	switch {
	case f.Value.Type() == "duration":
		return "a time, as 30m or 8h"
	case number && f.NoOptDefVal != "":
		return "no value, or true or false"
	case number:
		return "a whole number"
	}
	return ""
}

// noSuchCommand refuses an unknown command, and suggests similar ones.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	near, topics := cmd.SuggestionsFor(args[0]), []string{}
	for _, c := range cmd.Commands() {
		if i := slices.Index(near, c.Name()); i >= 0 && slices.Contains(c.SuggestFor, args[0]) {
			if sub, _, err := c.Find(args[:1]); err == nil && sub != c {
				near[i] += " " + sub.Name()
			}
		}
		if c.IsAdditionalHelpTopicCommand() { // which cobra does not suggest
			topics = append(topics, c.Name())
		}
	}
	if topic := text.Nearest(args[0], topics); topic != "" {
		near = append(near, "help "+topic)
	}
	if len(near) > 0 {
		return usagef("%s has no command %q: did you mean \"%s\"?", cmd.CommandPath(), args[0], strings.Join(near, `" or "`))
	}
	return usagef("%s has no command %q: see `%[1]s --help`", cmd.CommandPath(), args[0])
}
