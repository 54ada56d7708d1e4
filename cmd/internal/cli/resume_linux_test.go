package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
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
	expect(t, project, exitUsage, []string{"resume"}, "the plan of boulder "+shortID+" waits for approval: resume it on a terminal")

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

// On a terminal an edit of the plan file is shown, and asked about: "no" leaves all as it is, "keep" ignores the edit, "yes"
// takes it over.
func TestAskAboutAnEditedPlan(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer   string
		code     int
		revision int
	}{
		{"no", exitError, 1}, {"keep the plan", exitHeld, 1}, {"perhaps\nyes", exitHeld, 2}, // this server takes no boulders
	} {
		s := newSample(t)
		s.Plan()
		s.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "paused by the user"})
		project := s.store()
		expect(t, project, exitOK, []string{"plan", "--of", sampleID}, "then: manager resume "+shortID)
		path := filepath.Join(project, ".manager", "plan.yaml")
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, bytes.Replace(data, []byte("id: docs"), []byte("id: docs\n    empty_ok: true"), 1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
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
		p.shows("Take over this edit?")
		if text := p.text(); !strings.Contains(text, "(docs)") || strings.Contains(text, "(icons)") {
			t.Errorf("one sub-task was edited:\n%s", text)
		}
		if _, err := p.master.WriteString(test.answer + "\n"); err != nil {
			t.Fatal(err)
		}
		if code := <-done; code != test.code {
			t.Errorf("%q: exit code %d, want %d:\n%s", test.answer, code, test.code, p.text())
		}
		if d, err := db.Get(t.Context(), sampleID); err != nil || d.Boulder.Revision != test.revision {
			t.Errorf("%q: revision %d, want %d, %v\n%s", test.answer, d.Boulder.Revision, test.revision, err, p.text())
		}
	}
}
