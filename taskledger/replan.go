package taskledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/ledger"
)

// Replan plans anew what could not be done: 1–5 new sub-tasks instead of req.Replaced, that depend on what is done, on
// what is kept, and on each other. It blocks until the model has answered, minutes perhaps, and may be called again for
// the same request.
//
// Ids that are taken get a number ("toggle-2"). What a person wrote into a replaced sub-task stays in force: the gates
// of a sub-task stand at the last of the new ones that replace it, or at the last of all if none does, before the
// model's own; model, agent, priority, done_when and budget go over to each one that replaces it.
//
// Answers that cannot be used, and plans that are equal to an earlier one, go back to the model with what is wrong,
// three times. After that, and where the model refuses, the error wraps [boulder.ErrNoNewPlan]. If nobody could be
// asked the error is as that of [Planner.Plan]. The usage is valid with an error too.
func (p *Planner) Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	if len(req.Replaced) == 0 {
		return boulder.Replacement{}, boulder.Usage{}, errors.New("make a new plan: there is nothing to replace")
	}
	schema := ledger.Schema[answer](nil, "facts", "goal", "constraints", "needs_plan")
	check := func(a *answer) error {
		_, err := a.replacement(req)
		return err
	}
	said, spent, err := ledger.Ask(ctx, p.cfg.Completer, p.cfg.Logger, question(replanSystemPrompt, schema), check,
		replanPrompt(req, longReplan), replanPrompt(req, shortReplan))
	if errors.Is(err, ledger.ErrNoAnswer) {
		err = fmt.Errorf("%w: %w", boulder.ErrNoNewPlan, err)
	}
	var made boulder.Replacement
	if err == nil {
		p.cfg.Logger.DebugContext(ctx, "planned anew",
			"failed", req.Failed.ID, "sub_tasks", len(said.SubTasks), "reason", said.Reason)
		made, err = said.replacement(req)
	}
	if err != nil {
		return boulder.Replacement{}, spent, err
	}
	made.Model = p.cfg.Model
	return made, spent, nil
}
