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

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

func (a *app) newBlockersAnswerCmd() *cobra.Command {
	var allow bool
	cmd := &cobra.Command{
		Use:   "answer [flags] ID [\"TEXT\" | -]",
		Short: "Answer a blocker",
		Long: `Answers a blocker, once. Its sub-task continues with the answer in its next prompt: at once if a process runs the
boulder, else with ` + "`manager resume`" + `. The number of an option that is shown means that option; a number that none has is
refused, unless options have numbers themselves. With - the text, of at most 4,000 characters, is read from stdin.`,
		Example: `  manager blockers answer B7 "Use bcrypt, cost 12"
  manager blockers answer B8 --allow
  manager blockers answer B9 - < decision.md`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.noteText(args[1:])
			if err != nil {
				return err
			}
			s := blockers.Settlement{Status: boulder.BlockerAnswered, Answer: text, Allowed: allow}
			return a.runAnswer(cmd.Context(), args[0], s)
		},
	}
	cmd.Flags().BoolVar(&allow, "allow", false, "give the permission that OpenCode asked for, for the rest of the sub-task")
	return cmd
}

func (a *app) newBlockersSkipCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "skip [flags] ID",
		Short: "Skip a blocker: the sub-task continues without an answer",
		Long: `Settles a blocker without an answer. A sub-task that waits for it continues, and is told to leave out what needs it
and to say so.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runAnswer(cmd.Context(), args[0], blockers.Settlement{Status: boulder.BlockerSkipped})
		},
	}
}

func (a *app) runAnswer(ctx context.Context, id string, s blockers.Settlement) error {
	answered, err := a.settle(ctx, id, s)
	switch {
	case answered == nil:
	case a.json:
		err = errors.Join(a.printJSON(answered), err)
	default:
		a.on(a.Stdout).Say(view.SettledBlocker(answered, time.Now()))
	}
	return err
}

func (a *app) settle(ctx context.Context, id string, s blockers.Settlement) (*project.Answered, error) {
	item, err := a.findBlocker(ctx, id)
	if err != nil {
		return nil, err
	}
	return a.project.SettleBlocker(ctx, &item, s)
}

func (a *app) newBlockersClarifyCmd() *cobra.Command {
	var o blockerOptions
	cmd := &cobra.Command{
		Use:   "clarify [flags] [BOULDER]",
		Short: "Go through what waits for an answer, one by one",
		Long: `Asks on the terminal for an answer to each blocker that waits for one, in the order of ` + "`list`" + `. Each answer is
stored and handed over at once: leave at any time, and continue later with what is left.

  TEXT       Enter ends the answer; what is pasted stays one answer. A line that ends with a backslash continues in
             the next one
  NUMBER     of an option: that option
  (nothing)  later: it stays on the list
  /allow     give the permission that was asked for, for the rest of the sub-task; a text may follow
  /deny      refuse the permission; a text may follow
  /skip      no answer: the sub-task continues without
  /quit      leave, as do Ctrl-D and Ctrl-C`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.boulder = cmp.Or(args...)
			in, ok := fileOf(a.Stdin)
			if !ok || !terminal(a.Stdin) || !terminal(a.Stderr) {
				return usagef("clarify asks on a terminal, and there is none: see `manager blockers list`, and answer with" +
					" `manager blockers answer ID \"TEXT\"`")
			}
			f, err := o.filter(cmd.Context(), a)
			if err != nil {
				return err
			}
			return a.clarify(cmd.Context(), f, func(ctx context.Context, prompt string) (string, error) {
				return view.ReadAnswer(ctx, in, unguarded(a.Stderr), prompt)
			})
		},
	}
	o.choose(cmd)
	return cmd
}

// asker reads an answer. It returns [io.EOF] if the user leaves.
type asker func(ctx context.Context, prompt string) (string, error)

// clarify asks about one blocker after the other, most urgent first, including those raised meanwhile. Unreadable ones
// are reported at the end.
func (a *app) clarify(ctx context.Context, f blockers.Filter, ask asker) (err error) {
	f.Status = boulder.BlockerPending
	v := a.on(a.Stderr)
	seen, resume := map[string]bool{}, []string{}
	for leave := false; !leave; {
		var open []report.Blocker
		open, err = a.project.ListBlockers(ctx, f)
		open = slices.DeleteFunc(view.WithoutMoot(open), func(b report.Blocker) bool { return seen[b.Ref()] })
		if len(open) == 0 {
			break
		}
		seen[open[0].Ref()] = true
		v.Say("")
		v.Say(v.Dim(fmt.Sprintf("── %d left ", len(open)) + strings.Repeat("─", max(0, min(v.Width(), 60)-12))))
		var answered *project.Answered
		answered, err = a.clarifyOne(ctx, v, &open[0], ask)
		leave = err != nil
		if answered != nil && view.GoesOnLater(answered) && !slices.Contains(resume, answered.BoulderID) {
			resume = append(resume, answered.BoulderID)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	ctx = context.WithoutCancel(ctx)
	all, listErr := a.project.ListBlockers(ctx, blockers.Filter{Status: boulder.BlockerPending}) // not only those that match f
	left := view.WaitingOf(all)
	v.Say("")
	switch {
	case listErr != nil:
		v.Say(v.Yellow(listErr.Error()))
	case left.Text() != "":
		v.Say(left.Text() + "; continue with: " + view.ClarifyHint)
	default:
		v.Say("Nothing waits for an answer.")
	}
	for _, id := range resume {
		v.Say("Continue the work with: manager resume " + boulder.ShortID(id))
	}
	return err
}

// clarifyOne shows a blocker, asks until the answer is usable, and stores it. It returns nil if the user answers later.
func (a *app) clarifyOne(ctx context.Context, v page.Out, item *report.Blocker, ask asker) (*project.Answered, error) {
	var all strings.Builder
	whole, b := v, &item.Blocker
	whole.Writer = &all
	view.PrintBlocker(whole, item, 0, true, time.Now())
	fmt.Fprint(v, all.String())
	if strings.Count(all.String(), "\n") > page.SizeOf(v.File).Height-4 { // the question has scrolled away
		v.Say("")
		v.Say(v.Strong(b.Question))
	}
	v.Say("")
	v.Say(v.Dim(view.AnswerHint(b, "Enter: later · /skip: continue without · /quit")))
	for {
		typed, err := ask(ctx, b.ID+"> ")
		if err != nil {
			return nil, err
		}
		s, err := view.ParseAnswer(typed, b)
		if s == nil && err == nil || errors.Is(err, io.EOF) {
			return nil, err
		}
		var answered *project.Answered
		if err == nil {
			answered, err = a.settle(ctx, item.Ref(), *s)
		}
		if answered != nil {
			v.Say(v.Green(page.Good.String()+" ") + view.SettledBlocker(answered, time.Now()))
		}
		if err != nil {
			v.Say(v.Yellow(text.OneLine(err.Error())))
		}
		if answered != nil && a.json {
			return answered, a.printJSON(answered)
		}
		if now, err := a.project.Blocker(ctx, item.Ref()); answered != nil || err == nil && now.Status.Settled() { // also by another process
			return answered, nil
		}
	}
}
