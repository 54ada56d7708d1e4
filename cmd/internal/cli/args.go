package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

// deriveArgs derives the arguments of all subcommands, and their completion, from their usage lines, unless a command
// has its own. Those in brackets are optional; those in quotes or before … take any number of words.
func (a *app) deriveArgs(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		a.deriveArgs(c)
		_, use, _ := strings.Cut(strings.Replace(c.Use, " [flags]", "", 1), " ")
		way, _, _ := strings.Cut(use, "|")
		names := strings.FieldsFunc(way, func(r rune) bool { return strings.ContainsRune("[] …", r) })
		what, least, most := strings.TrimPrefix(use, "["), len(names), len(names)
		if what != use {
			what, least = strings.TrimSuffix(what, "]"), 0
		}
		switch {
		case use == "":
			what = "no arguments"
		case strings.ContainsAny(use, `"…`):
			least, most = strings.Count(use, "ID"), math.MaxInt
		case most == 1:
			what = "one " + what + map[string]string{"SUBTASK": " of `manager status`", "ID": " of `manager blockers list`"}[what]
		}
		if c.Args == nil {
			c.Args = argCount(least, most, what)
		}
		if cmp.Or(names...) == "BOULDER" && c.Flags().Lookup("boulder") == nil {
			a.flagForBoulder(c, len(names)-1)
		}
		if strings.Contains(use, "…") {
			names = slices.Repeat(names, 100)
		}
		found := map[string]offers{
			"BOULDER": boulders, "SUBTASK": a.subTasks(slices.Contains(names, "BOULDER")), "ID": a.recorded(boulder.BlockerPending),
		}
		files := found[cmp.Or(names...)] == nil && (strings.Contains(use, "FILE") || strings.Contains(use, "PLAN"))
		if c.ValidArgsFunction == nil && c.ValidArgs == nil && !files {
			c.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return a.completion(found[cmp.Or(names[min(len(args), len(names)):]...)])(cmd, args, typed)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); found[name] != nil {
				_ = c.RegisterFlagCompletionFunc(f.Name, a.completion(found[name])) // fails only for unknown flags
			}
		})
	}
}

// oneOf adds a flag that takes one of words, with shell completion.
func oneOf[T ~string](cmd *cobra.Command, to *T, name, short, usage string, words ...string) {
	cmd.Flags().FuncP(name, short, usage+": "+strings.Join(words, ", "), func(word string) error {
		if *to = T(word); !slices.Contains(words, word) {
			return fmt.Errorf("use one of %s", strings.Join(words, ", "))
		}
		return nil
	})
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// constFlag adds a boolean flag that sets *to to value.
func constFlag[T any](cmd *cobra.Command, to *T, value T, name, usage string) {
	cmd.Flags().BoolFunc(name, usage, func(said string) error {
		on, err := strconv.ParseBool(said)
		if on {
			*to = value
		}
		return err
	})
}

// subTaskNumber matches a sub-task as views show it, [2], or its number alone.
var subTaskNumber = text.Regexp(`^(\[[0-9]+(/[0-9]+)?\]|[1-9][0-9]{0,3})$`)

// subTaskPlace parses a sub-task number: the position in the plan, from 1.
func subTaskPlace(ref string) (n int, ok bool) {
	if !subTaskNumber().MatchString(ref) {
		return 0, false
	}
	number, _, _ := strings.Cut(strings.Trim(ref, "[]"), "/")
	n, _ = strconv.Atoi(number) // 0 if it is too large for any plan
	return n, n > 0
}

// findSubTask finds a sub-task by its id or its number. What is the id of one and the number of another is refused: lists of
// tasks have numbers as ids.
func findSubTask(d boulder.Snapshot, ref string) (*boulder.SubTask, error) {
	i := slices.IndexFunc(d.SubTasks, func(t *boulder.SubTask) bool { return t.ID == ref })
	if n, isNumber := subTaskPlace(ref); isNumber {
		at := slices.IndexFunc(d.SubTasks, func(t *boulder.SubTask) bool { return t.Position == n })
		if i >= 0 && at >= 0 && at != i {
			id, number := d.SubTasks[i], d.SubTasks[at]
			return nil, usagef("boulder %s has two: %q is the id of [%d] %s, and the number of [%d] %s: say '[%[3]d]' or '[%[5]d]'",
				boulder.ShortID(d.Boulder.ID), ref, id.Position, text.Clip(id.Subject, 40), number.Position, text.Clip(number.Subject, 40))
		}
		i = max(i, at)
	}
	if i >= 0 {
		return d.SubTasks[i], nil
	}
	var ids []string
	for _, t := range d.SubTasks {
		ids = append(ids, t.ID)
	}
	if near := text.Nearest(ref, ids); near != "" {
		return nil, usagef("boulder %s has no sub-task %q: did you mean %q?", boulder.ShortID(d.Boulder.ID), ref, near)
	}
	return nil, usagef("boulder %s has no sub-task %q: it has %s", boulder.ShortID(d.Boulder.ID), ref,
		text.Clip(cmp.Or(strings.Join(ids, ", "), "none yet"), 400))
}

// offers returns the completions that the project's state has for the next argument.
type offers func(ctx context.Context, r project.Reader, args []string) []cobra.Completion

func (a *app) completion(find offers) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var all []cobra.Completion
		if _ = a.open(); a.project != nil && find != nil {
			if there, err := a.project.Read(cmd.Context()); err == nil {
				defer there.Close()
				all = find(cmd.Context(), there, args)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

func boulders(ctx context.Context, r project.Reader, _ []string) (all []cobra.Completion) {
	items, _ := r.Listing(ctx) // an error only makes the list shorter
	for _, b := range items {
		all = append(all, cobra.CompletionWithDesc(b.BoulderID, string(b.Status)+": "+text.Clip(b.Task, 50)))
	}
	return all
}

func (a *app) subTasks(ofArgument bool) offers {
	return func(ctx context.Context, r project.Reader, args []string) (all []cobra.Completion) {
		ref := a.ref
		if ofArgument {
			ref = cmp.Or(args...)
		}
		d, _ := project.Get(ctx, r, ref)
		for _, t := range d.SubTasks {
			all = append(all, cobra.CompletionWithDesc(t.ID, text.Clip(t.Subject, 50)))
		}
		return all
	}
}

func (a *app) recorded(status boulder.BlockerStatus) offers {
	return func(ctx context.Context, _ project.Reader, _ []string) (all []cobra.Completion) {
		found, _ := a.project.ListBlockers(ctx, blockers.Filter{Status: status})
		for _, b := range found {
			all = append(all, cobra.CompletionWithDesc(b.ID, text.Clip(b.Question, 60)))
		}
		return all
	}
}

// guarded redacts secrets in everything that is written to a stream, including diagnostics and errors of libraries, and
// breaks lines that a terminal is too narrow for. It finds a secret only within one write, so the package writes whole
// lines. The live view, drawn in pieces, goes straight to the terminal; its events were redacted before.
type guarded struct {
	stream  io.Writer
	secrets *secret.Redactor
	failed  *atomic.Pointer[error] // receives the first write error; nil: not needed
	asIs    bool                   // lines are not broken
}

func (g guarded) Write(p []byte) (int, error) {
	clean := g.secrets.Text(string(p))
	if clean != string(p) && strings.HasPrefix(string(p), "{") { // redact JSON as JSON, so that it stays valid
		clean = string(g.secrets.JSON(p))
	}
	if !g.asIs && !strings.HasPrefix(clean, "{") && terminal(g.stream) {
		clean = text.WrapHanging(clean, page.SizeOf(g.stream).Width)
	}
	if _, err := io.WriteString(g.stream, clean); err != nil {
		if g.failed != nil {
			g.failed.CompareAndSwap(nil, &err)
		}
		return 0, err
	}
	return len(p), nil
}

// unguarded returns the stream behind a guarded one, for output that needs the terminal itself and is clean by other
// means.
func unguarded(stream io.Writer) io.Writer {
	if g, ok := stream.(guarded); ok {
		return g.stream
	}
	return stream
}

// asIs returns a stream that breaks no lines, for what is data on a terminal too: a diff, YAML.
func asIs(stream io.Writer) io.Writer {
	if g, ok := stream.(guarded); ok {
		g.asIs = true
		return g
	}
	return stream
}

// fileOf returns the file behind a stream, if there is one.
func fileOf(stream any) (*os.File, bool) {
	if w, ok := stream.(guarded); ok {
		stream = unguarded(w)
	}
	f, ok := stream.(*os.File)
	return f, ok
}
