package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/mcp"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/projecttest"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/fakeopencode"
	"github.com/bouldermgr/manager/testkit/golden/sample"
	"github.com/bouldermgr/manager/testkit/octest"
)

// world is a project and an agent with manager's tools.
type world struct {
	t     *testing.T
	dir   string
	agent *sdk.ClientSession

	attach string // to an OpenCode; there is none otherwise
}

func newWorld(t *testing.T, config string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	if config != "" {
		w.write("config.yaml", config)
	}
	p := w.open()
	server := mcp.New(p, w.serve, "test")
	toServer, toClient := sdk.NewInMemoryTransports()
	session, err := server.Connect(t.Context(), toServer, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.agent, err = sdk.NewClient(&sdk.Implementation{Name: "an agent", Version: "1"}, nil).Connect(t.Context(), toClient, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.agent.Close()
		_ = session.Wait()
	})
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	dir, err := store.EnsureDir(w.dir)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// open opens the project as another process would, without an OpenCode.
func (w *world) open() *project.Project {
	w.t.Helper()
	p, err := project.Open(w.dir, project.Options{Environ: []string{}, OpenCode: "/nowhere/opencode", Attach: w.attach})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(p.Close)
	return p
}

// serve starts the project's server, which ends with the test.
func (w *world) serve(ctx context.Context) (*project.Access, error) {
	p := w.open()
	if err := p.Connect(ctx); err != nil {
		return nil, err
	}
	st, err := p.Hold(context.WithoutCancel(ctx), true)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- st.Serve(context.Background(), 0, func(events iter.Seq2[boulder.Event, error]) {
			for range events { // drain
			}
		})
	}()
	w.t.Cleanup(func() {
		st.Stop()
		<-ended
		st.Release()
	})
	return p.Dial(ctx)
}

// call calls a tool and returns the objects of its result, or the error that the agent reads.
func (w *world) call(name string, arguments map[string]any) (objects []map[string]any, failed string) {
	w.t.Helper()
	r, err := w.agent.CallTool(w.t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		w.t.Fatal(err)
	}
	said := r.Content[0].(*sdk.TextContent).Text
	if r.IsError {
		return nil, said
	}
	for line := range strings.Lines(said) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			w.t.Fatalf("%s said %q: %v", name, line, err)
		}
		objects = append(objects, o)
	}
	return objects, ""
}

// result calls a tool and returns its only object, which must be of the type of.
func (w *world) result(of, name string, arguments map[string]any) map[string]any {
	w.t.Helper()
	objects, failed := w.call(name, arguments)
	if failed != "" || len(objects) != 1 || objects[0]["type"] != of {
		w.t.Fatalf("%s %v: %v %s", name, arguments, objects, failed)
	}
	return objects[0]
}

// refuses checks that the tool's error contains these words.
func (w *world) refuses(name string, arguments map[string]any, words ...string) {
	w.t.Helper()
	objects, failed := w.call(name, arguments)
	for _, want := range words {
		if !strings.Contains(failed, want) {
			w.t.Errorf("%s %v does not say %q: %v %s", name, arguments, want, objects, failed)
		}
	}
}

func (w *world) store(samples ...*sample.Boulder) {
	w.t.Helper()
	db := w.db()
	for _, s := range samples {
		if err := db.Commit(w.t.Context(), s.State, s.State.TakeEvents()); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) db() *store.DB {
	w.t.Helper()
	dir, err := store.EnsureDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	db, err := store.Open(filepath.Join(dir, store.FileName), store.Options{Timeout: time.Minute})
	if err != nil {
		w.t.Fatal(err)
	}
	return db
}

// snapshot reads a boulder as another process would.
func (w *world) snapshot(id string) boulder.Snapshot {
	w.t.Helper()
	access, err := w.open().Read(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer access.Close()
	d, err := access.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// awaitReleased waits until the server has released a boulder, shortly after it reported the stop.
func (w *world) awaitReleased(id string) {
	w.t.Helper()
	for range project.Tries(w.t.Context(), time.Millisecond, 0) {
		if access, err := w.open().Dial(w.t.Context()); err != nil {
			w.t.Fatal(err)
		} else if !access.Holder.Has(id) {
			return
		}
	}
}

type args = map[string]any

const (
	gated   = "task: Do it\nsub_tasks: [{id: one, description: Do it, gates: [touch pwned]}]\n"
	doubted = "task: Do it\nsub_tasks: [{id: one, description: Do it, gates: [touch pwned || true]}]\n"
	noWorse = "task: Do it\nsub_tasks: [{id: one, description: Do it, no_worse: [touch pwned]}]\n"
	ungated = "task: Do it\nsub_tasks: [{id: one, description: Do it}]\n"
)

// A plan with commands that comes from an agent waits for the user. No tool can start or approve it.
func TestGatesNeedTheUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	for _, plan := range []string{gated, noWorse, doubted} {
		began := w.result("detached", "run", args{"plan": plan})
		id := began["boulder_id"]
		waits := w.result("wait", "wait", args{"boulder": id})
		reason, _ := waits["reason"].(string)
		shown, _ := waits["plan"].(map[string]any)
		if waits["status"] != "paused" || waits["resumable"] != false || shown["task"] != "Do it" || shown["type"] != "plan" ||
			!strings.Contains(reason, "the plan is not approved yet") {
			t.Errorf("it waits: %v", waits)
		}
		for what, warnings := range map[string]any{"(given)": began["warnings"], "sub_tasks[0].gates[0]": shown["warnings"]} {
			if said := fmt.Sprint(warnings); (plan == doubted) != strings.Contains(said, "cannot be red") || (plan == doubted) != strings.Contains(said, what) {
				t.Errorf("%s: warnings %s", plan, said)
			}
		}
		w.awaitReleased(id.(string))
		w.refuses("resume", args{"boulder": id}, "the user has to agree", "`manager resume "+id.(string)+"` in a terminal")
		w.refuses("answer", args{"blocker": "B1", "answer": "yes"}, "no such blocker: B1: the tool blockers")
		w.refuses("pause", args{"boulder": id}, "paused")
		if d := w.snapshot(id.(string)); len(d.SubTasks) > 0 || !d.Boulder.AskPlan || !d.Boulder.Diverted {
			t.Errorf("%+v", d.Boulder)
		}
	}
	// The user approves in a terminal, where `manager resume` shows the plan. Without an OpenCode that is all.
	id := w.result("detached", "run", args{"plan": gated})["boulder_id"].(string)
	d := w.snapshot(id)
	w.awaitReleased(id)
	access, err := w.open().Dial(t.Context())
	if err == nil {
		_, err = access.Submit(t.Context(), project.Request{Resume: id, Plan: &d.Revision.Plan, GatesApproved: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	w.result("wait", "wait", args{"boulder": id, "cursor": d.Boulder.Seq})
	if d := w.snapshot(id); len(d.SubTasks) != 1 || !slices.Equal(d.SubTasks[0].Gates, []string{"touch pwned"}) {
		t.Errorf("agreed to: %+v", d.SubTasks)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "pwned")); err == nil {
		t.Error("a gate ran")
	}
}

// A task is not handed to a server that judges with another model than the user named.
func TestServerOfAnotherLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	if _, err := w.serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := project.Open(w.dir, project.Options{Environ: []string{}, LedgerModel: "openai/another"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	_, _, err = p.HandOver(t.Context(), project.Request{Task: "Do it"}, nil)
	if !errors.Is(err, boulder.ErrRefused) || !strings.Contains(err.Error(), "not with openai/another") {
		t.Error(err)
	}
}

// What OpenCode does not have is refused before anything is begun, though an agent's plan is checked without it.
func TestPlanThatOpenCodeCannotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.attach = octest.ServeStandIn(t, fakeopencode.Behaviour{}, w.dir, octest.Env(t, ""))
	for field, says := range map[string]string{"model: scripted/nosuch": "scripted/nosuch", "agent: nobody": "the agent nobody"} {
		plan := strings.Replace(ungated, "{id", "{"+field+", id", 1)
		w.refuses("run", args{"plan": plan}, says)
	}
	access, err := w.open().Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer access.Close()
	if all, err := access.Listing(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("begun: %v %v", all, err)
	}
}

// Plans without commands, and with gates that the configuration allows, start at once.
func TestPlansThatRunAtOnce(t *testing.T) {
	t.Parallel()
	for plan, config := range map[string]string{ungated: "", gated: "allow_model_gates: true\n"} {
		w := newWorld(t, config)
		given := any(plan)
		if config == "" { // a plan is an object, or a text
			given = args{"task": "Do it", "sub_tasks": []any{args{"id": "one", "description": "Do it"}}}
		}
		id := w.result("detached", "run", args{"plan": given})["boulder_id"].(string)
		if waited := w.result("wait", "wait", args{}); waited["boulder_id"] != id { // its own boulder needs no name
			t.Errorf("waited for %v", waited)
		}
		d := w.snapshot(id)
		if len(d.SubTasks) != 1 || len(d.SubTasks[0].GateHints) > 0 || (len(d.SubTasks[0].Gates) > 0) != (config != "") {
			t.Errorf("%q: %+v", config, d)
		}
	}
}

// An agent can run a waiting plan without commands that the tool plan made, but no plan that is up for the user's
// approval. The server may already have resumed the boulder of a crashed process: that is no error.
func TestResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	plan := boulder.Plan{Version: 1, Task: "Do it", SubTasks: []boulder.Spec{{ID: "one", Subject: "Do it", Description: "Do it"}}}
	for id, asks := range map[string]bool{"01agents": true, "01users": false, "01crashed": false} {
		s := &sample.Boulder{T: t, ID: id, State: boulder.NewState(), Now: sample.Began}
		s.Apply(boulder.Created{Boulder: boulder.Boulder{
			ID: id, Task: "Do it", Project: w.open().Dir(), Settings: boulder.Settings{AskPlan: asks},
		}})
		rev := boulder.PlanRevision{Number: 1, Plan: plan, Hash: plan.Hash()}
		s.Apply(boulder.Planned{Revision: 1, Plan: rev})
		if id == "01crashed" {
			s.Apply(boulder.Decomposed{Revision: 1, Plan: rev})
		} else {
			s.Apply(boulder.StatusChanged{Status: boulder.Paused})
		}
		w.store(s)
	}
	for id, reason := range map[string]any{"01agents": "the plan is made: the tool resume runs it", "01users": nil} {
		if waits := w.result("wait", "wait", args{"boulder": id}); waits["reason"] != reason || waits["plan"] == nil {
			t.Errorf("%s waits: %v", id, waits)
		}
	}
	w.refuses("plan", args{"boulder": "01users", "comment": "less"}, "any other is the user's to revise")
	w.refuses("plan", args{"boulder": "01agents"}, "a revision needs the boulder and a comment")
	w.refuses("plan", args{"boulder": "01agents", "comment": "less", "task": "x"}, "and no task")
	w.result("detached", "resume", args{"boulder": "01crashed"})
	w.refuses("resume", args{"boulder": "01users"}, "the user has to agree to the plan of boulder 01users")
	w.result("detached", "resume", args{"boulder": "01agents"})
	w.result("wait", "wait", args{"boulder": "01agents", "cursor": w.snapshot("01users").Boulder.Seq})
	if d := w.snapshot("01agents"); len(d.SubTasks) != 1 {
		t.Errorf("%+v", d.Boulder)
	}
	if d := w.snapshot("01users"); len(d.SubTasks) != 0 || d.Boulder.Status != boulder.Paused {
		t.Errorf("%+v", d.Boulder)
	}
}

// What wait calls resumable, the tool resume continues; else it says what only the user can do.
func TestResumableIsWhatResumeContinues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	begin := func(id string, budget *boulder.Budget) (*sample.Boulder, boulder.AttemptRef) {
		s, ref := &sample.Boulder{T: t, ID: id, State: boulder.NewState(), Now: sample.Began}, boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
		s.Apply(boulder.Created{Boulder: boulder.Boulder{ID: id, Task: "Do it", Project: w.open().Dir()}})
		s.Apply(boulder.UsageReport{Source: "plan", Usage: boulder.Usage{Input: 900, Output: 100, Calls: 1}})
		if budget != nil {
			s.Apply(boulder.BudgetSet{Budget: *budget})
		}
		s.Plan()
		s.Start(ref)
		return s, ref
	}
	replan, ref := begin("01replan", nil)
	replan.Apply(boulder.ReplanStarted{AttemptRef: ref, Number: 1, Reason: "stuck", Replaces: replan.State.Remainder("theme")})
	replan.Apply(boulder.ReplanProposed{AttemptRef: ref, Replacement: boulder.Replacement{SubTasks: []boulder.Spec{
		{ID: "smaller", Subject: "Half", Description: "Half of it."},
	}}})
	replan.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "a new plan has to be approved"})
	spent, _ := begin("01spent", &boulder.Budget{Tokens: 500})
	spent.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "the run's budget is used up"})
	free, _ := begin("01free", &boulder.Budget{Tokens: 5_000_000})
	free.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "asked to pause"})
	w.store(replan, spent, free)
	for id, refused := range map[string]string{
		"01replan": "the user has to agree to the new plan of boulder 01replan",
		"01spent": "it would stop again at once (the run's budget is used up): ask the user to type, with limits that they think right, " +
			"`manager resume 01spent --budget tokens=2000`",
		"01free": "",
	} {
		waits := w.result("wait", "wait", args{"boulder": id})
		if waits["resumable"] != (refused == "") {
			t.Errorf("%s: %v", id, waits)
		}
		if refused != "" {
			w.refuses("resume", args{"boulder": id}, refused)
		} else {
			w.result("detached", "resume", args{"boulder": id})
		}
	}
}

// An impossible request is refused with what to do instead, and starts nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := sample.New(t, sample.ID)
	s.Play()
	s.Finish()
	w.store(s)
	for _, test := range []struct {
		tool      string
		arguments args
		says      string
	}{
		{"run", args{}, "a task or a plan"},
		{"run", args{"task": "Do it", "plan": ungated}, "not both"},
		{"run", args{"plan": "sub_tasks: [{descriptor: x}]"}, `(given):1:14: there is no key "descriptor"`},
		{"run", args{"plan": "generated: {a.go: make a}\n" + ungated}, "the user can put them into the configuration"},
		{"run", args{"plan": "integration_gates: [make]\n" + ungated}, "the user can put them into the configuration"},
		{"run", args{"plan": "done_when: [tests]\n" + ungated}, "name it in the configuration"},
		{"run", args{"plan": strings.Replace(gated, "pwned", "ghp_"+strings.Repeat("a1B2", 9), 1)}, "put it into an environment variable"},
		{"run", args{"tsak": "Do it"}, "tsak"},
		{"plan", args{"task": " "}, "say what to do"},
		{"status", args{}, "say which boulder is meant"},
		{"run", args{"plan": args{"sub_tasks": []any{args{"descriptor": "x"}}}}, `there is no key "descriptor"`},
		{"run", args{"plan": 7}, "plan"},
		{"status", args{"boulder": ""}, "say which boulder is meant"},
		{"pause", args{"boulder": ""}, "say which boulder is meant"},
		{"status", args{"boulder": "nonsense"}, `no such boulder: "nonsense": see `},
		{"wait", args{"boulder": sample.ID, "seconds": -1}, "seconds"},
		{"wait", args{"boulder": "nonsense"}, `no such boulder: "nonsense": see `},
		{"note", args{"boulder": sample.ID, "text": "too late"}, "there is nothing left to note"},
		{"note", args{"boulder": sample.ID, "text": ""}, "a note needs a text"},
		{"pause", args{"boulder": sample.ID}, "there is nothing left to pause"},
		{"resume", args{"boulder": sample.ID}, "there is nothing left to resume"},
		{"answer", args{"blocker": "B1", "answer": "yes"}, "the tool blockers lists them"},
		{"land", args{"boulder": sample.ID}, "there is nothing to land"},
		{"land", args{"boulder": sample.ID, "how": "pr"}, "in files or as a branch"},
		{"land", args{"boulder": sample.ID, "undo": true}, "there is nothing to undo"},
		{"land", args{"boulder": sample.ID, "undo": true, "merge": true}, "give it alone, or with dry_run"},
		{"land", args{"boulder": sample.ID, "merge": true, "branch": "x"}, "merge is for files"},
	} {
		w.refuses(test.tool, test.arguments, test.says)
	}
	if all, err := os.ReadDir(filepath.Join(w.dir, store.DirName)); err != nil || slices.ContainsFunc(all, func(e os.DirEntry) bool {
		return e.Name() == filepath.Base(projecttest.Socket(w.dir))
	}) {
		t.Errorf("a server was begun: %v, %v", all, err)
	}
}

// The tools that look, wait and steer return what the commands print.
func TestLookAndSteer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	tools, err := w.agent.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	want := strings.Fields("answer blockers land list note pause plan report resume run status wait")
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	s := sample.New(t, sample.ID)
	s.Play()
	w.store(s)
	if item := w.result("boulder", "list", args{}); item["boulder_id"] != sample.ID || item["status"] != "running" {
		t.Errorf("listed %v", item)
	}
	on := args{"boulder": sample.ID[:6]}
	if status := w.result("status", "status", on); status["completed"] != 1.0 || len(status["sub_tasks"].([]any)) != 6 {
		t.Errorf("%v", status)
	}
	// No process runs the boulder, so wait returns at once: first with all events, then with none.
	seen := w.result("wait", "wait", on)
	var happened []string
	for _, e := range seen["events"].([]any) {
		happened = append(happened, e.(map[string]any)["type"].(string))
	}
	if diff := cmp.Diff([]string{"decomposed", "subtask-done", "subtask-done"}, happened); diff != "" ||
		seen["resumable"] != true || seen["reason"] != "no process runs it: the tool resume continues it" || seen["cursor"] != float64(s.State.Boulder.Seq) {
		t.Errorf("%v (-want +got):\n%s", seen, diff)
	}
	if again := w.result("wait", "wait", args{"boulder": sample.ID, "cursor": seen["cursor"]}); len(again["events"].([]any)) > 0 {
		t.Errorf("told again: %v", again)
	}
	w.result("order", "note", args{"boulder": sample.ID, "sub_task": "theme", "text": " Dark is dark "})
	w.refuses("note", args{"boulder": sample.ID, "sub_task": "tehme", "text": "x"}, "tehme")
	w.result("order", "pause", on)
	if d := w.snapshot(sample.ID); d.Boulder.Status != boulder.Paused || d.Boulder.Notes[0].Text != "Dark is dark" {
		t.Errorf("%s, %+v", d.Boulder.Status, d.Boulder.Notes)
	}
	if made := w.result("report", "report", on); made["boulder_id"] != sample.ID {
		t.Errorf("%v", made)
	}
}

// Answers have nothing that an agent cannot act on: no nanoseconds, limits or empty fields.
func TestLeanAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := sample.New(t, sample.ID)
	s.Play()
	db := w.db()
	t.Cleanup(func() { db.Close() })
	if err := db.Commit(t.Context(), s.State, s.State.TakeEvents()); err != nil {
		t.Fatal(err)
	}
	limits := orchestrator.DefaultLimits()
	projecttest.Serve(t, w.dir, project.Holder{PID: 42, Running: []string{sample.ID}, Command: "manager run", Limits: &limits}, db)
	noise := regexp.MustCompile(`"(limits|pid|worked\w*|duration|elapsed_ms|hash|session_id)":|[0-9]\.[0-9]+Z|:null|:""|:\[\]|[0-9]{9}`)
	for _, tool := range []string{"status", "wait", "report", "list", "blockers"} { // none names the boulder: one is at work
		r, err := w.agent.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args{}})
		if err != nil {
			t.Fatal(err)
		}
		said := r.Content[0].(*sdk.TextContent).Text
		if found := noise.FindString(said); found != "" || r.IsError || len(said) > 4000 {
			t.Errorf("%s: %s in %d characters: %s", tool, found, len(said), said)
		}
		if tool == "status" && !strings.Contains(said, `"running":true`) {
			t.Errorf("%s", said)
		}
	}
}

// An agent may answer questions but not permissions: what it says about one leaves it to the user.
func TestBlockers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s, theme := sample.New(t, sample.ID), boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	s.Plan()
	s.Start(theme)
	for _, question := range []string{"Which colour?", "Which name?"} {
		s.Raise(theme, boulder.Blocker{Category: boulder.BlockerSecurity, Question: question, Context: "There are many.", Hard: true})
	}
	s.Raise(theme, boulder.Blocker{
		Category: boulder.BlockerPermission, Question: "May it push?", Context: "It has to be published.",
		Ask: &boulder.Ask{Kind: boulder.AskPermission, RequestID: "per_1", Permission: "bash", Patterns: []string{"git push *"}},
	})
	w.store(s)
	all, failed := w.call("blockers", args{"boulder": sample.ID})
	if len(all) != 3 || all[0]["type"] != "blocker-record" || all[0]["question"] != "Which colour?" {
		t.Errorf("%v %s", all, failed)
	}
	w.refuses("answer", args{"blocker": "B1"}, "an answer needs a text")
	w.refuses("answer", args{"blocker": "B1", "answer": "Blue", "skip": true}, "leave one of them out")
	if a := w.result("blocker-answer", "answer", args{"blocker": "B1", "answer": "Blue"}); a["answer"] != "Blue" || a["allowed"] != nil {
		t.Errorf("%v", a)
	}
	w.refuses("answer", args{"blocker": "B1", "answer": "Red"}, "B1 is answered already")
	w.result("blocker-answer", "answer", args{"blocker": "B2", "skip": true})
	for _, how := range []args{{"answer": "Yes, you may push"}, {"skip": true}} {
		how["blocker"] = "B3"
		w.refuses("answer", how, "the user's to give", "--allow")
	}
	if b := w.snapshot(sample.ID).SubTasks[1].Blockers; len(b) != 3 || b[2].Status.Settled() || b[2].Allowed {
		t.Errorf("%+v", b)
	}
}

// The answer to what the planner asked names what was done with the default.
func TestAnswerToThePlanner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s, lang := sample.New(t, sample.ID), boulder.AttemptRef{SubTaskID: "lang", Attempt: 1}
	plan := sample.Plan()
	plan.Facts.Questions = []boulder.Question{{ID: "q1", Question: "Which language?", Default: "German", Answer: "German", By: boulder.ByDefault}}
	plan.SubTasks[5].Questions = []string{"q1"}
	rev := boulder.PlanRevision{Number: 1, Plan: plan, Hash: plan.Hash(), Origin: boulder.OriginModel, AdoptedAt: s.Now}
	s.Apply(boulder.Planned{Revision: 1, Plan: rev})
	s.Apply(boulder.Decomposed{Revision: 1, Plan: rev})
	s.Apply(boulder.BlockerRaised{Blocker: boulder.Blocker{
		ID: "B1", PlanQuestion: "q1", Category: boulder.BlockerQuestion, Question: "Which language?", ChosenOption: "German",
		Status: boulder.BlockerPending, CreatedAt: s.Now,
	}})
	s.Start(lang)
	s.End(lang, 1, nil, boulder.Verdict{Completed: true, Summary: "In German."})
	s.Apply(boulder.SubTaskDone{AttemptRef: lang, Completed: true, Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted})
	w.store(s)
	said := w.result("blocker-answer", "answer", args{"blocker": "B1", "answer": "French"})
	if redo := fmt.Sprint(said["redo"]); said["answer"] != "French" || redo != "[lang]" {
		t.Errorf("%v", said)
	}
	w.refuses("answer", args{"blocker": "B1", "answer": "Dutch"}, "B1 is answered already")
}

// A wait returns with new events of another process's run, or without any at its timeout.
func TestWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := sample.New(t, sample.ID)
	s.Play()
	db := w.db()
	t.Cleanup(func() { db.Close() })
	commit := func() {
		if err := db.Commit(t.Context(), s.State, s.State.TakeEvents()); err != nil {
			t.Error(err)
		}
	}
	commit()
	holder := project.Holder{PID: 42, Running: []string{sample.ID}, Command: "manager run"}
	projecttest.Serve(t, w.dir, holder, db)
	cursor := float64(s.State.Boulder.Seq)
	began := time.Now()
	quiet := w.result("wait", "wait", args{"boulder": sample.ID, "cursor": cursor, "seconds": 1})
	if took := time.Since(began); took < time.Second/2 || quiet["resumable"] != false || len(quiet["events"].([]any)) > 0 {
		t.Errorf("after %s: %v", took, quiet)
	}
	s.Apply(boulder.SubTaskProgress{AttemptRef: boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}, Activity: "no news"})
	commit()
	committed := make(chan struct{})
	go func() {
		defer close(committed)
		s.Finish()
		commit()
	}()
	got := w.result("wait", "wait", args{"boulder": sample.ID, "cursor": cursor, "seconds": 1000})
	<-committed
	if events := got["events"].([]any); len(events) == 0 || got["cursor"].(float64) <= cursor {
		t.Errorf("%v", got)
	}
	if over := w.result("wait", "wait", args{"boulder": sample.ID, "cursor": got["cursor"]}); over["status"] != "partial" {
		t.Errorf("%v", over)
	}
}
