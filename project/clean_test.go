package project

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/taskledger"
)

const plantedKey = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"

// ledgers say what they like.
type ledgers struct{ plan *boulder.Plan }

func (l ledgers) Plan(context.Context, boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	if l.plan == nil {
		return nil, boulder.Usage{Calls: 1}, errors.New("no plan")
	}
	return l.plan, boulder.Usage{Calls: 1}, nil
}

func (ledgers) Replan(context.Context, boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	return boulder.Replacement{SubTasks: []boulder.Spec{{ID: "a", Description: plantedKey}}}, boulder.Usage{}, nil
}

func (ledgers) Judge(context.Context, boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return boulder.Verdict{Summary: plantedKey, Completed: true}, boulder.Usage{Calls: 2}, nil
}

// The run gets what ledgers say without secrets, and a plan that is taken up again is not taken for an edited one.
func TestLedgersAreCleaned(t *testing.T) {
	t.Parallel()
	r := &secret.Redactor{}
	raw := taskledger.Seal(&boulder.Plan{
		Version: 1, Task: "t", SubTasks: []boulder.Spec{{ID: "a", Description: "use " + plantedKey}},
	}, "", boulder.OriginModel, "m", time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC))
	plan, usage, err := cleanPlanner{ledgers{raw}, r}.Plan(t.Context(), boulder.PlanRequest{})
	if err != nil || usage.Calls != 1 || plan.SubTasks[0].Description != "use [redacted]" || plan.Edited() {
		t.Errorf("%+v, %v, %v", plan, usage, err)
	}
	if raw.SubTasks[0].Description != "use "+plantedKey {
		t.Error("the planner's own plan was changed")
	}
	plan, usage, err = cleanPlanner{ledgers{}, r}.Plan(t.Context(), boulder.PlanRequest{})
	if plan != nil || usage.Calls != 1 || err == nil {
		t.Errorf("%v, %v, %v", plan, usage, err)
	}
	replan, _, err := cleanPlanner{ledgers{}, r}.Replan(t.Context(), boulder.ReplanRequest{})
	if err != nil || replan.SubTasks[0].Description != "[redacted]" {
		t.Errorf("%+v, %v", replan, err)
	}
	v, usage, err := cleanJudge{ledgers{}, r}.Judge(t.Context(), boulder.JudgeRequest{})
	if err != nil || v.Summary != "[redacted]" || !v.Completed || usage.Calls != 2 {
		t.Errorf("%+v, %v, %v", v, usage, err)
	}
}

var (
	_ orchestrator.Planner = cleanPlanner{}
	_ orchestrator.Judge   = cleanJudge{}
)

// A repository may bring links in .manager along: none is written through.
func TestPlanFileIsNoWayOut(t *testing.T) {
	t.Parallel()
	plan := &boulder.Plan{Version: 1, Task: "t", SubTasks: []boulder.Spec{{ID: "a", Subject: "a", Description: "d"}}}
	project, outside := t.TempDir(), t.TempDir()
	p := prepare(project, Options{})
	precious := filepath.Join(outside, "bashrc")
	if err := errors.Join(
		os.WriteFile(precious, []byte("mine"), 0o644), os.Mkdir(filepath.Join(project, ".manager"), 0o700),
		os.Symlink(precious, p.PlanPath())); err != nil {
		t.Fatal(err)
	}
	if err := p.WritePlan(p.PlanPath(), plan); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(p.PlanPath()); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if got, _ := os.ReadFile(precious); string(got) != "mine" {
		t.Errorf("the link was written through: %q", got)
	}
	state := filepath.Join(project, ".manager")
	if err := errors.Join(os.RemoveAll(state), os.Symlink(outside, state)); err != nil {
		t.Fatal(err)
	}
	if err := p.WritePlan(p.PlanPath(), plan); err == nil {
		t.Error("a .manager that is a link was written to")
	}
	// Where a person named the file, their link is theirs.
	link, target := filepath.Join(project, "link.yaml"), filepath.Join(outside, "target.yaml")
	err := errors.Join(os.WriteFile(target, nil, 0o640), os.Symlink(target, link), p.WritePlan(link, plan))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(target); err != nil || info.Size() == 0 || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
}
