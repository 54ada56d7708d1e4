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
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/taskledger"
)

// approver shows a plan to the user and lets them change it, agree or decline.
type approver struct {
	*app
	ask   bool                      // somebody is there
	edit  bool                      // open the editor first
	check func(*boulder.Plan) error // of the plan as it is after that; nil: none
}

// into has the request ask. askReplans: replans are to be approved, too.
func (p *approver) into(req *project.Request, askReplans bool) {
	req.AskReplans, req.ApproveReplan = askReplans, p.approveReplan
	if !askReplans { // they go ahead, and their gates run if the configuration allows gates that nobody has looked at
		req.ApproveReplan = func(context.Context, orchestrator.ReplanProposal) (gates bool, err error) {
			return p.Config().AllowModelGates, nil
		}
	}
	req.Approve = func(ctx context.Context, plan *boulder.Plan) (orchestrator.Approval, error) {
		return p.approve(ctx, plan, p.PlanPath(), p.Config().AllowModelGates)
	}
}

// approve returns the plan to run, with a model for sub-tasks that name none. gates says whether its gates may run if
// nobody is asked; who agrees to a plan agrees to its gates. path is the plan's file, where edits are made.
func (p *approver) approve(
	ctx context.Context, plan *boulder.Plan, path string, gates bool,
) (a orchestrator.Approval, err error) {
	p.Warm() // boots while the user reads
	shown := plan
	for edit, agreed := p.edit, false; !agreed; edit = true {
		if edit {
			shown, err = p.editPlan(ctx, plan, path)
		}
		switch _, bad := errors.AsType[*taskledger.FileError](err); {
		case bad && p.ask:
			fmt.Fprintf(p.Stderr, "%v\nThe plan was not taken over; edit it again.\n", err)
		case err != nil:
			return a, err
		default:
			if plan = shown; !p.json && !p.quiet {
				view.Plan(p.on(p.Stderr), plan)
			}
		}
		answer := "yes"
		if p.ask {
			if answer, err = p.choose(ctx, "Run this plan?", "yes", "edit", "no"); err != nil {
				return a, err
			}
		}
		agreed = answer == "yes"
	}
	gates = gates || p.edit || p.ask
	if !gates && slices.ContainsFunc(plan.SubTasks, func(s boulder.Spec) bool { return len(s.Gates) > 0 }) {
		p.note("The model proposed gates. Nobody has looked at them, so they are told to the agents but not run" +
			" (allow_model_gates in the configuration changes that).")
	}
	model, err := p.CheckModels(ctx, plan)
	if err == nil && p.check != nil {
		err = p.check(plan)
	}
	return orchestrator.Approval{Plan: plan, Gates: gates, Model: model}, err
}

// approveReplan asks about a replan.
func (p *approver) approveReplan(ctx context.Context, r orchestrator.ReplanProposal) (gates bool, err error) {
	asks := terminal(p.Stdin) && terminal(p.Stderr)
	if p.view != nil && asks {
		defer p.view.Pause()()
	}
	if asks || !p.quiet { // it is not stored: a resume asks for a new one
		view.Replan(p.on(p.Stderr), r)
	}
	if !asks {
		return false, fmt.Errorf("%w: a new plan has to be approved (--approve-replans), and there is no terminal to ask"+
			" on: go on with `manager resume` on one, or without the flag", orchestrator.ErrWaiting)
	}
	_, err = p.choose(ctx, "Go on with this plan?", "yes", "no")
	return err == nil, err
}

// choose asks until one of the words, or its first letter, is the answer. The last one is no: [orchestrator.ErrDeclined].
func (a *app) choose(ctx context.Context, question string, words ...string) (string, error) {
	for {
		fmt.Fprintf(a.Stderr, "\n%s [%s] ", question, strings.Join(words, " / "))
		answer, err := a.answer(ctx)
		if err != nil {
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

// answer reads a line of the user, who may also interrupt. An end of input is a no. Reading a terminal cannot be
// cancelled: the line that an ended question waited for is the answer to the next one. One question at a time.
func (a *app) answer(ctx context.Context) (string, error) {
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
			line = "no"
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// editPlan opens the plan's file in the user's editor and reads it back.
func (p *approver) editPlan(ctx context.Context, plan *boulder.Plan, path string) (*boulder.Plan, error) {
	// What cannot be read is a failed edit of a moment ago: it is gone on with.
	old, err := taskledger.ReadFile(path)
	if !exists(path) || path == p.PlanPath() && err == nil && old.Hash() != plan.Hash() {
		if err := p.keepEdited(path); err != nil {
			return nil, err
		}
		if err := p.WritePlan(path, plan); err != nil {
			return nil, err
		}
	}
	editor := cmp.Or(p.Getenv("VISUAL"), p.Getenv("EDITOR"), "vi")
	// $EDITOR may have arguments; the shell splits them, and gets the path as a parameter of its own.
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", path)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Environ, p.Stdin, os.Stderr, os.Stderr
	if terminal(p.Stdout) {
		cmd.Stdout = bare(p.Stdout)
	}
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the editor %q failed: %w: set $EDITOR to one that works, or edit %s yourself and run it",
			editor, err, path)
	}
	return p.ReadPlan(path)
}
