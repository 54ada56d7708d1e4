package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/store"
)

const watchScript = `
rules:
  - when: {first_user: "Write a and b"}
    replies:
      - tool_calls: [{name: todowrite, args: {todos: [{content: Write b, status: pending, priority: high}]}}]
      - text: I look at b next.
      - tool_calls: [{name: todowrite, args: {todos: [{content: Write b, status: completed, priority: high}]}}]
      - text: b is there.
  - when: {kind: agent, first_user: "Write c"}
    replies:
      - text: I wrote c.
      - tool_calls: [{name: bash, args: {command: touch c.txt, description: Write c}}]
      - text: Now c is written.
      - tool_calls: [{name: bash, args: {command: echo c > c.txt, description: Fill c}}]
      - text: It has a line now.
  - when: {kind: structured}
    replies:
      - json:
          {criteria: [{id: C1, evidence: c is empty, met: false}], completed: false, remaining: [Fill c], summary: It is empty}
      - json: {criteria: [{id: C1, evidence: the final message, met: true}], completed: true, summary: c is there}
`

// TestWatchCommand drives the command as people do: it watches, a second one is told who does, orders and views work
// beside it and after it, and Ctrl-C ends it.
func TestWatchCommand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	model := octest.Script(t, watchScript)
	project := octest.Repo(t, nil)
	env, attach := attached(t, project, testEnv(t, model.URL()), model)
	_, address, _ := strings.Cut(attach, "=")
	client, err := opencode.Attach(ctx, address, opencode.AttachConfig{Password: sharedPassword})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := os.MkdirAll(filepath.Join(project, store.DirName), 0o700); err != nil {
		t.Fatal(err)
	}
	config := "watch: {idle: 200ms, countdown: 50ms, cooldown: 50ms, attach: \"" + address + "\"}\n"
	if err := os.WriteFile(filepath.Join(project, store.DirName, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	watching := manager(t, project, env, "watch", "--json")
	out, err := watching.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var diagnostics strings.Builder
	watching.Stderr = &diagnostics
	if err := watching.Start(); err != nil {
		t.Fatal(err)
	}
	dir := client.In(project)
	session, err := dir.CreateSession(ctx, opencode.NewSession{Title: "two files"})
	if err != nil {
		t.Fatal(err)
	}
	err = dir.Prompt(ctx, session.ID, opencode.Prompt{
		Agent: "build", Model: opencode.ModelRef{ProviderID: "scripted", ModelID: "agent"},
		Parts: []opencode.TextPart{{Text: "Write a and b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	sent, complete := 0, false
	lines := bufio.NewScanner(out)
	for !complete && lines.Scan() {
		var e watch.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Type != "decision" || e.SessionID != session.ID {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if e.Decision == "send" {
			sent++
		}
		complete = e.Decision == "finish"
	}
	if sent != 1 || !complete {
		t.Fatalf("%d continuations, complete: %v; %s", sent, complete, diagnostics.String())
	}
	run := func(want int, args ...string) string {
		t.Helper()
		cmd := manager(t, project, env, args...)
		text, err := cmd.CombinedOutput()
		code := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != want {
			t.Errorf("manager %s: exit code %d, want %d: %s", strings.Join(args, " "), code, want, text)
		}
		return string(text)
	}
	contains := func(text, part string) {
		t.Helper()
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in: %s", part, text)
		}
	}
	contains(run(5, "watch"), "watched already: process")
	contains(run(0, "watch", "--status"), "complete")
	contains(run(0, "watch", "stop", session.ID[len(session.ID)-6:]), "is stopped")
	contains(run(0, "show", "--why", session.ID), "continues (1)")
	contains(run(0, "watch", "--dry-run", "--once"), "waits (stopped)")
	if err := watching.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // Wait must not close it before everything is read
	}
	if err := watching.Wait(); watching.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("after Ctrl-C: %v: %s", err, diagnostics.String())
	}
	contains(run(0, "watch", "--status", "--json"), `"status":"stopped"`)
	contains(run(0, "watch", "start"), "is watched")
	contains(run(0, "watch", "--once"), "complete: everything")
	watchWithCriteria(t, env, client, model)
	var evidence []string
	for _, r := range model.Requests() {
		if r.Kind() == scriptmodel.KindStructured {
			evidence = append(evidence, r.Text())
		}
	}
	if len(evidence) != 2 {
		t.Fatalf("the judge was asked %d times", len(evidence))
	}
	_, shown, _ := strings.Cut(evidence[0], "<<<EVIDENCE")
	for _, part := range []string{"touch c.txt", "passed: test -f c.txt", "Now c is written.", "c.txt (+0 -0)"} {
		contains(shown, part)
	}
}

// watchWithCriteria has a session go on until the command that stands in for a language server passes and the judge,
// who is asked through the watched server, agrees. The judge's own sessions are nobody's work.
func watchWithCriteria(t *testing.T, env []string, client *opencode.Client, model *scriptmodel.Server) {
	project := octest.Repo(t, map[string]string{
		"manager.yaml": "lint: test -f c.txt\nwatch: {idle: 200ms, countdown: 50ms, cooldown: 50ms}\n",
	})
	env, attach := attached(t, project, env, model)
	watching := manager(t, project, env, "watch", "--json", attach, "--config", "manager.yaml",
		"--done-when", "diagnostics,judge", "--ledger-model", "scripted/ledger")
	out, err := watching.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var diagnostics strings.Builder
	watching.Stderr = &diagnostics
	if err := watching.Start(); err != nil {
		t.Fatal(err)
	}
	dir := client.In(project)
	session, err := dir.CreateSession(t.Context(), opencode.NewSession{Title: "one file"})
	if err != nil {
		t.Fatal(err)
	}
	err = dir.Prompt(t.Context(), session.ID, opencode.Prompt{
		Agent: "build", Model: opencode.ModelRef{ProviderID: "scripted", ModelID: "agent"},
		Parts: []opencode.TextPart{{Text: "Write c"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	complete := false
	for lines := bufio.NewScanner(out); !complete && lines.Scan(); {
		var e watch.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if e.SessionID != session.ID && e.Gate != enforcer.GateOwned {
			t.Errorf("about another session: %s", lines.Text())
		}
		if e.SessionID == session.ID && (e.Decision == enforcer.Send || e.Decision == enforcer.Check) {
			said = append(said, string(e.Decision)+" "+e.Reason)
		}
		complete = e.Decision == enforcer.Finish
	}
	want := []string{"check", "test -f c.txt", "check", "Fill c", "check"}
	for i, part := range want {
		if i >= len(said) || !strings.Contains(said[i], part) {
			t.Errorf("%q, want %q in them: %s", said, want, diagnostics.String())
		}
	}
	if !complete {
		t.Errorf("it was not complete: %s", diagnostics.String())
	}
	if err := watching.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out) // Wait must not close it before everything is read
	_ = watching.Wait()             // its exit code is looked at above
}
