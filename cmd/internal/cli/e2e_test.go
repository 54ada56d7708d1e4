package cli

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// acceptAll is the verdict of a judge that believes everything.
var acceptAll = scriptmodel.Reply{JSON: map[string]any{
	"criteria":  []any{map[string]any{"id": "C1", "evidence": "the final message", "met": true}},
	"completed": true, "summary": "It is done.",
}}

func instant(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.Kind() == scriptmodel.KindStructured {
		return acceptAll
	}
	return scriptmodel.Reply{Text: "All of it is done now."}
}

// requestsOf counts a model's requests of a kind.
func requestsOf(model *scriptmodel.Server, kind scriptmodel.Kind) (n int) {
	for _, r := range model.Requests() {
		if r.Kind() == kind {
			n++
		}
	}
	return n
}

// directLedger makes the ledgers ask the model at OPENAI_BASE_URL.
const directLedger = "ledger_model: openai/judge\n"

// direct makes the ledgers ask the model at url themselves instead of through OpenCode.
func direct(t *testing.T, env []string, url, key string) []string {
	t.Helper()
	home := t.TempDir()
	writeFile(t, filepath.Join(home, "manager", "config.yaml"), directLedger)
	return append(env[:len(env):len(env)], "XDG_CONFIG_HOME="+home, "OPENAI_API_KEY="+key, "OPENAI_BASE_URL="+url)
}

// The next brief cuts a long output visibly; its agent can read the full text and its transcript, also in a slot.
func TestHandoffOfALongOutput(t *testing.T) {
	t.Parallel()
	t.Run("off", func(t *testing.T) { t.Parallel(); handoff(t, "off") })
	t.Run("always", func(t *testing.T) { t.Parallel(); handoff(t, "always") })
}

func handoff(t *testing.T, isolation string) {
	t.Helper()
	long := strings.Repeat("All that was found. ", 300) + "THE END"
	w := directWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case req.Kind() == scriptmodel.KindStructured && strings.Contains(req.Text(), "# Sub-task: find"):
			reply := maps.Clone(acceptAll.JSON.(map[string]any))
			reply["outputs"] = []any{map[string]any{"id": "O1", "value": long}}
			reply["summary"] = "Found."
			return scriptmodel.Reply{JSON: reply}
		case req.Kind() == scriptmodel.KindStructured:
			return acceptAll
		case subTaskOf(req.FirstUser()) == "find":
			return scriptmodel.Reply{Text: "I have found all of it now."}
		}
		_, path, _ := strings.Cut(req.FirstUser(), "full text: ")
		path, _, _ = strings.Cut(path, "]")
		_, transcript, _ := strings.Cut(req.FirstUser(), "Transcript of its session, to look things up: ")
		transcript, _, _ = strings.Cut(transcript, "\n")
		turn := then("I have read it all to the end.", calls("read", map[string]any{"filePath": path}),
			shell("tail -c 7 '"+path+"' > end.txt"), // the read tool cuts long lines; a shell does not
			shell("grep -q 'I have found all of it now' "+transcript+" && printf found > seen.txt"))
		return turn[min(req.AssistantTurns(), len(turn)-1)]
	}, nil)
	w.dir = octest.Repo(t, map[string]string{"plan.yaml": `
task: Find and use
isolation: ` + isolation + `
sub_tasks:
  - {id: find, description: Find everything, outputs: [findings]}
  - {id: use, description: Use it, depends_on: [find]}
`})
	w.run(0, "run", "plan.yaml", w.attached())
	if isolation == "always" {
		w.run(0, "land", "--files")
	}
	brief, read := "", false
	for _, r := range w.model.Requests() {
		if r.Kind() == scriptmodel.KindAgent && subTaskOf(r.FirstUser()) == "use" {
			brief, read = r.FirstUser(), toolSaid(r, "findings: All that was found.")
		}
	}
	whole := "> Found.\n> \n> findings: " + long // as the brief quotes it
	if !strings.Contains(brief, "findings: All that was found.") || strings.Contains(brief, "THE END") ||
		!strings.Contains(brief, fmt.Sprintf(" of %d characters; full text: %s/.manager/runs/", len(whole), w.dir)) {
		t.Errorf("the brief:\n%s", brief)
	}
	wantFile(t, w.dir, "end.txt", "THE END")
	wantFile(t, w.dir, "seen.txt", "found")
	if !read {
		t.Error("the read tool did not give the file")
	}
}

// A wrong key pauses the run at the first call and names its variable. A resume with the right one finishes.
func TestWrongKey(t *testing.T) {
	t.Parallel()
	const right, wrong = "sk-planted-right", "sk-planted-wrong"
	var refused atomic.Int64
	w := newWorld(t, func(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
		if req.Kind() == scriptmodel.KindStructured && req.Key != right {
			refused.Add(1)
			return scriptmodel.Reply{Status: http.StatusUnauthorized}
		}
		return instant(ctx, req)
	}, map[string]string{"plan.yaml": "sub_tasks: [{description: Say hello.}]\n"})
	attach := w.attached()
	env, all := w.env, ""
	manager := func(key string, want int, args ...string) string {
		t.Helper()
		w.env = direct(t, env, w.model.URL(), key)
		stdout, stderr := w.run(want, args...)
		all += stdout + stderr
		return stdout + stderr
	}
	out := manager(wrong, 1, "plan", "--plan", "Do it")
	if !strings.Contains(out, "OPENAI_API_KEY") || refused.Load() != 1 {
		t.Errorf("plan made %d calls and said: %s", refused.Load(), out)
	}
	out = manager(wrong, 4, "run", "plan.yaml", "-v", attach)
	if !strings.Contains(out, "OPENAI_API_KEY") || !strings.Contains(out, "manager resume") || refused.Load() != 2 {
		t.Errorf("run made %d calls and said: %s", refused.Load()-1, out)
	}
	if out := manager(right, 0, "resume", attach); !strings.Contains(out, "1 of 1") {
		t.Errorf("resume said: %s", out)
	}
	if agents := requestsOf(w.model, scriptmodel.KindAgent); agents != 1 {
		t.Errorf("the work was done %d times", agents)
	}
	manager(right, 0, "show", "--json")
	manager(right, 0, "logs", "--json")
	if strings.Contains(all, "sk-planted") {
		t.Errorf("a key was printed:\n%s", all)
	}
	for name, text := range contents(t, w.dir) {
		if strings.Contains(text, "sk-planted") {
			t.Errorf("%s holds the secret", name)
		}
	}
}

// contents returns all files below a directory and checks that those in .manager are private.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && strings.Contains(path, "/.manager") {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil || len(files) < 5 {
		t.Errorf("%d files: %v", len(files), err)
	}
	return files
}

// The ledgers use an endpoint of the configuration, or OpenCode if the user named no model.
func TestLedgersThroughEndpointAndOpenCode(t *testing.T) {
	t.Parallel()
	var judges atomic.Int64
	endpoint := octest.Model(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		if req.Key != "sk-mine" || req.Model != "judge-1" {
			return scriptmodel.Errorf("key or model is wrong: %s", req.Model)
		}
		judges.Add(1)
		return acceptAll
	})
	w := newWorld(t, instant, map[string]string{
		"plan.yaml": "sub_tasks: [{description: Say hello.}]\n",
		"config.yaml": fmt.Sprintf("ledger_model: mine/judge-1\nendpoints: [{name: mine, base_url: %q, key_env: MY_KEY}]\n",
			endpoint.URL()),
	})
	attach := w.attached()
	own := w.env
	w.env = append(w.env, "MY_KEY=sk-mine")
	w.run(0, "run", "plan.yaml", "--config", "config.yaml", attach)
	if n := requestsOf(w.model, scriptmodel.KindStructured); n != 0 || judges.Load() != 1 {
		t.Errorf("through the endpoint: %d calls, and %d through OpenCode", judges.Load(), n)
	}
	// A key in the environment does not by itself choose who sees the work.
	w.env = slices.Concat(own, []string{"OPENAI_API_KEY=stray", "OPENAI_BASE_URL=" + endpoint.URL()})
	w.run(0, "run", "plan.yaml", attach)
	if n := requestsOf(w.model, scriptmodel.KindStructured); n != 1 || len(endpoint.Requests()) != 1 {
		t.Errorf("through OpenCode: %d calls, and %d to the endpoint", n, len(endpoint.Requests())-1)
	}
}
