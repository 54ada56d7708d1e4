package cli

import (
	"io"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	samples "github.com/bouldermgr/manager/testkit/golden/sample"
)

// A server's plan that waits for approval is shown only on a terminal, where a no ends the boulder.
func TestDeclineThePlanOfAServer(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.Apply(boulder.Planned{Revision: 1, Plan: boulder.PlanRevision{Number: 1, Plan: samples.Plan(), Hash: "abcdef0123456789"}})
	s.Apply(boulder.StatusChanged{Status: boulder.Paused})
	project := s.store()
	db, server := holdAs(t, project, processAt{PID: 42, Command: "manager serve", Serves: true})
	server.SetSteerer(onDisk{db})
	expect(t, project, exitUsage, []string{"resume"}, "the plan of boulder "+sampleID+" waits for approval: resume it on a terminal")

	p := openPTY(t)
	done := make(chan int)
	go func() {
		done <- Main(Env{
			Args: []string{"resume", "-C", project, "--opencode", "/nowhere"}, Stdin: p.slave, Stdout: io.Discard, Stderr: p.slave,
			Environ: []string{"TERM=xterm", "HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"},
		})
	}()
	p.shows("Run this plan?")
	if _, err := p.master.WriteString("no\n"); err != nil {
		t.Fatal(err)
	}
	if code := <-done; code != exitError {
		t.Errorf("exit code %d:\n%s", code, p.text())
	}
	if d, err := db.Get(t.Context(), sampleID); err != nil || d.Boulder.Status != boulder.Cancelled {
		t.Errorf("%s, %v", d.Boulder.Status, err)
	}
}

// A proposed replan is shown likewise, and a no fails its sub-task.
func TestDeclineTheReplanOfAServer(t *testing.T) {
	t.Parallel()
	s, ref := newSample(t), boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	s.Plan()
	s.Start(ref)
	s.Apply(boulder.ReplanStarted{AttemptRef: ref, Number: 1, Reason: "it is stuck", Replaces: s.State.Remainder("theme")})
	s.Apply(boulder.ReplanProposed{AttemptRef: ref, Replacement: boulder.Replacement{
		SubTasks: []boulder.Spec{{ID: "half", Subject: "Create half a theme", Description: "Half of it."}},
	}})
	s.Apply(boulder.StatusChanged{Status: boulder.Paused})
	project := s.store()
	db, server := holdAs(t, project, processAt{PID: 42, Command: "manager serve", Serves: true})
	server.SetSteerer(onDisk{db})
	p := openPTY(t)
	done := make(chan int)
	go func() {
		done <- Main(Env{
			Args: []string{"resume", "-C", project, "--opencode", "/nowhere"}, Stdin: p.slave, Stdout: io.Discard, Stderr: p.slave,
			Environ: []string{"TERM=xterm", "HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"},
		})
	}()
	p.shows("Create half a theme")
	p.shows("Continue with this plan?")
	if _, err := p.master.WriteString("no\n"); err != nil {
		t.Fatal(err)
	}
	<-done // this server takes no boulders
	d, err := db.Get(t.Context(), sampleID)
	if err != nil || d.Boulder.Replan != nil || d.Asked() != "" || d.Boulder.Tally.Failed != 1 {
		t.Errorf("%+v, %v\n%s", d.Boulder.Replan, err, p.text())
	}
}
