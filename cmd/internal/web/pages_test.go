package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/projecttest"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

// says checks that a page contains each text, and none of the texts after "NOT ".
func says(t *testing.T, shown string, all ...string) {
	t.Helper()
	for _, want := range all {
		without, not := strings.CutPrefix(want, "NOT ")
		if strings.Contains(shown, without) == not {
			t.Errorf("want %q in:\n%.4000s", want, shown)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocked(t, dir)
	b := enter(t, site(t, dir, ""))
	says(t, b.get("/"), "1 hard blocker waits for an answer", "1 choice and 1 refused permission can still be changed", `action="/blockers/B1@`+sample.ID, `value="allow"`, "Chosen without you",
		"manager resume middle", "NOT Nothing waits for you",
		"Nothing is running", "Nothing has ended yet")
	says(t, b.get("/boulders"), "01k3middle", sample.ID, "NOT No boulder is like that")
	says(t, b.get("/boulders?q=nothing"), "No boulder is like that")
	says(t, b.get("/boulders?status=completed"), "NOT 01k3middle")
	says(t, b.get("/b/01k3middle"), `<svg xmlns="http://www.w3.org/2000/svg" class="graph"`, `<a href="/b/01k3middle/t/toggle">`, ">turn 2 · $0.080<",
		"<b>1 of 6</b>", "done, 1 in progress, 1 failed", "manager resume middle", "test/small cannot be used: ", "NOT value=\"pause\"") // no process runs it
	says(t, b.get("/b/01k3middle/time"), "gate failed with exit code 1: go test ./settings (2s)", `<rect class="wait"`, "attempt 2, failed", "Spending")
	says(t, b.get("/b/01k3middle/changes"), "1 file, ", "<b>a.go</b>", "The lines were not kept.")
	says(t, b.get("/b/01k3middle/log"), "1. Add the settings toggle", "gate failed with exit code 1", "connection refused")
	says(t, b.get("/b/01k3middle/log?task=icons&q=connection"), "3. Draw the icons", "connection refused", "NOT there are no icons", "NOT The boulder<")
	says(t, b.get("/b/01k3middle/log?task=toggle&decisions=1"), "continues with turn 2", "NOT the brief is sent")
	says(t, b.get("/b/01k3middle/log?q=nowhere"), "No event is like that")
	says(t, b.get("/b/01k3middle/t/toggle"), "Keep its state.", "It is restored", "failed with exit code 1", "--- FAIL: TestToggle", "the brief", "3 tool calls",
		"judged complete, and overruled", "NOT value=\"retry\"")
	says(t, b.get("/b/01k3middle/t/icons"), `value="retry"`, "NOT value=\"skip\"")
	says(t, b.get("/b/01k3middle/report"), "<h2>Not done, and why</h2>")
	for path, want := range map[string]int{
		"/b/nothing": http.StatusNotFound, "/b/01k3middle/t/nothing": http.StatusNotFound, "/nothing": http.StatusNotFound,
		"/b/01k3middle/order": http.StatusMethodNotAllowed,
	} {
		if w := b.do("GET", path, nil); w.Code != want {
			t.Errorf("GET %s: %d, want %d", path, w.Code, want)
		}
	}
	says(t, enter(t, site(t, t.TempDir(), "")).get("/"), "Nothing has been run here yet", "NOT Your own sessions")
	projecttest.Watched(t, dir, project.WatchEntry{SessionID: "ses_<b>", Decision: enforcer.Wait, Gate: enforcer.GateIdle},
		project.WatchEntry{SessionID: "ses_of_a_run", Decision: enforcer.Wait, Gate: enforcer.GateOwned})
	says(t, b.get("/"), "Your own sessions", "ses_&lt;b&gt; · ", "no watch now, was watching", "NOT ses_of_a_run")
}

// Answers and orders on a page do what the commands do. The page reports the outcome once.
func TestActs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocked(t, dir)
	b := enter(t, site(t, dir, ""))
	post := func(path string, form url.Values, want ...string) {
		t.Helper()
		w := b.do("POST", path, form)
		if w.Code != http.StatusSeeOther {
			t.Fatalf("POST %s: %d\n%s", path, w.Code, w.Body)
		}
		says(t, b.get(w.Header().Get("Location")), want...)
		says(t, b.get("/"), `NOT role="status">`)
	}
	order := "/b/" + sample.ID + "/order"
	post("/blockers/B1", url.Values{"do": {"answer"}}, "nothing was sent")
	post("/blockers/B1", url.Values{"do": {"allow"}}, "asks for no permission")
	post("/blockers/B3", url.Values{"do": {"answer"}, "answer": {"Yes."}}, "alone does not give the permission", `action="/blockers/B3@`)
	post("/blockers/B3", url.Values{"do": {"allow"}}, "Allowed B3.", `NOT action="/blockers/B3@`)
	post("/blockers/B2", url.Values{"do": {"answer"}, "option": {hostile}}, "Answered B2: ")
	post("/blockers/B1", url.Values{"do": {"answer"}, "answer": {"The release key"}}, "Answered B1.", "NOT hard blocker")
	post("/blockers/B1", url.Values{"do": {"skip"}}, "B1 is answered already")
	post("/blockers/B77", url.Values{"do": {"skip"}}, "no such blocker")
	post(order, url.Values{"do": {"note"}, "text": {"Use fixtures"}, "back": {"/b/" + sample.ID}}, "Noted for all sub-tasks", "Use fixtures")
	post(order, url.Values{"do": {"note"}}, "a note needs a text")
	post(order, url.Values{"do": {"skip"}, "task": {"lang"}, "back": {"/b/" + sample.ID + "/t/lang"}}, "Skipped &#34;lang&#34;")
	post(order, url.Values{"do": {"retry"}, "task": {"lang"}}, "NOT is retried")
	post(order, url.Values{"do": {"resume"}}, "manager resume "+boulder.ShortID(sample.ID))
	post(order, url.Values{"do": {"landed"}}, "there is no order")
	post(order, url.Values{"do": {"cancel"}}, "Cancelled boulder "+boulder.ShortID(sample.ID))
	post(order, url.Values{"do": {"archive"}}, "Archived")
	says(t, b.get("/boulders?archived=1"), sample.ID)
	says(t, b.get("/b/"+sample.ID), "Take back from the archive", "NOT value=\"cancel\"")
}

// The stream of a page has the parts that changed since the version that the browser has.
func TestStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := sample.New(t, sample.ID)
	at.Play()
	storeIn(t, dir, at)
	s := site(t, dir, "")
	root := serve(t, s)
	let, err := http.Get(s.Links()[0])
	if err != nil {
		t.Fatal(err)
	}
	let.Body.Close()
	stream := func(version string) (next func() string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, root+"/b/"+sample.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(let.Cookies()[0])
		r.Header.Set("Accept", "text/event-stream")
		if version != "" {
			r.Header.Set("Last-Event-ID", version)
		}
		return messages(t, r)
	}
	next := stream("")
	first := next()
	says(t, first, "id: "+seq(at.State), `\"feed\"`, `"order":["head","tabs","graph"`)
	at.Apply(boulder.Noted{Text: "written meanwhile"})
	storeIn(t, dir, at)
	second := next()
	says(t, second, "id: "+seq(at.State), "written meanwhile", `NOT "graph":`) // unchanged
	version, _, _ := strings.Cut(strings.TrimPrefix(second, "id: "), "\n")
	again := stream(version) // continues after the second message
	at.Apply(boulder.Noted{Text: "and this"})
	storeIn(t, dir, at)
	says(t, again(), "id: "+seq(at.State), "and this")
}

// The report file is complete, loads nothing and runs nothing.
func TestFrozen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocked(t, dir)
	b := enter(t, site(t, dir, ""))
	for _, id := range []string{"01k3middle", sample.ID} {
		w := b.do("GET", "/b/"+id+"/report.html", nil)
		file := w.Body.String()
		says(t, file, "<h1>Add dark mode with a toggle in the settings</h1>", `content="default-src 'none'; style-src 'unsafe-inline'"`, "<style>/* Sizes", `class="graph"`, `href="#t-theme"`, `id="t-theme"`,
			"Spending", "NOT <script", "NOT <form", "NOT <link", `NOT href="/`, "NOT url(h", "NOT @import")
		if got := w.Header().Get("Content-Disposition"); got != `attachment; filename="`+id+`.html"` {
			t.Error(got)
		}
	}
	says(t, b.get("/b/01k3middle/report.html"), "--- FAIL: TestToggle", "judged not complete", "not complete after 5 turns")
	says(t, b.get("/b/"+sample.ID+"/report.html"), "Which key signs the theme", "Waiting for an answer")
}

// TestQuestionsOfAPlan: what the planner asked is on the page of a boulder; what was answered by default can be answered there,
// and the page says what has to be done again.
func TestQuestionsOfAPlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, lang := sample.New(t, "01k3asked"), boulder.AttemptRef{SubTaskID: "lang", Attempt: 1}
	plan := sample.Plan()
	plan.Facts.Questions = []boulder.Question{
		{ID: "q1", Question: "Which language? " + hostile, Default: "German", Answer: "German", By: boulder.ByDefault},
		{ID: "q2", Question: "Who reads it?", Default: "all", Answer: "some", By: boulder.ByUser},
	}
	plan.SubTasks[5].Questions = []string{"q1"}
	rev := boulder.PlanRevision{Number: 1, Plan: plan, Hash: plan.Hash(), Origin: boulder.OriginModel, AdoptedAt: s.Now}
	s.Apply(boulder.Planned{Revision: 1, Plan: rev})
	s.Apply(boulder.Decomposed{Revision: 1, Plan: rev})
	s.Apply(boulder.BlockerRaised{Blocker: boulder.Blocker{
		ID: "B1", PlanQuestion: "q1", Category: boulder.BlockerQuestion, Question: plan.Facts.Questions[0].Question, ChosenOption: "German",
		Status: boulder.BlockerPending, CreatedAt: s.Now,
	}})
	s.Start(lang)
	s.End(lang, 1, nil, boulder.Verdict{Completed: true, Summary: "In German."})
	s.Apply(boulder.SubTaskDone{AttemptRef: lang, Completed: true, Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted})
	storeIn(t, dir, s)
	b := enter(t, site(t, dir, ""))
	says(t, b.get("/b/01k3asked"), "Asked before the split", "q2: Who reads it? some (your answer)", "German (the default: nobody was asked)",
		`action="/blockers/B1@01k3asked"`, "NOT <script>alert")
	w := b.do("POST", "/blockers/B1@01k3asked", url.Values{"do": {"answer"}, "answer": {"French"}})
	says(t, b.get(w.Header().Get("Location")), "do it again with: manager redo lang -b 01k3asked")
	says(t, b.get("/b/01k3asked"), "French (your answer)", `NOT action="/blockers/B1`)
}
