package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/taskledger"
)

// approver shows a plan to the user, who can edit, approve or decline it.
type approver struct {
	*app
	edit bool             // open the editor first
	file bool             // the plan is of a file and not of a boulder, which would revise it itself
	list string           // the kind of list of tasks that the plan was read from; empty: none
	was  *boulder.Plan    // the plan that the user wanted revised; nil: none, or it was shown what became of it
	done project.Criteria // of sub-tasks that name none
	most *boulder.Budget  // of the run; nil: none
	uses boulder.Settings // model, effort and agent of a stored boulder, and the isolation that was asked for
}

// setApproval sets the callbacks of a request to p. askReplans asks about replans, too.
func (p *approver) setApproval(req *project.Request, askReplans bool) {
	req.AskReplans, req.ApproveReplan = askReplans, p.approveReplan
	if p.interactive() {
		req.Ask, req.AskInPlace = p.ask, p.askInPlace
	}
	req.Approve = func(ctx context.Context, plan *boulder.Plan) (orchestrator.Approval, error) {
		p.project.WarnOfPlan(plan)
		if err := orchestrator.Unasked(plan); err != nil && !p.edit && !p.interactive() {
			return orchestrator.Approval{}, err
		}
		return p.approve(ctx, plan, p.project.PlanPath(), p.project.Config().AllowModelGates)
	}
}

// approve returns the approved plan, with a model for sub-tasks that name none. gates says whether its gates may run
// without a question; approving a plan approves its gates. path is the plan's file, for edits.
func (p *approver) approve(
	ctx context.Context, plan *boulder.Plan, path string, gates bool,
) (a orchestrator.Approval, err error) {
	p.project.Warm() // boots while the user reads
	shown := plan
	answer := text.If(p.edit && p.was == nil, "edit")
	for agreed := false; !agreed; {
		switch answer {
		case "edit":
			shown, err = p.editPlan(ctx, plan, path)
		case "revise":
			shown, err = p.revised(ctx, plan, path)
		}
		switch _, bad := errors.AsType[*taskledger.FileError](err); {
		case bad && p.interactive():
			fmt.Fprintf(p.Stderr, "%s\nThe plan was not taken over; edit it again.\n", text.Safe(project.Message(err)))
		case errors.Is(err, boulder.ErrNoNewPlan):
			p.note("The plan stays as it was: %s", project.Message(err))
		case err != nil:
			return a, err
		default:
			plan = shown
			p.show(ctx, plan, gates || p.edit || p.interactive())
		}
		answer = "yes"
		for asks := p.interactive(); asks; asks = answer == "details" {
			if answer, err = p.choose(ctx, "Run this plan?", "yes", "details", "edit", "revise", "no"); err != nil {
				return a, err
			}
			if answer == "details" {
				p.preview(ctx, p.on(p.Stderr), plan, true, p.done, p.most, p.used(), true)
			}
		}
		agreed = answer == "yes"
	}
	gates = gates || p.edit || p.interactive()
	if !gates && slices.ContainsFunc(plan.SubTasks, func(s boulder.Spec) bool { return len(s.Gates) > 0 }) {
		p.note("%s gates. They are not reviewed, so they are told to the agents but not run%s (allow_model_gates in the"+
			" configuration changes that).", cmp.Or(text.If(p.list != "", "The list of tasks brings"), "The model proposed"),
			text.If(p.list != "", "; in a plan file that `manager plan --from` writes, they run"))
	}
	p.tellUnused(plan)
	model, err := p.project.CheckNeeds(ctx, plan, p.uses, p.done) // the plan may have been edited
	return orchestrator.Approval{Plan: plan, Gates: gates, Model: model}, err
}

// used returns the settings of the run, with the model of sub-tasks that name none.
func (p *approver) used() boulder.Settings {
	s := p.uses
	if s.Model == "" {
		s.Model, _ = p.project.Model() // what is wrong with it is said by CheckNeeds
	}
	s.Effort = cmp.Or(s.Effort, p.project.Effort())
	return s
}

// tellUnused says that --model or --effort is for no sub-task of a plan: each has its own, or the plan does.
func (p *approver) tellUnused(plan *boulder.Plan) {
	used := func(a, b boulder.Settings) bool {
		return slices.ContainsFunc(plan.SubTasks, func(s boulder.Spec) bool {
			return s.ModelsIn(plan, a.Model, a.Effort) != s.ModelsIn(plan, b.Model, b.Effort)
		})
	}
	model := cmp.Or(p.opts.Model, p.uses.Model, "any/model")
	if p.opts.Model != "" && !used(boulder.Settings{Model: "one/model"}, boulder.Settings{Model: "another/model"}) {
		p.note("--model %s changes nothing: the plan, or each of its sub-tasks, names a model.", p.opts.Model)
	}
	if p.opts.Effort != "" && !used(boulder.Settings{Model: model, Effort: "one"}, boulder.Settings{Model: model, Effort: "another"}) {
		p.note("--effort %s changes nothing: the plan, or each model of its sub-tasks, names an effort.", p.opts.Effort)
	}
}

// show previews a plan, or what a revision changed in it.
func (p *approver) show(ctx context.Context, plan *boulder.Plan, gates bool) {
	was := p.was
	p.was = nil
	switch {
	case p.json || p.quiet:
	case was == nil && p.file && p.list == "" && !p.interactive() && plan.Seal != nil && !plan.Edited():
		p.note("The plan is as `manager plan` showed it: %s.", text.Plural(len(plan.SubTasks), "sub-task"))
	case was == nil:
		p.preview(ctx, p.on(p.Stderr), plan, !p.interactive(), p.done, p.most, p.used(), gates)
	case boulder.ComparePlans(was, plan).Empty():
		p.note("The plan is as it was.")
	default:
		view.PlanChanges(p.on(p.Stderr), was, plan)
	}
}

// revised asks what should be different, and has the ledger change a plan of a file, with its file, or the boulder its own.
func (p *approver) revised(ctx context.Context, plan *boulder.Plan, path string) (*boulder.Plan, error) {
	comment, err := p.comment(ctx)
	if err != nil || comment == "" {
		return plan, err
	}
	p.was = plan
	if !p.file {
		return nil, &orchestrator.ReviseError{Comment: comment, Plan: plan}
	}
	revised, err := p.revise(ctx, plan, comment)
	if err != nil {
		p.was = nil
		return nil, err
	}
	return revised, p.replacePlan(path, revised)
}

// comment asks what should be different in a plan, or returns "" if the user says nothing.
func (a *app) comment(ctx context.Context) (string, error) {
	fmt.Fprint(a.Stderr, "\nWhat should be different? ")
	comment, err := a.line(ctx, "")
	return a.project.Clean("The comment", strings.TrimSpace(comment))[0], err
}

// revise has the Task Ledger change a plan as the user's comment says.
func (a *app) revise(ctx context.Context, plan *boulder.Plan, comment string) (*boulder.Plan, error) {
	told, planned := a.planning(a.project.Ledger())
	revised, usage, err := a.project.Plan(ctx, boulder.PlanRequest{Task: plan.Task, Was: plan, Comment: comment}, nil, told)
	planned()
	if usage.Calls > 0 {
		a.note("Revised with %s (%s).", view.ModelName(a.project.Ledger()), view.Usage(usage))
	}
	return revised, err
}

// replacePlan writes a plan to its file, and keeps the one before.
func (a *app) replacePlan(path string, plan *boulder.Plan) error {
	if exists(path) {
		if err := os.Rename(path, path+".bak"); err != nil {
			return fmt.Errorf("keep the plan before: %w", err)
		}
	}
	if err := a.project.WritePlan(path, plan, nil); err != nil {
		return err
	}
	a.note("Wrote %s; the plan before is %s.", a.pretty(path), a.pretty(path+".bak"))
	return nil
}

func (p *approver) approveReplan(ctx context.Context, r orchestrator.ReplanProposal) (gates bool, err error) {
	asks := terminal(p.Stdin) && terminal(p.Stderr)
	if p.view != nil && asks {
		defer p.view.Pause()()
	}
	if asks || !p.quiet {
		view.Replan(p.on(p.Stderr), r, taskledger.KnownCommands(p.project.Dir()))
	}
	if !asks {
		return false, fmt.Errorf("%w: a new plan has to be approved (--approve-replans), and there is no terminal to ask"+
			" on: continue with `manager resume` on one, or without the flag", orchestrator.ErrWaiting)
	}
	answer, err := p.choose(ctx, "Continue with this plan?", "yes", "revise", "no")
	for err == nil && answer == "revise" {
		var comment string
		if comment, err = p.comment(ctx); err == nil && comment != "" {
			return false, &orchestrator.ReviseError{Comment: comment}
		}
		if err == nil {
			answer, err = p.choose(ctx, "Continue with this plan?", "yes", "revise", "no")
		}
	}
	return err == nil, err
}

// askInPlace asks whether sub-tasks may share the user's files, since copies do not do.
func (p *approver) askInPlace(ctx context.Context, reason string) error {
	if p.view != nil {
		defer p.view.Pause()()
	}
	o := p.on(p.Stderr)
	o.Say()
	o.Field(0, "no copies", reason)
	_, err := p.choose(ctx, "Have the sub-tasks work side by side in your own files?", "yes", "no")
	if errors.Is(err, orchestrator.ErrDeclined) {
		err = fmt.Errorf("%w: no sub-task has begun: add to the configuration what copies lack, and resume", orchestrator.ErrWaiting)
	}
	return err
}

// ask asks the user what the planner asks, one by one. At the end of input the rest stays undecided.
func (a *app) ask(ctx context.Context, questions []boulder.Question) (answers []string, err error) {
	const end = "\x04"
	o := a.on(a.Stderr)
	for i, q := range questions {
		o.Say()
		o.Say(o.Bold(fmt.Sprintf("Question %d of %d: ", i+1, len(questions))), o.Strong(text.OneLine(q.Question)))
		o.Field(1, "why", q.Why)
		o.Field(1, "default", q.Default)
		fmt.Fprint(a.Stderr, "Your answer (Enter: the default): ")
		answer, err := a.line(ctx, end)
		if err != nil || answer == end {
			fmt.Fprintln(a.Stderr)
			if err == nil {
				a.typed = nil // Ctrl-D ends this, and no later question
			}
			return answers, err
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// choose asks until the answer is one of words, or its first letter. The last word declines:
// [orchestrator.ErrDeclined].
func (a *app) choose(ctx context.Context, question string, words ...string) (string, error) {
	for {
		fmt.Fprintf(a.Stderr, "\n%s [%s] ", question, strings.Join(words, " / "))
		answer, err := a.answer(ctx)
		if err != nil { // interrupted, or answered on another terminal or page
			fmt.Fprintln(a.Stderr)
			return "", err
		}
		answer = strings.ToLower(strings.TrimSpace(answer))
		for _, word := range words {
			if answer != word && answer != word[:1] {
				continue
			}
			if word == words[len(words)-1] {
				err = orchestrator.ErrDeclined
			}
			return word, err
		}
	}
}

// answer reads a line from the user; end of input counts as "no".
func (a *app) answer(ctx context.Context) (string, error) { return a.line(ctx, "no") }

// line reads a line from the user, or returns end at the end of input. A read cannot be cancelled, so a line that comes
// after ctx has ended answers the next question. Not for concurrent use.
func (a *app) line(ctx context.Context, end string) (string, error) {
	if a.typed == nil {
		a.typed = bufio.NewScanner(a.Stdin)
	}
	if a.nextLine == nil {
		next := make(chan string, 1)
		a.nextLine = next
		go func() {
			defer close(next)
			if a.typed.Scan() {
				next <- a.typed.Text()
			}
		}()
	}
	select {
	case line, ok := <-a.nextLine:
		a.nextLine = nil
		if !ok {
			line = end
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *approver) editPlan(ctx context.Context, plan *boulder.Plan, path string) (*boulder.Plan, error) {
	// An unreadable file is an edit that failed just now. The user edits it again.
	old, err := taskledger.ReadFile(path)
	if !exists(path) || path == p.project.PlanPath() && err == nil && old.Hash() != plan.Hash() {
		if err := p.keepEdited(path); err != nil {
			return nil, err
		}
		if err := p.project.WritePlan(path, plan, nil); err != nil {
			return nil, err
		}
	}
	editor := cmp.Or(p.Getenv("VISUAL"), p.Getenv("EDITOR"), "vi")
	// $EDITOR may contain arguments, which the shell splits. The path is a separate parameter.
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", path)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Environ, p.Stdin, os.Stderr, os.Stderr
	if terminal(p.Stdout) {
		cmd.Stdout = unguarded(p.Stdout)
	}
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the editor %q failed: %w: set $EDITOR to one that works, or edit %s yourself and run it",
			editor, err, path)
	}
	return p.project.ReadPlan(path)
}
