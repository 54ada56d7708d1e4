package progressledger_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/progressledger"
	"github.com/bouldermgr/manager/providers"
)

func decode(t *testing.T, text string) progressledger.Answer {
	t.Helper()
	a, err := providers.Decode[progressledger.Answer](text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestNormalize(t *testing.T) {
	t.Parallel()
	both := `"criteria":[{"met":true,"evidence":"a"},{"met":true,"evidence":"b"}],"outputs":[{"id":"O1","value":"x"}]`
	const unstated = "output has to be stated: CSS class"
	but := func(said, says string) string { return strings.Replace(done, said, says, 1) }
	type change = func(*boulder.SubTask, *boulder.Evidence)
	emptyOK := func(s *boulder.SubTask, _ *boulder.Evidence) { s.EmptyOK = true }
	lint := func(s *boulder.SubTask, e *boulder.Evidence) { s.Lint, e.NoServer = []string{"go vet"}, true }
	ended := func(end boulder.Ended) change { return func(_ *boulder.SubTask, e *boulder.Evidence) { e.Ended = end } }
	found := func(d boulder.Diagnostic) change {
		return func(_ *boulder.SubTask, e *boulder.Evidence) { e.Diagnostics = []boulder.Diagnostic{d} }
	}
	npmTest := func(runs ...boulder.Gate) change { // may stay as red as before; "menu" failed before
		return func(s *boulder.SubTask, e *boulder.Evidence) {
			s.NoWorse = []string{"npm test"}
			s.Baseline = []boulder.Gate{{Command: "npm test", ExitCode: 1, Failing: []string{"menu"}}}
			e.Gates = append(e.Gates, runs...)
		}
	}
	outside := func(_ *boulder.SubTask, e *boulder.Evidence) { e.Outside = []string{"go.sum"} }
	promised := func(_ *boulder.SubTask, e *boulder.Evidence) { e.Promised = true }
	truncated := ended(boulder.Ended{Finish: "stop", Truncated: "2 tokens"})
	for name, tc := range map[string]struct {
		answer    string // done, if empty
		doneWhen  string
		change    change
		overruled int
		scope     boulder.Scope
		prompt    string // part of the continuation prompt; empty and not overruled: completed
	}{
		"everything is there":     {},
		"findings without labels": {answer: `{` + both + `,"summary":"s","completed":true}`},
		"veto without a reason": {
			answer: `{` + both + `,"summary":"Not yet good.","completed":false}`, prompt: "Not yet good.",
		},
		"veto with a prompt": {
			answer: `{` + both + `,"summary":"s","completed":false,"continuation_prompt":"Do better."}`, prompt: "Do better.",
		},
		"red gate": {
			change:    func(_ *boulder.SubTask, e *boulder.Evidence) { e.Gates[0].ExitCode = 1 },
			overruled: 1, prompt: "`go test ./...` must exit 0 (exit code 1)",
		},
		"gate was not run": {
			change: func(_ *boulder.SubTask, e *boulder.Evidence) { e.Gates = nil }, overruled: 1, prompt: "(it was not run)",
		},
		"open todos that count": {doneWhen: "judge todos", overruled: 1, prompt: "open item: tests"},
		"no changes": {
			change:    func(_ *boulder.SubTask, e *boulder.Evidence) { e.Diff.Files[0].Own = false },
			overruled: 1, prompt: "changes to files are expected",
		},
		"files outside of its writes": {change: outside},
		"files outside of its writes, with veto": {
			change: outside, scope: boulder.ScopeVeto, overruled: 1, prompt: "have to be as they were before: go.sum",
		},
		"an escape": {
			change: func(_ *boulder.SubTask, e *boulder.Evidence) {
				e.Escaped, e.Strayed = []string{"a.css"}, []string{"b.css"}
			},
			overruled: 1, prompt: "have to be there: a.css, b.css",
		},
		"files that git cannot store": {
			change: func(_ *boulder.SubTask, e *boulder.Evidence) {
				e.Diff.Unstored = []string{"a.u (working-tree-encoding)", "huge (60 GB)"}
			},
			overruled: 1, prompt: "have git ignore them: a.u (working-tree-encoding); huge (60 GB)",
		},
		"no diff to be had": {
			change: func(_ *boulder.SubTask, e *boulder.Evidence) {
				e.Diff = boulder.Diff{Unavailable: "not a git repository"}
			},
		},
		"criterion unmet": {
			answer:    but(`"gate","met":true`, `"gate","met":false`),
			overruled: 1, prompt: "this is not met: The default is light (gate)",
		},
		"criterion without evidence": {
			answer:    but(`"evidence":"gate"`, `"evidence":" "`),
			overruled: 1, prompt: "no evidence that this is met: The default is light",
		},
		"criterion not mentioned": {
			answer: but(`"C2"`, `"C7"`), overruled: 1, prompt: "no evidence that this is met: The default is light",
		},
		"contradicting findings": {
			answer:    but(`"criteria":[`, `"criteria":[{"id":"c2","evidence":"e","met":false},`),
			overruled: 1, prompt: "this is not met: The default is light (e)",
		},
		"contradicting findings, the other way round": {
			answer:    but(`"met":true}],`, `"met":true},{"id":"2","evidence":"e","met":false}],`),
			overruled: 1, prompt: "this is not met: The default is light (e)",
		},
		"output missing":                {answer: but(`"O1"`, `"O2"`), overruled: 1, prompt: unstated},
		"output blank":                  {answer: but(`"dark"`, `" "`), overruled: 1, prompt: unstated},
		"output blank, empty is fine":   {answer: but(`"dark"`, `""`), change: emptyOK},
		"output missing, empty is fine": {answer: but(`"O1"`, `"O2"`), change: emptyOK, overruled: 1, prompt: "CSS class"},
		"output by name": {
			answer: `{` + strings.Replace(both, "O1", "O2", 1) +
				`,"summary":"s","completed":true,"output_data":{"CSS class":"dark"}}`,
		},
		"model's prompt lacks the output": {
			answer: `{"summary":"s","completed":false,"continuation_prompt":"Do better."}`,
			prompt: "Do better.\n\nSee to this:\n- the value of this output has to be stated: CSS class",
		},
		"errors of the language server that count": {
			doneWhen: "judge diagnostics", overruled: 1, prompt: "a.go:3: undefined: x",
			change: found(boulder.Diagnostic{File: "a.go", Line: 3, Severity: "error", Message: "undefined: x"}),
		},
		"warnings of the language server": {
			doneWhen: "judge diagnostics", change: found(boulder.Diagnostic{File: "a.go", Line: 3, Severity: "warning"}),
		},
		"errors of the language server that do not count": {change: found(boulder.Diagnostic{File: "a.go", Severity: "error"})},
		"the promise was not given": {
			doneWhen: "judge promise", overruled: 1, prompt: "Look whether all that your brief asks for is done",
		},
		"the promise was given": {doneWhen: "judge promise", change: promised},
		"a promise where none is asked for": {
			answer: but(`"gate","met":true`, `"gate","met":false`), change: promised, overruled: 1,
			prompt: "this is not met: The default is light (gate)",
		},
		"instead of the language server, worse than before": {
			doneWhen: "judge diagnostics", overruled: 1, prompt: "`go vet` must be no worse than before (exit code 1)",
			change: func(s *boulder.SubTask, e *boulder.Evidence) {
				lint(s, e)
				e.Gates = append(e.Gates, boulder.Gate{Command: "go vet", ExitCode: 1})
			},
		},
		"instead of the language server, not run": {
			doneWhen: "judge diagnostics", change: lint, overruled: 1, prompt: "`go vet` must exit 0 (it was not run)",
		},
		"a language server runs": {
			doneWhen: "judge diagnostics",
			change:   func(s *boulder.SubTask, _ *boulder.Evidence) { s.Lint = []string{"go vet"} },
		},
		"as red as before": {
			change: npmTest(boulder.Gate{Command: "npm test", ExitCode: 1, NoWorse: "the same test fails"}),
		},
		"worse than before": {
			change: npmTest(boulder.Gate{Command: "npm test", ExitCode: 1, Failing: []string{"menu", "theme"}}), overruled: 1,
			prompt: "`npm test` must be no worse than before (exit code 1; before: exit code 1; newly failing: theme)",
		},
		"not known whether it is worse": {
			change: npmTest(), overruled: 1, prompt: "`npm test` must exit 0 (it was not run)",
		},
		"cut off": {
			change: truncated, overruled: 1, prompt: "Your last turn was cut off (2 tokens). Go on where you stopped",
		},
		"at the output limit": {
			change: ended(boulder.Ended{Finish: "length"}), overruled: 1,
			prompt: "Your last turn was cut off (it reached the output limit).",
		},
		"cut off, and the judge asks for more": {
			answer: but(`"completed":true`, `"completed":false,"continuation_prompt":"Add a test."`),
			change: truncated, prompt: "in two sentences what you did.\n\nAdd a test.",
		},
		"stopped by the manager": {
			change: ended(boulder.Ended{Stopped: "30 minutes passed", Rule: boulder.RuleWallClock, Error: "MessageAbortedError"}),
		},
		"no evidence at all": {
			change:    func(_ *boulder.SubTask, e *boulder.Evidence) { *e = boulder.Evidence{} },
			overruled: 2, prompt: "must exit 0",
		},
	} {
		req := request()
		req.Scope, req.SubTask.DoneWhen = tc.scope, strings.Fields(tc.doneWhen)
		if tc.change != nil {
			tc.change(&req.SubTask, req.Turn.Evidence)
		}
		if tc.answer == "" {
			tc.answer = done
		}
		v := progressledger.Normalize(req, decode(t, tc.answer))
		if v.Completed != (tc.overruled == 0 && tc.prompt == "") || len(v.Overruled) != tc.overruled {
			t.Errorf("%s: completed %v, overruled %q", name, v.Completed, v.Overruled)
		}
		if !strings.Contains(v.ContinuationPrompt, tc.prompt) || v.Completed && v.ContinuationPrompt != "" {
			t.Errorf("%s: continuation prompt %q", name, v.ContinuationPrompt)
		}
	}
}

func TestNormalizeOrder(t *testing.T) {
	t.Parallel()
	signals := strings.Replace(done, `"completed":true`, `"is_in_loop":true,"is_stuck":true,"stuck_reason":"r",
		"need_replan":true,"replan_reason":"p","goal_achieved":true,"blocked_by":"odd","remaining":["x",""],
		"new_facts":["f",""],"continuation_prompt":"go","completed":true`, 1)
	got := progressledger.Normalize(request(), decode(t, signals))
	want := boulder.Verdict{
		Completed: true, Summary: "The pages use the theme.", OutputData: "CSS class: dark", IsProgress: true,
		BlockedBy: "none", NeedReplan: true, ReplanReason: "p", GoalAchieved: true, NewFacts: []string{"f"}, Remaining: []string{"x"},
		Criteria: []boulder.Criterion{
			{Criterion: "Every page has the class", Met: true, Evidence: "patch"},
			{Criterion: "The default is light", Met: true, Evidence: "gate"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("completed (-want +got):\n%s", diff)
	}

	req := request()
	req.Turn.Evidence.Gates[0].ExitCode = 1
	red := "the command `go test ./...` must exit 0 (exit code 1)"
	want.Completed, want.IsProgress, want.GoalAchieved = false, false, false
	want.IsInLoop, want.IsStuck, want.StuckReason = true, true, "r"
	want.Overruled, want.Remaining = []string{red}, []string{"x", red}
	want.ContinuationPrompt = "The sub-task is not complete.\n\nSee to this:\n- " + red
	if diff := cmp.Diff(want, progressledger.Normalize(req, decode(t, signals))); diff != "" {
		t.Errorf("overruled (-want +got):\n%s", diff)
	}
}

func TestOutputData(t *testing.T) {
	t.Parallel()
	req := request()
	req.SubTask.Outputs = []string{"class", "list", "nothing"}
	req.SubTask.EmptyOK = true
	v := progressledger.Normalize(req, decode(t, `{"summary":"s","completed":false,"output_data":["extra",1],
		"outputs":[{"id":"O1","value":"dark"},{"id":"O2","value":"a\nb"},{"id":"O3","value":null}]}`))
	if want := "class: dark\nlist:\na\nb\nnothing: (nothing)\n[\"extra\",1]"; v.OutputData != want {
		t.Errorf("output %q, want %q", v.OutputData, want)
	}
	long, err := json.Marshal(strings.Repeat("界", progressledger.MaxOutput+1))
	if err != nil {
		t.Fatal(err)
	}
	v = progressledger.Normalize(req, decode(t, `{"summary":"s","completed":false,"output_data":`+string(long)+`}`))
	n := utf8.RuneCountInString(v.OutputData)
	if n > progressledger.MaxOutput || !strings.HasSuffix(v.OutputData, "characters]") {
		t.Errorf("%d characters", n)
	}
}

func drawRequest(t *rapid.T) boulder.JudgeRequest {
	req := request()
	words := rapid.SliceOfN(rapid.StringN(0, 10, -1), 0, 3)
	req.SubTask.SuccessCriteria = words.Draw(t, "criteria")
	req.SubTask.Outputs = words.Draw(t, "outputs")
	req.SubTask.Gates = nil
	req.SubTask.ExpectsChanges = rapid.Bool().Draw(t, "expects changes")
	req.SubTask.EmptyOK = rapid.Bool().Draw(t, "empty ok")
	req.SubTask.DoneWhen = rapid.SampledFrom([][]string{
		nil, {"judge"}, {"judge", "todos"}, {"judge", "diagnostics"}, {"judge", "promise"},
	}).Draw(t, "done when")
	e := req.Turn.Evidence
	e.Promised = rapid.Bool().Draw(t, "promised")
	e.Gates = nil
	for i := range rapid.IntRange(0, 3).Draw(t, "gates") {
		g := boulder.Gate{Command: fmt.Sprint("gate", i), ExitCode: rapid.IntRange(-1, 1).Draw(t, "code")}
		g.TimedOut = g.ExitCode == 0 && rapid.IntRange(0, 9).Draw(t, "timed out") == 0
		e.Gates = append(e.Gates, g)
		req.SubTask.Gates = append(req.SubTask.Gates, g.Command)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "gates that may stay red") {
		g := boulder.Gate{Command: fmt.Sprint("no worse", i), ExitCode: rapid.IntRange(-1, 1).Draw(t, "code")}
		if g.ExitCode != 0 && rapid.Bool().Draw(t, "as before") {
			g.NoWorse = "as before"
		}
		e.Gates = append(e.Gates, g)
		req.SubTask.NoWorse = append(req.SubTask.NoWorse, g.Command)
	}
	if len(e.Gates) > 0 && rapid.IntRange(0, 9).Draw(t, "not run") == 0 {
		e.Gates = e.Gates[1:]
	}
	e.Ended = rapid.SampledFrom([]boulder.Ended{
		{Finish: "stop"}, {Finish: "stop"}, {Finish: "tool-calls"}, {Stopped: "silence", Rule: boulder.RuleSilence},
		{Finish: "length"}, {Finish: "stop", Truncated: "2 tokens"}, {Finish: "unknown", Truncated: "unknown"},
		{Error: "APIError"}, {Stopped: "wall clock", Finish: "length"},
	}).Draw(t, "ended")
	e.Diagnostics = nil
	for range rapid.IntRange(0, 1).Draw(t, "diagnostics") {
		e.Diagnostics = append(e.Diagnostics, boulder.Diagnostic{
			File: "a.go", Severity: rapid.SampledFrom([]string{"error", "warning"}).Draw(t, "severity"),
		})
	}
	if rapid.Bool().Draw(t, "no diff") {
		e.Diff = boulder.Diff{}
	}
	e.Todos = nil
	for range rapid.IntRange(0, 2).Draw(t, "todos") {
		e.Todos = append(e.Todos, boulder.Todo{Content: "t", Status: rapid.SampledFrom(
			[]string{"pending", "in_progress", "completed", "cancelled", "blocked"}).Draw(t, "status")})
	}
	return req
}

// drawAnswer draws mostly favourable answers, so that many cases complete.
func drawAnswer(t *rapid.T) progressledger.Answer {
	mostly := func(label string) bool { return rapid.IntRange(0, 9).Draw(t, label) > 0 }
	a := progressledger.Answer{
		Summary: "s", ContinuationPrompt: rapid.SampledFrom([]string{"", "go on"}).Draw(t, "prompt"),
		IsInLoop: rapid.Bool().Draw(t, "loop"), IsStuck: rapid.Bool().Draw(t, "stuck"),
		GoalAchieved: rapid.Bool().Draw(t, "goal"), NeedReplan: rapid.Bool().Draw(t, "replan"),
		NewFacts:   rapid.SliceOfN(rapid.StringN(0, 400, -1), 0, 15).Draw(t, "new facts"),
		OutputData: progressledger.Text(rapid.String().Draw(t, "data")),
		Remaining:  rapid.SliceOfN(rapid.String(), 0, 2).Draw(t, "remaining"),
	}
	for i := range rapid.IntRange(2, 4).Draw(t, "findings") {
		f := progressledger.Finding{ID: fmt.Sprintf("C%d", i+1), Met: mostly("met")}
		if mostly("evidence") {
			f.Evidence = "e"
		}
		a.Criteria = append(a.Criteria, f)
		if mostly("output") {
			a.Outputs = append(a.Outputs, progressledger.Value{ID: fmt.Sprintf("O%d", i+1), Value: "v"})
		}
	}
	if mostly("says") {
		a.Completed = new(mostly("completed"))
	}
	return a
}

func isError(d boulder.Diagnostic) bool { return d.Severity == "error" }

func tooLongFact(f string) bool { return utf8.RuneCountInString(f) > 300 || strings.TrimSpace(f) == "" }

func unproven(c boulder.Criterion) bool { return !c.Met || c.Evidence == "" }

func TestNormalizeProperties(t *testing.T) {
	t.Parallel()
	completed := 0
	rapid.Check(t, func(t *rapid.T) {
		req, a := drawRequest(t), drawAnswer(t)
		if rapid.IntRange(0, 4).Draw(t, "nothing is in the way") == 0 { // too rare by chance alone
			task := &req.SubTask
			task.SuccessCriteria, task.Outputs, task.Gates, task.NoWorse, task.DoneWhen = nil, nil, nil, nil, nil
			task.ExpectsChanges = false
			req.Turn.Evidence.Gates, req.Turn.Evidence.Ended = nil, boulder.Ended{Finish: "stop"}
			a.Completed = new(true)
		}
		v := progressledger.Normalize(req, a)
		e := req.Turn.Evidence
		claimed := a.Completed != nil && *a.Completed

		switch {
		case v.Completed && len(e.Red()) > 0:
			t.Fatal("a red gate completes")
		case v.Completed && req.SubTask.ExpectsChanges && e.Diff.Empty():
			t.Fatal("no changes complete where changes are expected")
		case v.Completed && slices.Contains(req.SubTask.DoneWhen, "todos") && len(e.OpenTodos()) > 0:
			t.Fatal("open todos complete")
		case v.Completed && slices.Contains(req.SubTask.DoneWhen, "promise") && !e.Promised:
			t.Fatal("completed without the promise")
		case v.Completed && len(e.Gates) < len(req.SubTask.Gates)+len(req.SubTask.NoWorse):
			t.Fatal("a gate that was not run completes")
		case v.Completed && slices.Contains(req.SubTask.DoneWhen, "diagnostics") &&
			slices.ContainsFunc(e.Diagnostics, isError):
			t.Fatal("errors of the language server complete")
		case v.Completed && (e.Ended.Truncated != "" || e.Ended.Finish == "length" && e.Ended.Stopped == ""):
			t.Fatal("a truncated turn completes")
		case e.Ended.Truncated != "" && !strings.Contains(v.ContinuationPrompt, "was cut off"):
			t.Fatalf("an agent that was cut off is told %q", v.ContinuationPrompt)
		case len(v.NewFacts) > 10 || slices.ContainsFunc(v.NewFacts, tooLongFact):
			t.Fatalf("new facts are not bounded: %q", v.NewFacts)
		case v.NeedReplan != a.NeedReplan:
			t.Fatal("the wish for another plan is lost")
		case v.Completed && !claimed:
			t.Fatal("the judge's veto is overruled")
		case v.Completed && slices.ContainsFunc(v.Criteria, unproven):
			t.Fatal("a criterion without evidence completes")
		case len(v.Criteria) != len(req.SubTask.SuccessCriteria):
			t.Fatalf("%d findings for %d criteria", len(v.Criteria), len(req.SubTask.SuccessCriteria))
		case v.Completed && (v.IsInLoop || v.IsStuck || v.ContinuationPrompt != "" || len(v.Overruled) > 0):
			t.Fatalf("a completed turn is not over: %+v", v)
		case v.GoalAchieved && !v.Completed:
			t.Fatal("the goal is achieved without completion")
		case !v.Completed && strings.TrimSpace(v.ContinuationPrompt) == "":
			t.Fatal("there is no prompt to continue with")
		case !v.Completed && claimed != (len(v.Overruled) > 0):
			t.Fatalf("claimed %v, overruled %q", claimed, v.Overruled)
		}
		if again := progressledger.Normalize(req, a); !cmp.Equal(v, again) {
			t.Fatalf("not deterministic: %s", cmp.Diff(v, again))
		}
		if v.Completed {
			completed++
		}
	})
	if completed == 0 {
		t.Error("no case came out completed, so the properties say nothing")
	}
}

// FuzzAnswer: any answer is refused, or decodes to something that Normalize accepts.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		done, "", "prose", "{}", "[]", `{"completed":true}`, `{"completed":"True","summary":["x"]}`,
		`{"completed":true,"summary":"s","criteria":null,"outputs":{"O1":"x"}}`,
		`{"completed":true,"summary":"s","output_data":{"CSS class":{"a":[1,2]}},"criteria":[{"id":1}]}`,
		"<think>{\"completed\":true}</think>```json\n{'completed': True, 'summary': 's',}\n```",
		`{"completed":true,"summary":"s","output_data":"\ud800"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := providers.Decode[progressledger.Answer](text, nil)
		if err != nil {
			return
		}
		req := request()
		v := progressledger.Normalize(req, a)
		if v.Completed && (a.Completed == nil || !*a.Completed || len(v.Overruled) > 0) {
			t.Errorf("completed without the model's word: %+v", v)
		}
		if !v.Completed && v.ContinuationPrompt == "" {
			t.Error("there is no prompt to continue with")
		}
		if !utf8.ValidString(v.OutputData) || utf8.RuneCountInString(v.OutputData) > progressledger.MaxOutput {
			t.Errorf("output of %d bytes", len(v.OutputData))
		}
	})
}
