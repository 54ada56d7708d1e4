package project

import (
	"context"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/orchestrator"
)

// cleanPlanner and cleanJudge take secrets out of what the ledgers' models say before the run gets it. The database
// would do it too, but then a run that was taken up again would go on with other texts than one that was not.
type cleanPlanner struct {
	orchestrator.Planner
	secrets *secret.Redactor
}

func (p cleanPlanner) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	plan, usage, err := p.Planner.Plan(ctx, req)
	if plan == nil {
		return nil, usage, err
	}
	clean := secret.Each(*plan, p.secrets)
	if clean.Seal != nil && !plan.Edited() {
		clean.Seal.Hash = clean.Hash()
	}
	return &clean, usage, err
}

func (p cleanPlanner) Replan(
	ctx context.Context, req boulder.ReplanRequest,
) (boulder.Replacement, boulder.Usage, error) {
	r, usage, err := p.Planner.Replan(ctx, req)
	return secret.Each(r, p.secrets), usage, err
}

type cleanJudge struct {
	judge   orchestrator.Judge
	secrets *secret.Redactor
}

func (j cleanJudge) Judge(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	v, usage, err := j.judge.Judge(ctx, req)
	return secret.Each(v, j.secrets), usage, err
}
