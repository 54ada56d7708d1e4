package project

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/providerstest"
)

// Secrets in the answer of the ledgers' model are redacted, and the redacted plan does not count as edited.
func TestLedgersAreCleaned(t *testing.T) {
	t.Parallel()
	const key = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
	p := prepare(t.TempDir(), Options{})
	said := `{"sub_tasks":[{"id":"a","subject":"A","description":"use ` + key +
		`"},{"id":"b","subject":"B","description":"check"}]}`
	p.completers = map[string]providers.Completer{"": cleanCompleter{&providerstest.Script{Answers: []any{said, said}}, p.secrets}}
	plan, _, err := p.Plan(t.Context(), boulder.PlanRequest{Task: "use " + key, Mode: boulder.PlanAlways}, nil, nil)
	if err != nil || plan.SubTasks[0].Description != "use [redacted]" || plan.Task != "use [redacted]" || plan.Edited() {
		t.Errorf("%+v, %v", plan, err)
	}
}

// A repository may contain links in .manager: manager writes through none of them.
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
	if err := p.WritePlan(p.PlanPath(), plan, nil); err != nil {
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
	if err := p.WritePlan(p.PlanPath(), plan, nil); err == nil {
		t.Error("a .manager that is a link was written to")
	}
	// A link that the user names is followed.
	link, target := filepath.Join(project, "link.yaml"), filepath.Join(outside, "target.yaml")
	err := errors.Join(os.WriteFile(target, nil, 0o640), os.Symlink(target, link), p.WritePlan(link, plan, nil))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(target); err != nil || info.Size() == 0 || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
}

// A resume carries allow_model_gates of its own configuration for the gates of replans, whichever process runs it.
func TestGatesOfReplans(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		p := prepare(t.TempDir(), Options{})
		p.cfg.AllowModelGates = allowed
		req := Request{Resume: "b1"}
		if err := p.Complete(t.Context(), &req); err != nil || req.ReplanGates != allowed {
			t.Errorf("allowed: %v: %v, %v", allowed, req.ReplanGates, err)
		}
	}
}
