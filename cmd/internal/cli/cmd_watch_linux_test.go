package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/projecttest"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
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
      - text: I wrote c, and there is nothing left to do.
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

// watching is a running `manager watch --json` and a session with a prompt of the user's.
type watching struct {
	*process
	session string
}

func watches(t *testing.T, client *opencode.Client, project string, env []string, prompt string, args ...string) *watching {
	t.Helper()
	w := &watching{process: startManager(t, project, env, append([]string{"watch", "--json"}, args...)...)}
	dir := client.In(project)
	session, err := dir.CreateSession(t.Context(), opencode.NewSession{Title: "files"})
	if err != nil {
		t.Fatal(err)
	}
	w.session = session.ID
	err = dir.Prompt(t.Context(), session.ID, opencode.Prompt{
		Agent: "build", Model: opencode.ModelRef{ProviderID: "scripted", ModelID: "agent"},
		Text: prompt,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// untilComplete returns the session's decisions up to its completion. Of other sessions only the owner may be said.
func (w *watching) untilComplete() (all []project.WatchEntry) {
	w.t.Helper()
	for w.events.Scan() {
		var e project.WatchEntry
		if err := json.Unmarshal(w.events.Bytes(), &e); err != nil || e.Type != "decision" {
			w.t.Fatalf("%s: %v", w.events.Text(), err)
		}
		if e.SessionID == w.session {
			all = append(all, e)
		} else if e.Gate != enforcer.GateOwned {
			w.t.Errorf("about another session: %s", w.events.Text())
		}
		if e.Decision == enforcer.Finish {
			return all
		}
	}
	w.t.Fatalf("it was not complete: %s", w.stderr.String())
	return nil
}

func (w *watching) interrupt() {
	w.t.Helper()
	w.signal(syscall.SIGINT)
	w.process.wait(exitInterrupted)
}

// TestWatchCommand: a second watch is told who watches, orders and views work during and after a watch, Ctrl-C ends it.
func TestWatchCommand(t *testing.T) {
	t.Parallel()
	model := octest.Script(t, watchScript)
	project := octest.Repo(t, nil)
	env, attach := attached(t, project, testEnv(t, model.URL()), model)
	_, address, _ := strings.Cut(attach, "=")
	client, err := opencode.Attach(t.Context(), address, opencode.AttachConfig{Password: sharedPassword})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	writeFile(t, filepath.Join(project, store.DirName, "config.yaml"),
		"watch: {idle: 200ms, countdown: 50ms, cooldown: 50ms, attach: \""+address+"\"}\n")
	w := watches(t, client, project, env, "Write a and b")
	sent := 0
	for _, e := range w.untilComplete() {
		if e.Decision == enforcer.Send {
			sent++
		}
	}
	if sent != 1 {
		t.Fatalf("%d continuations", sent)
	}
	says := func(want int, part string, args ...string) {
		t.Helper()
		if code, stdout, stderr := run(t, project, env, args...); code != want || !strings.Contains(stdout+stderr, part) {
			t.Errorf("manager %q: exit code %d, want %d, and %q in: %s%s", args, code, want, part, stdout, stderr)
		}
	}
	says(5, "watched already: process", "watch")
	says(0, "complete", "watch", "--status")
	ui, endUI := openUI(t, project, env)
	if shown := ui.page("/"); !strings.Contains(shown, "Your own sessions") || !strings.Contains(shown, "<b>complete</b>") {
		t.Errorf("the watched session is not on the page:\n%s", shown)
	}
	endUI()
	says(0, "is stopped", "watch", "stop", w.session[len(w.session)-6:])
	says(0, "continues (1)", "show", "--why", w.session)
	says(0, "waits (stopped)", "watch", "--dry-run", "--once")
	w.interrupt()
	says(0, `"status":"stopped"`, "watch", "--status", "--json")
	says(0, "is watched", "watch", "start")
	says(0, "complete: everything", "watch", "--once")
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
	checkTexts(t, "the evidence", []string{"touch c.txt", "passed: test -f c.txt", "Now c is written.", "c.txt (+0 -0)"}, nil, shown)
}

// A session that is not the user's is not shown as watched when no watch runs, either.
func TestWatchStatusOfRuns(t *testing.T) {
	t.Parallel()
	dir, decisions := t.TempDir(), []project.WatchEntry{}
	for _, gate := range []enforcer.Gate{enforcer.GateOwned, enforcer.GateIdle} {
		decisions = append(decisions, project.WatchEntry{SessionID: "ses_" + string(gate), Decision: enforcer.Wait, Gate: gate})
	}
	projecttest.Watched(t, dir, decisions...)
	expect(t, dir, exitOK, []string{"watch", "--status"}, "ses_idle", "!ses_owned")
	expect(t, dir, exitOK, []string{"watch", "--status", "--verbose"}, "ses_idle", "ses_owned")
}

// watchWithCriteria has a session continue until the command that stands in for a language server passes and the judge
// agrees. The judge is asked through the watched server; its own sessions are not watched.
func watchWithCriteria(t *testing.T, env []string, client *opencode.Client, model *scriptmodel.Server) {
	t.Helper()
	project := octest.Repo(t, map[string]string{
		"manager.yaml": "lint: test -f c.txt\nwatch: {idle: 200ms, countdown: 50ms, cooldown: 50ms}\n",
	})
	env, attach := attached(t, project, env, model)
	w := watches(t, client, project, env, "Write c", attach, "--config", "manager.yaml",
		"--done-when", "diagnostics,judge", "--ledger-model", "scripted/ledger")
	var said []string
	for _, e := range w.untilComplete() {
		if e.Decision == enforcer.Send || e.Decision == enforcer.Check {
			said = append(said, string(e.Decision)+" "+e.Reason)
		}
	}
	for i, part := range []string{"check", "test -f c.txt", "check", "Fill c", "check"} {
		if i >= len(said) || !strings.Contains(said[i], part) {
			t.Errorf("%q, want %q in them: %s", said, part, w.stderr.String())
		}
	}
	w.interrupt()
}
