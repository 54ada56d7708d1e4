package cli

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// uiPage is a browser without scripts at `manager ui`, which runs while other commands work in the project.
type uiPage struct {
	t    *testing.T
	root string
	http.Client
}

// openUI logs a browser in. end ends the command, which must succeed.
func openUI(t *testing.T, dir string, env []string) (u *uiPage, end func()) {
	t.Helper()
	p := startManager(t, dir, env, "ui", "--json")
	link, _ := p.until("ui")["links"].([]any)[0].(string)
	root, _, _ := strings.Cut(link, "/link/")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u = &uiPage{t: t, root: root, Client: http.Client{Jar: jar}}
	u.read(u.Get(link))
	return u, func() {
		t.Helper()
		p.signal(syscall.SIGINT)
		p.wait(exitOK)
	}
}

func (u *uiPage) read(answer *http.Response, err error) string {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		u.t.Fatalf("%s: %s, %v\n%s", answer.Request.URL, answer.Status, err, content)
	}
	return string(content)
}

func (u *uiPage) page(path string) string {
	u.t.Helper()
	return u.read(u.Get(u.root + path))
}

// send posts a form and returns the page that it leads to.
func (u *uiPage) send(path string, form url.Values) string {
	u.t.Helper()
	return u.read(u.PostForm(u.root+path, form))
}

// mergeOnThePage lands results with the user's own file in their place, and takes that back.
func mergeOnThePage(t *testing.T, ui *uiPage, id, file string) {
	t.Helper()
	land := "/b/" + id + "/land"
	shows := func(shown string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(shown, want) {
				t.Errorf("no %q in:\n%s", want, shown)
			}
		}
	}
	if err := os.WriteFile(file, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shows(ui.page(land), "conflicts with your files: new.txt", "new.txt, line 1; changed by one:", "    mine\n", `value="merge"`)
	shows(ui.send(land, url.Values{"how": {"merge"}}), "Results: written into your files with 1 conflict, and not verified; conflict markers in new.txt.")
	marked, err := os.ReadFile(file)
	shows(string(marked), "<<<<<<< your files\nmine\n=======\nnew\n>>>>>>> one\n")
	shows(ui.page("/b/"+id), "Take the results back")
	shows(ui.page(land), "write <code>new.txt</code>", `value="undo"`)
	shows(ui.send(land, url.Values{"how": {"undo"}}), "Results: taken out of your files again.")
	back, readErr := os.ReadFile(file)
	if string(back) != "mine\n" {
		t.Errorf("new.txt has %q after the undo", back)
	}
	if err := errors.Join(err, readErr, os.Remove(file)); err != nil {
		t.Fatal(err)
	}
}

// The page lands the results of an isolated run. It first shows what would be written, and writes nothing.
func TestLandOnThePage(t *testing.T) {
	t.Parallel()
	write := scriptmodel.ToolCall{Name: "bash", Args: map[string]any{"command": "echo new > new.txt", "description": "Write it"}}
	w := directWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case req.Kind() == scriptmodel.KindStructured:
			return acceptAll
		case req.AssistantTurns() == 0:
			return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{write}}
		}
		return scriptmodel.Reply{Text: "The file is written, and there is nothing else to do."}
	}, map[string]string{
		"plan.yaml": "task: Write it\nmodel: scripted/agent\nsub_tasks: [{id: one, description: Write new.txt, gates: [test -s new.txt]}]\n",
	})
	p := startManager(t, w.dir, w.env, "run", "plan.yaml", "--isolate", "--json", w.attached())
	id, _ := p.until("task-complete")["boulder_id"].(string)
	p.wait(exitOK)
	file := filepath.Join(w.dir, "new.txt")
	ui, endUI := openUI(t, w.dir, w.env)
	if shown := ui.page("/b/" + id); !strings.Contains(shown, "Land the results") {
		t.Errorf("the boulder's page does not lead to its landing:\n%s", shown)
	}
	if shown := ui.page("/b/" + id + "/land"); !strings.Contains(shown, "write <code>new.txt</code>") || exists(file) {
		t.Errorf("new.txt is there: %v; before the landing the page shows:\n%s", exists(file), shown)
	}
	mergeOnThePage(t, ui, id, file)
	if shown := ui.send("/b/"+id+"/land", url.Values{"how": {"files"}}); !strings.Contains(shown, "Results: landed in your files") {
		t.Errorf("the page does not land:\n%s", shown)
	}
	if got, err := os.ReadFile(file); string(got) != "new\n" || err != nil {
		t.Errorf("new.txt has %q, %v", got, err)
	}
	if shown := ui.page("/b/" + id); strings.Contains(shown, "Land the results") {
		t.Error("what has landed can be landed again")
	}
	if shown := ui.page("/b/" + id + "/changes"); !strings.Contains(shown, "1 file, ") || !strings.Contains(shown, "<td>new</td>") {
		t.Errorf("the page lacks what changed:\n%s", shown)
	}
	said := ui.page("/b/" + id + "/t/one")
	for _, want := range []string{"<code>test -s new.txt</code> passed", `<tr class="add"><td class="n"></td><td class="n">1</td><td>new</td>`, "$ echo new &gt; new.txt", "<dt>Tokens</dt>"} { // gates, changes, transcript, cost
		if !strings.Contains(said, want) {
			t.Errorf("the sub-task's page lacks %q:\n%s", want, said)
		}
	}
	endUI()
}

// plans is a model that splits the task, rejects the sub-task "hard" as a wrong plan, and replans it as "easy".
func plans(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	said := req.FirstUser()
	switch {
	case req.Kind() != scriptmodel.KindStructured:
		return scriptmodel.Reply{Text: "All of it is done now."}
	case strings.Contains(said, "# Sub-task: hard"):
		return scriptmodel.Reply{JSON: map[string]any{
			"criteria":  []any{map[string]any{"id": "C1", "evidence": "nothing", "met": false}},
			"completed": false, "summary": "It cannot be done.", "need_replan": true, "replan_reason": "there is no such file",
		}}
	case strings.Contains(said, "# Sub-task: "):
		return acceptAll
	}
	return scriptmodel.Reply{JSON: map[string]any{"sub_tasks": []any{
		map[string]any{"id": "easy", "subject": "Do the easy part", "description": "Do the easy part.", "gates": []any{"touch model-gate"}},
		map[string]any{"id": "rest", "subject": "Do the rest", "description": "Do the rest.", "depends_on": []any{"easy"}},
	}}}
}

var hashIn = regexp.MustCompile(`name="hash" value="([^"]+)"`)

// decide gives the order of the form on the first page that waits for the user's approval.
func (u *uiPage) decide(do string, more url.Values) string {
	u.t.Helper()
	shown := u.page("/")
	hash, id := hashIn.FindStringSubmatch(shown), regexp.MustCompile(`action="/b/([^/]+)/order"`).FindStringSubmatch(shown)
	if hash == nil || id == nil {
		u.t.Fatalf("nothing waits for an answer:\n%s", shown)
	}
	form := url.Values{"do": {do}, "hash": {hash[1]}, "back": {"/b/" + id[1]}}
	path := "/b/" + id[1] + "/order"
	if more != nil {
		maps.Copy(form, more)
		path = "/b/" + id[1] + "/plan"
	}
	return u.send(path, form)
}

// A plan that a terminal asks about is approved on the page: the user's edits run in the process of that terminal, with
// their gates. A plan that no process asks about any more is approved there and then resumed.
func TestApproveOnThePage(t *testing.T) {
	t.Parallel()
	w := directWorld(t, plans, map[string]string{"README.md": "x\n"})
	ui, endUI := openUI(t, w.dir, w.env)
	ask := func() (*pty, *exec.Cmd) {
		p := openPTY(t)
		cmd := manager(t, w.dir, w.env, "run", "--plan", "--in-place", w.attached(), "Do it")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = p.slave, p.slave, p.slave
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p.shows("Run this plan? [yes / details / edit / revise / no]")
		return p, cmd
	}
	p, cmd := ask()
	if shown := ui.page("/"); !strings.Contains(shown, "Do the easy part") || !strings.Contains(shown, "$ touch model-gate") {
		t.Errorf("the page does not show the plan:\n%s", shown)
	}
	const mine = "task: Do it\nmodel: scripted/agent\nsub_tasks: [{id: mine, description: Do it my way, gates: [touch my-gate]}]\n"
	if shown := ui.decide("approve", url.Values{"plan": {mine}}); !strings.Contains(shown, "Approved.") {
		t.Errorf("%s", shown)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, p.text())
	}
	if !exists(filepath.Join(w.dir, "my-gate")) || exists(filepath.Join(w.dir, "model-gate")) {
		t.Errorf("not the user's plan ran:\n%s", p.text())
	}

	p, cmd = ask()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // interrupted
	if shown := ui.decide("approve", nil); !strings.Contains(shown, "Approved. No process runs the boulder; continue with: manager resume") {
		t.Errorf("%s\n%s", shown, p.text())
	}
	if exists(filepath.Join(w.dir, "model-gate")) {
		t.Error("the page runs something")
	}
	w.run(exitOK, "resume", w.attached())
	if !exists(filepath.Join(w.dir, "model-gate")) {
		t.Error("the gate that the user agreed to did not run")
	}
	endUI()
}

// A replan that needs approval ends a run without a terminal and is kept. After the approval on the page the server
// continues without asking the Task Ledger again. There a completed sub-task is redone with a note.
func TestApproveReplanOnThePage(t *testing.T) {
	t.Parallel()
	w := directWorld(t, plans, map[string]string{
		"plan.yaml": "task: Do it\nmodel: scripted/agent\nsub_tasks: [{id: hard, description: Do the hard part}]\n",
	})
	run := startManager(t, w.dir, w.env, "run", "plan.yaml", "--in-place", "--approve-replans", "--json", w.attached())
	id, _ := run.until("decomposed")["boulder_id"].(string)
	run.wait(exitWaiting)
	ui, endUI := openUI(t, w.dir, w.env)
	for _, path := range []string{"/", "/b/" + id} {
		if shown := ui.page(path); !strings.Contains(shown, "there is no such file") || !strings.Contains(shown, "Do the easy part") {
			t.Errorf("%s does not show the replan:\n%s", path, shown)
		}
	}
	server := startManager(t, w.dir, w.env, "serve", "--json", w.attached())
	await(t, func() bool { return exists(filepath.Join(w.dir, ".manager", "manager.sock")) })
	shown, want := ui.decide("approve", nil), "continues boulder "+boulder.ShortID(id)
	if !strings.Contains(shown, "Approved. Process ") || !strings.Contains(shown, want) {
		t.Errorf("%s", shown)
	}
	w.run(exitOK, "wait", id)
	if !exists(filepath.Join(w.dir, "model-gate")) {
		t.Error("the gate of the new plan did not run")
	}
	asked := 0
	for _, r := range w.model.Requests() {
		if r.Kind() == scriptmodel.KindStructured && !strings.Contains(r.FirstUser(), "# Sub-task: ") {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("a new plan was asked for %d times", asked)
	}
	if shown := ui.page("/b/" + id + "/redo?task=easy"); !strings.Contains(shown, "you asked for it") {
		t.Errorf("the page does not say what a redo comes to:\n%s", shown)
	}
	ui.send("/b/"+id+"/redo", url.Values{"task": {"easy"}, "text": {"Do it with care"}})
	w.run(exitOK, "wait", id)
	if shown := ui.page("/b/" + id + "/t/easy"); !strings.Contains(shown, "Attempt 2") || !strings.Contains(shown, "Do it with care") {
		t.Errorf("it was not redone:\n%s", shown)
	}
	endUI()
	server.signal(syscall.SIGINT)
	_ = server.cmd.Wait()
}
