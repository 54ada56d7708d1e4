package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

func (a *app) newBlockersAnswerCmd() *cobra.Command {
	var allow bool
	cmd := &cobra.Command{
		Use:   "answer [flags] ID [\"TEXT\" | -]",
		Short: "Answer a blocker",
		Long: `Answers a blocker. Its sub-task goes on with the answer in its next prompt: at once if a process runs the
boulder, else with ` + "`manager resume`" + `. With - the text is read from stdin. It may have 4,000 characters.

With --allow a permission that OpenCode asked for is given, for what was asked and for the rest of that sub-task, in
later attempts as well; a text is then optional.

An answer stays as it is: say more with ` + "`manager note`" + `.`,
		Example: `  manager blockers answer B7 "Use bcrypt, cost 12"
  manager blockers answer B8 --allow
  manager blockers answer B9 - < decision.md`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s takes an ID and a TEXT: `manager blockers list` has the ids", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.completeBlocker(boulder.BlockerPending),
		RunE: a.withDesk(func(ctx context.Context, d *blockers.Desk, args []string) error {
			text, err := a.noteText(args[1:])
			if err != nil {
				return err
			}
			return a.runAnswer(ctx, d, args[0],
				blockers.Settlement{Status: boulder.BlockerAnswered, Answer: text, Allowed: allow})
		}),
	}
	cmd.Flags().BoolVar(&allow, "allow", false, "give the permission that was asked for")
	return cmd
}

func (a *app) newBlockersSkipCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "skip [flags] ID",
		Short: "Give no answer: the sub-task goes on without",
		Long: `Settles a blocker without an answer. A sub-task that waits for it goes on, and is told to leave out what
needs it and to say so. Also for what is dealt with, to have it off the list.`,
		Example: `  manager blockers skip B7`,
		Args:    oneBlocker, ValidArgsFunction: a.completeBlocker(boulder.BlockerPending),
		RunE: a.withDesk(func(ctx context.Context, d *blockers.Desk, args []string) error {
			return a.runAnswer(ctx, d, args[0], blockers.Settlement{Status: boulder.BlockerSkipped})
		}),
	}
}

func (a *app) runAnswer(ctx context.Context, d *blockers.Desk, id string, s blockers.Settlement) error {
	b, err := a.findBlocker(ctx, d, id)
	if err != nil {
		return err
	}
	report, err := a.settle(ctx, d, &b, s)
	switch {
	case report == nil:
	case a.json:
		err = errors.Join(a.printJSON(report), err)
	default:
		a.tell(view.Settled(report, time.Now()))
	}
	return err
}

// settle stores an answer to a blocker, and hands it to its boulder. With an error there is a report as well if the answer
// is stored.
func (a *app) settle(
	ctx context.Context, d *blockers.Desk, b *boulder.Blocker, s blockers.Settlement,
) (*project.Answered, error) {
	if err := a.checkAnswer(ctx, b, s); err != nil {
		return nil, err
	}
	p, err := a.open()
	if err != nil {
		return nil, err
	}
	s.Answer = a.withoutSecrets("The answer", s.Answer)
	report, err := p.Answer(ctx, d, b.ID, s)
	switch {
	case err != nil && report != nil:
		err = fmt.Errorf("%w\nThe answer is kept. It is handed over when the boulder is run the next time: manager resume %s",
			refusal(err), b.BoulderID)
	case errors.Is(err, blockers.ErrSettled):
		err = fmt.Errorf("%s was settled by somebody else just now; see: manager blockers show %[1]s", b.ID)
	case errors.Is(err, blockers.ErrNothingToAllow):
		err = &project.UsageError{Err: err}
	}
	return report, err
}

// checkAnswer refuses what can only be a slip, before anything is stored.
func (a *app) checkAnswer(ctx context.Context, b *boulder.Blocker, s blockers.Settlement) error {
	skip := s.Status == boulder.BlockerSkipped
	switch {
	case b.Status.Settled():
		said := fmt.Sprintf("%s is %s already, since %s", b.ID, b.Status, view.Stamp(b.SettledAt))
		if b.Status == boulder.BlockerAnswered {
			allowed := ""
			if b.Allowed {
				allowed = "allowed"
			}
			said = view.JoinedBy(": ", view.JoinedBy(": ", said, allowed), text.OneLine(b.Answer))
		}
		if b.SubTaskID != "" && a.tooLate(ctx, b) == "" { // it is not over
			said += fmt.Sprintf("; say more with: manager note --sub-task %s \"…\"", b.SubTaskID)
		}
		return errors.New(said)
	case s.Allowed && !allowable(b):
		return usagef("%s asks for no permission, so there is none to give: answer it with a text", b.ID)
	case allowable(b) && !s.Allowed && affirms(s.Answer):
		return usagef("%q alone does not give the permission, it would only be told to the agent: allow it with --allow"+
			" (/allow in clarify), or say more", s.Answer)
	case s.Answer == "" && !s.Allowed && !skip:
		hint := ""
		if allowable(b) {
			hint = ", --allow for yes,"
		}
		return usagef("an answer needs a text%s; to go on without one: manager blockers skip %s", hint, b.ID)
	}
	order := project.SettleOrder(b)
	order.SubTaskID, order.Text, order.Allowed = cmp.Or(order.SubTaskID, "-"), s.Answer, s.Allowed
	if err := order.Validate(); err != nil { // also outside of a run: what is too long there is too long here
		return &project.UsageError{Err: err}
	}
	if skip {
		return nil
	}
	if late := a.tooLate(ctx, b); late != "" {
		return errors.New(late)
	}
	return nil
}

// affirms reports whether a text says yes and no more.
func affirms(text string) bool {
	switch strings.ToLower(strings.TrimRight(strings.TrimSpace(text), ".!")) {
	case "y", "yes", "ok", "okay", "sure", "allow", "allowed", "go", "go ahead", "do it", "please do", "granted":
		return true
	}
	return false
}

// tooLate says why an answer could have no effect any more: its sub-task is over. It is empty where that is not known: the
// answer is then kept, and whoever hands it over finds out.
func (a *app) tooLate(ctx context.Context, b *boulder.Blocker) string {
	if b.BoulderID == "" {
		return ""
	}
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return ""
	}
	defer closeReader()
	if how, err := project.Standing(ctx, r, b); err != nil || how != project.OverBefore {
		return ""
	}
	what := fmt.Sprintf("boulder %s is not here any more", b.BoulderID)
	if detail, err := r.Get(ctx, b.BoulderID); err == nil {
		what = fmt.Sprintf("boulder %s is %s", b.BoulderID, detail.Boulder.Status)
		for i := range detail.SubTasks {
			if t := &detail.SubTasks[i]; t.ID == b.SubTaskID && !detail.Boulder.Status.Terminal() {
				what = fmt.Sprintf("sub-task %q is %s", t.ID, t.Status)
			}
		}
	}
	return fmt.Sprintf("%s, so nobody goes on with an answer to %s: have what is wrong put right by a new run, or take it"+
		" off the list with: manager blockers skip %s", what, b.ID, b.ID)
}
