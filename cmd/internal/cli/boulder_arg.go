package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/project"
)

func (a *app) boulderFlag(cmd *cobra.Command, fallback string) {
	cmd.Flags().StringVarP(&a.ref, "boulder", "b", "", "the `BOULDER` (default: "+fallback+")")
}

// flagForBoulder lets a command whose first argument is a BOULDER take it with -b as well. after is how
// many others may follow it.
func (a *app) flagForBoulder(cmd *cobra.Command, after int) {
	cmd.Flags().StringVarP(&a.ref, "boulder", "b", "", "the `BOULDER`, as the argument")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case a.ref == "":
		case len(args) > 0 && sameBoulder(args[0], a.ref):
			args[0] = longer(args[0], a.ref)
		case len(args) > after:
			return twice(args[0], a.ref)
		default:
			args = append([]string{a.ref}, args...)
		}
		return run(cmd, args)
	}
}

// ofBoulder takes a BOULDER off the front of arguments, as in `manager retry BOULDER SUBTASK`, as -b does. Unless sure, the first
// one is a BOULDER only if it is no sub-task.
func (a *app) ofBoulder(ctx context.Context, args []string, sure bool) ([]string, error) {
	switch {
	case len(args) == 0 || !sure && !a.namesBoulder(ctx, args[0]):
		return args, nil
	case a.ref != "" && !sameBoulder(args[0], a.ref):
		return nil, twice(args[0], a.ref)
	}
	a.ref = longer(args[0], a.ref)
	return args[1:], nil
}

// leastRef is the shortest word that is taken for a boulder where it could be a sub-task or a text.
const leastRef = 4

// namesBoulder reports whether a word is the id of a boulder, or its end, and no sub-task of the one that is meant without it.
func (a *app) namesBoulder(ctx context.Context, word string) bool {
	if len(word) < leastRef {
		return false
	}
	there, err := a.project.Read(ctx)
	if err != nil {
		return false
	}
	defer there.Close()
	if _, err = project.Resolve(ctx, there, word); err != nil {
		return false
	}
	d, _ := there.Find(ctx, a.ref)
	t, _ := findSubTask(d, word)
	return t == nil
}

// sameBoulder reports whether two words can be the id of one boulder: one is a part of the other.
func sameBoulder(a, b string) bool {
	long := longer(a, b)
	return strings.HasPrefix(long, a) && strings.HasPrefix(long, b) || strings.HasSuffix(long, a) && strings.HasSuffix(long, b)
}

func longer(a, b string) string {
	if len(a) >= len(b) {
		return a
	}
	return b
}

func twice(arg, flag string) error {
	return usagef("the boulder is given twice, as %q and with -b %q: leave one out", arg, flag)
}
