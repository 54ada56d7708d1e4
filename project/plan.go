package project

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
)

// Plan asks the Task Ledger to split a task. Nothing is stored.
func (p *Project) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	req.Project, req.Task, req.Constraints = p.dir, p.Clean("The task", req.Task)[0], p.Clean("The task", req.Constraints...)
	plan, usage, err := p.planner().Plan(ctx, req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, usage, cause
		}
		return nil, usage, fmt.Errorf("plan: %w", err)
	}
	return plan, usage, nil
}

// ReadPlan reads a plan file without the secrets in it; in commands, ids and names of models they are refused.
func (p *Project) ReadPlan(path string) (*boulder.Plan, error) {
	plan, err := taskledger.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := p.refuseSecret("the plan's model", plan.Model); err != nil {
		return nil, err
	}
	for _, s := range plan.SubTasks {
		for name, values := range map[string][]string{
			"id": {s.ID}, "model": {s.Model}, "agent": {s.Agent}, "depends_on": s.DependsOn,
			"gates": s.Gates, "no_worse": s.NoWorse,
		} {
			if err := p.refuseSecret(fmt.Sprintf("%s of sub-task %q", name, p.secrets.Text(s.ID)), values...); err != nil {
				return nil, err
			}
		}
	}
	written, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	if kinds := p.secrets.Kinds(string(written)); len(kinds) > 0 {
		p.warnOfSecret("The plan "+path, kinds)
	}
	clean := secret.Each(*plan, p.secrets)
	return &clean, nil
}

// WritePlan writes a plan to a file that a person named, as they would write it, or to the project's own, which is
// below .manager: there a link is not followed, since it may come from anybody.
func (p *Project) WritePlan(path string, plan *boulder.Plan) error {
	if path != p.PlanPath() {
		return taskledger.WriteFile(path, plan)
	}
	data, err := taskledger.Format(plan)
	if err != nil {
		return err
	}
	if err := statedir.Write(p.dir, []string{store.DirName}, filepath.Base(path), data); err != nil {
		return fmt.Errorf("write the plan to %s: %w", path, err)
	}
	return nil
}

// CheckSeal refuses a plan that was made for another state of the project.
func (p *Project) CheckSeal(plan *boulder.Plan, allowStale bool) error {
	if plan.Edited() {
		p.note("The plan was edited after it was made; it runs as it is written.")
	}
	if plan.Seal == nil || plan.Seal.Base == p.base || plan.Seal.Base == "" {
		return nil
	}
	moved := fmt.Sprintf("the plan was made for commit %s, and the project is at %s",
		Short(plan.Seal.Base), cmp.Or(Short(p.base), "no commit"))
	if allowStale {
		p.note("Note: %s.", moved)
		return nil
	}
	return usagef("%s: plan again with `manager plan`, or run it all the same with --allow-stale", moved)
}

// Short is a commit as people read it.
func Short(commit string) string { return commit[:min(len(commit), 10)] }
