package cli

import (
	"context"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

var killLooks = flag.Int("kill-looks", 2, "how many kills TestKillAtLook makes; 0: one at each step")

// lookSteps are the steps to choose from.
const lookSteps = 34

// kill -9 of the manager, of OpenCode or of both, at any step of a run that looks first and is reviewed at the end: each look
// has one session, is paid for once and counts, and nothing that was planned or checked is asked again once it is stored.
func TestKillAtLook(t *testing.T) {
	t.Parallel()
	victims := []victim{theManager, theServer, bothOfThem}
	if *killLooks == 0 {
		for _, v := range victims {
			for step := 1; killAtLook(t, v, step) && !t.Failed(); step++ {
			}
		}
		return
	}
	steps := rand.New(rand.NewPCG(*killSeed, 3))
	for i := range *killLooks {
		killAtLook(t, victims[i%len(victims)], 1+steps.IntN(lookSteps))
	}
}

// killAtLook reports whether there was such a step.
func killAtLook(t *testing.T, v victim, step int) (struck bool) {
	t.Run(string(v), func(t *testing.T) {
		w := bareKillWorld(t, uint64(step), 1)
		w.next = kill{after: step, victim: v}
		model := w.listen(w.replyToLook)
		w.dir = octest.Repo(t, map[string]string{"app.js": "start()\n", ".manager/config.yaml": "review: scripted/agent-2\n"})
		w.env = direct(t, w.env, model, "any")
		args := []string{"run", "Change the app", "--look", "--yes", "--model", "scripted/agent", "--json"}
		for !w.over {
			killed, code, stderr := w.manage(args)
			if !killed && code != 0 {
				t.Fatalf("manager %s: exit code %d\n%s", args[0], code, stderr)
			}
			if stored, _ := w.run(0, "list", "--json"); stored != "" {
				args = []string{"resume", "--yes", "--json"}
				for _, e := range w.events() {
					w.note(e)
				}
			}
		}
		w.gone("at the end", w.ours())
		counts := map[string]int{}
		for _, e := range w.events() {
			counts[e.Type+" "+e.Source]++
		}
		for what, want := range map[string]int{"look-started ": 2, "looked ": 2, "usage look": 2, "usage plan": 2, "request-checked ": 1} {
			if counts[what] != want {
				t.Errorf("%d times %q, not %d: %v", counts[what], what, want, counts)
			}
		}
		for _, look := range []string{"look", "review"} {
			if sessions := w.seen[look]; len(sessions) != 1 {
				t.Errorf("the %s had the sessions %q", look, sessions)
			}
			asked := 0
			for p, servers := range w.prompts {
				if p.subTask == look && !p.resumes() {
					asked += len(servers)
				}
			}
			if asked != 1+w.ends && asked != 1 {
				t.Errorf("the %s was asked for %d times", look, asked)
			}
		}
		if stdout, _ := w.run(0, "logs"); strings.Contains(stdout, "counts for nothing") {
			t.Error(stdout)
		}
		struck = w.struck > 0
	})
	return struck
}

// replyToLook is a model that needs a look before it plans.
func (w *killWorld) replyToLook(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	look := ""
	switch first := req.FirstUser(); {
	case strings.Contains(first, "[manager] Look something up"):
		look = "look"
	case strings.Contains(first, "[manager] Review the changes"):
		look = "review"
	}
	switch {
	case req.AsksFacts():
		w.happens("request: the facts")
		return scriptmodel.Reply{JSON: map[string]any{
			"request": []any{}, "facts": map[string]any{"to_find": []any{"Where does it start?"}}, "reason": "It is unknown", "needs_plan": true,
		}}
	case req.IsCheck():
		w.happens("request: the check")
		return scriptmodel.Reply{JSON: map[string]any{"request": []any{map[string]any{"text": "All", "evidence": "It is there", "met": true}}, "answer": "It is."}}
	case req.Kind() == scriptmodel.KindStructured && strings.Contains(req.Text(), "Split the task"):
		w.happens("request: the plan")
		return scriptmodel.Reply{JSON: map[string]any{"goal": "It is changed", "reason": "By parts", "sub_tasks": []any{
			map[string]any{"id": "one", "description": "Write one.txt"}, map[string]any{"id": "two", "description": "Write two.txt"},
		}}}
	case req.Kind() == scriptmodel.KindStructured:
		w.happens("request: the judge")
		return acceptAll
	case look != "":
		w.begins(look, req)
		w.happens("request: the " + look)
		if req.TurnsSinceUser() == 0 {
			return scriptmodel.Call("read", map[string]any{"filePath": "app.js"})
		}
		return scriptmodel.Reply{Text: `{"findings": [{"question": 1, "statement": "It starts here", "file": "app.js", "line": 1, "sure": "certain"}]}`}
	}
	id := subTaskOf(req.FirstUser())
	w.happens("request: " + id)
	if !toolSaid(req, "Wrote file") {
		return writes(id+".txt", id+"\n")
	}
	return scriptmodel.Reply{Text: "Finished with " + id + ".txt."}
}
