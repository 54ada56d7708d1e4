package project

import (
	"context"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
)

// Plan asks the Task Ledger to split a task. Nothing is stored.
func (p *Project) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	planner, err := p.planner()
	if err != nil {
		return nil, boulder.Usage{}, err
	}
	req.Project = p.dir
	plan, usage, err := planner.Plan(ctx, req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, usage, cause
		}
		return nil, usage, fmt.Errorf("plan: %w", err)
	}
	return plan, usage, nil
}
