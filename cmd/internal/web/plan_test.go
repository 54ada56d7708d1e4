package web_test

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

// hashOf returns the plan hash in the form of a boulder's page.
func hashOf(t *testing.T, shown, id string) string {
	t.Helper()
	_, form, _ := strings.Cut(shown, `action="/b/`+id)
	found := regexp.MustCompile(`name="hash" value="([^"]*)"`).FindStringSubmatch(form)
	if found == nil {
		t.Fatalf("there is no form for %s in:\n%.4000s", id, shown)
	}
	return found[1]
}

// What should be different in a plan or a replan is stored, and it waits no more; nothing said is asked for again.
func TestReviseOnAPage(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{"01k3plan": "one: smaller", "01k3replan": "smaller: less"} {
		dir := t.TempDir()
		asking(t, dir)
		b := enter(t, site(t, dir, ""))
		sub, _, _ := strings.Cut(want, ":")
		shown := b.get("/b/" + id)
		says(t, shown, "What should be different?", `<option value="`+sub+`">`)
		form := url.Values{"do": {"revise"}, "hash": {hashOf(t, shown, id)}, "task": {sub}, "back": {"/b/" + id}}
		b.do("POST", "/b/"+id+"/order", form)
		says(t, b.get("/b/"+id), "say what should be different", `value="approve"`)
		form.Set("text", "less of it")
		b.do("POST", "/b/"+id+"/order", form)
		says(t, b.get("/b/"+id), "The plan is revised, and then waits for you again.", "NOT value=\"approve\"")
	}
}

// A plan or replan that waits for approval is on the first page. The answer is stored even if no process runs.
func TestApprove(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		id, do string
		want   []string
	}{
		"a plan":           {"01k3plan", "approve", []string{"Approved. No process runs the boulder; continue with: manager resume k3plan", "<b>0 of 2</b>", "interrupted"}},
		"no plan":          {"01k3plan", "cancel", []string{"Cancelled boulder k3plan"}},
		"a replan":         {"01k3replan", "approve", []string{"Approved.", "/b/01k3replan/t/smaller"}},
		"no replan":        {"01k3replan", "decline", []string{"Declined. Blocked, because of that:", "the new plan was declined"}},
		"a plan, declined": {"01k3plan", "decline", []string{"a plan is declined by cancelling its boulder"}},
	} {
		dir := t.TempDir()
		asking(t, dir)
		b := enter(t, site(t, dir, ""))
		shown := b.get("/")
		says(t, shown, "Run this plan?", "Continue with this plan?", "Do two", "Create half a theme", "$ go test ./half",
			"warning:</span> sub_tasks[1].gates[0]: the gate `npm test || true` cannot be red", "the gate `go test ./half | tail` cannot be red", "NOT Nothing waits for you",
			"NOT manager resume 01k3", html.EscapeString(hostile))
		says(t, b.get("/b/"+test.id), "if you agree, they run on this machine", `value="approve"`, "NOT value=\"resume\"")
		form := url.Values{"do": {test.do}, "hash": {hashOf(t, shown, test.id)}, "back": {"/b/" + test.id}}
		stale := url.Values{"do": {test.do}, "hash": {"abcdef"}}
		if test.do != "cancel" {
			b.do("POST", "/b/"+test.id+"/order", stale)
			says(t, b.get("/"), "is not what you were shown", `action="/b/`+test.id)
		}
		w := b.do("POST", "/b/"+test.id+"/order", form)
		if w.Code != http.StatusSeeOther {
			t.Fatalf("%s: %d", name, w.Code)
		}
		after := b.get(w.Header().Get("Location"))
		says(t, after, test.want...)
		if test.id == "01k3plan" && test.do == "decline" {
			continue
		}
		says(t, b.get("/"), `NOT name="hash" value="`+form.Get("hash"))
		b.do("POST", "/b/"+test.id+"/order", url.Values{"do": {"approve"}, "hash": form["hash"]}) // from a stale page
		says(t, b.get("/"), "NOT Approved.")
	}
}

// An edited plan is checked like the plan file: every mistake is shown with its line, and the text is kept. Approval
// adopts the text as written, with its gates.
func TestEditPlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asking(t, dir)
	b := enter(t, site(t, dir, ""))
	const path = "/b/01k3plan/plan"
	shown := b.get(path)
	says(t, shown, "id: two", `value="approve"`, "&lt;script&gt;")
	hash := hashOf(t, shown, "01k3plan")
	post := func(do, plan string, code int, want ...string) {
		t.Helper()
		w := b.do("POST", path, url.Values{"do": {do}, "hash": {hash}, "plan": {strings.ReplaceAll(plan, "\n", "\r\n")}})
		if w.Code != code {
			t.Fatalf("%s: %d\n%s", do, w.Code, w.Body)
		}
		says(t, w.Body.String(), want...)
	}
	bad := "task: X\nsub_tasks:\n  - id: one\n    subjekt: Do it\n    depends_on: [gone]\n" + hostile + ": 1\n"
	for _, do := range []string{"check", "approve"} {
		post(do, bad, http.StatusOK, "<b>Line 4:</b>", "subjekt", "<b>Line 6:</b>", html.EscapeString(bad), `role="alert"`, "NOT "+hostile)
	}
	good := "task: X\nsub_tasks:\n  - {id: mine, description: Do it, gates: [\"true\", npx vitest]} # my own\n"
	post("check", good, http.StatusOK, "# my own", "What it comes to", "Do it", "the plan:3:52: `npx vitest` may watch files", "NOT role=\"alert\"")
	says(t, b.get("/"), "Run this plan?") // nothing has happened yet
	kept := hash
	hash = "abcdef"
	post("approve", good, http.StatusOK, "it was changed since you opened it", "# my own")
	hash = kept
	post("approve", good, http.StatusSeeOther)
	says(t, b.get("/b/01k3plan"), "Approved.", "/b/01k3plan/t/mine", "NOT /b/01k3plan/t/one")
	db, err := store.Open(filepath.Join(dir, store.DirName, store.FileName), store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Get(t.Context(), "01k3plan")
	db.Close()
	if err != nil || len(d.SubTasks) != 1 || !slices.Equal(d.SubTasks[0].Gates, []string{"true", "npx vitest"}) || !d.Revision.Edited {
		t.Errorf("%v, %+v", err, d)
	}
	post("approve", good, http.StatusOK, "waits for your approval", "# my own")
	if w := b.do("GET", "/b/01k3replan/plan", nil); w.Code != http.StatusConflict {
		t.Errorf("a replan can be edited: %d", w.Code)
	}
}

// The project's plan file is saved as written, if it is a plan that has not changed on disk since the page was opened.
func TestEditPlanFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := enter(t, site(t, dir, ""))
	file := filepath.Join(dir, ".manager", "plan.yaml")
	open := func() string {
		found := regexp.MustCompile(`name="hash" value="([^"]*)"`).FindStringSubmatch(b.get("/plan"))
		return found[1]
	}
	save := func(hash, plan string, code int) {
		t.Helper()
		w := b.do("POST", "/plan", url.Values{"do": {"save"}, "hash": {hash}, "plan": {plan}})
		if w.Code != code || code != http.StatusSeeOther && !strings.Contains(w.Body.String(), html.EscapeString(plan)) {
			t.Errorf("%d\n%s", w.Code, w.Body)
		}
	}
	first, second := "# mine\ntask: X\nsub_tasks: [{id: a, description: A}]\n", "task: Y\nsub_tasks: [{id: b, description: B}]\n"
	began := open()
	save(began, "task: [", http.StatusOK)
	if _, err := os.Stat(file); err == nil {
		t.Error("what is no plan was saved")
	}
	save(began, first, http.StatusSeeOther)
	save(began, second, http.StatusOK) // was opened before that
	if got, err := os.ReadFile(file); string(got) != first || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	save(open(), second, http.StatusSeeOther)
	says(t, b.get("/plan"), "Saved ", "task: Y")
}

// Where no process is, a boulder continues and the plan file runs in a server that is started for it; if that fails, the page
// says why, and the text is saved.
func TestStartsAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocked(t, dir)
	s := site(t, dir, "")
	started := 0
	s.Start = func(context.Context) (*project.Access, error) {
		started++
		return nil, errors.New("no server in this test")
	}
	b := enter(t, s)
	says(t, b.get("/b/"+sample.ID), `value="resume"`, "NOT No process runs it")
	w := b.do("POST", "/b/"+sample.ID+"/order", url.Values{"do": {"resume"}})
	says(t, b.get(w.Header().Get("Location")), "start a server: no server in this test")
	plan := "task: X\nsub_tasks: [{id: a, description: A}]\n"
	page := b.get("/plan")
	says(t, page, "Save and run")
	begun := func(page string) string {
		return regexp.MustCompile(`name="hash" value="([^"]*)"`).FindStringSubmatch(page)[1]
	}
	hash := begun(page)
	w = b.do("POST", "/plan", url.Values{"do": {"run"}, "hash": {hash}, "plan": {plan}})
	says(t, w.Body.String(), "it is saved, and does not run: start a server: no server in this test")
	if got, err := os.ReadFile(filepath.Join(dir, ".manager", "plan.yaml")); string(got) != plan || err != nil || started != 2 {
		t.Errorf("%q, %v; started %d times", got, err, started)
	}

	// A plan that was completed runs again after the user has said so, also with what was written meanwhile.
	storeIn(t, dir, sample.Ran(t, "01k4ran", dir, filepath.Join(dir, ".manager", "plan.yaml"), "Y"))
	plan, hash = "task: Y\nsub_tasks: [{id: one, description: Do it.}]\n", begun(b.get("/plan"))
	w = b.do("POST", "/plan", url.Values{"do": {"run"}, "hash": {hash}, "plan": {plan}})
	says(t, w.Body.String(), "This plan was completed on ", "as boulder 1k4ran. It is saved; does it run again?", `value="again"`, "NOT Save and run")
	hash = begun(w.Body.String())
	w = b.do("POST", "/plan", url.Values{"do": {"again"}, "hash": {hash}, "plan": {plan}})
	says(t, w.Body.String(), "it is saved, and does not run: start a server: no server in this test")
	if started != 3 {
		t.Errorf("started %d times", started)
	}
}

// Redo and keep do, and refuse, the same as the commands.
func TestRedo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocked(t, dir)
	s := site(t, dir, "")
	b := enter(t, s)
	says(t, b.get("/b/01k3middle/t/toggle"), "Redo it…", `value="keep"`)
	says(t, b.get("/b/01k3middle"), "/b/01k3middle/redo")
	says(t, b.get("/b/01k3middle/redo"), "out of date")
	says(t, b.get("/b/01k3middle/redo?task=toggle"), "you asked for it", "Redo this")
	says(t, b.get("/b/01k3middle/redo?task=icons"), "only what is completed can be redone", "disabled")
	post := func(path string, form url.Values, want ...string) {
		t.Helper()
		w := b.do("POST", path, form)
		says(t, b.get(w.Header().Get("Location")), want...)
	}
	post("/b/01k3middle/redo", url.Values{"task": {"icons"}}, "only what is completed can be redone")
	post("/b/01k3middle/order", url.Values{"do": {"keep"}, "task": {"toggle"}}, "is taken as up to date")
	post("/b/01k3middle/order", url.Values{"do": {"keep"}, "task": {"icons"}}, "NOT is taken as up to date")
	post("/b/01k3middle/redo", url.Values{"task": {"toggle"}, "files": {"keep"}, "text": {"Use " + hostile}}, "It is redone when the boulder continues",
		"manager resume middle", html.EscapeString(hostile))
	if strings.Contains(b.get("/b/"+sample.ID), "Redo what is out of date") {
		t.Error("a boulder without results offers to redo them")
	}
	late := sample.New(t, "01k3late")
	late.Play()
	late.Finish()
	storeIn(t, dir, late)
	says(t, b.get("/b/01k3late/t/icons"), "Redo it…")
	says(t, b.get("/b/01k3late/redo?task=icons"), "a new boulder has to redo it, with your files as they are", "Redo this")
	post("/b/01k3late/redo", url.Values{"task": {"icons"}}, "no process is there that could run it: type `manager redo icons -b k3late`")
	over := sample.New(t, "01k3over")
	over.State.Boulder.Engine = "temporal" // whose runs cannot be redone
	over.Play()
	over.Finish()
	storeIn(t, dir, over)
	if all := b.get("/b/01k3over") + b.get("/b/01k3over/t/toggle"); !strings.Contains(all, `value="keep"`) || strings.Contains(all, "/redo") {
		t.Error("a boulder that cannot be begun again offers to redo it")
	}
}
