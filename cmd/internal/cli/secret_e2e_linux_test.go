package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// The keys planted in a run are split: scanners of repositories would take them for real.
const (
	keyInEnviron = "planted+known/" + "value=77"              // of DEPLOY_TOKEN; no known form
	keyInFile    = "sk_live_" + "51H8xY2eZvKYlo2C9plantedAAA" // in .env
	keyNamed     = "planted-dotenv-99"                        // in .env; secret only by its name
	keySaid      = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
	keyInTask    = "glpat-" + "aB3dE5fG7hI9jK1lM3nO"
)

// leakyModel is an agent that prints every key it can get, and a judge that repeats what it is shown.
func leakyModel(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.Kind() == scriptmodel.KindStructured {
		return scriptmodel.Reply{JSON: map[string]any{
			"criteria":  []any{map[string]any{"id": "C1", "evidence": "it printed " + keySaid, "met": true}},
			"completed": true, "summary": "It uses the key " + keySaid + ".",
		}}
	}
	command := "env; cat .env; printenv DEPLOY_TOKEN | base64; echo \"x$DEPLOY_TOKEN\" | base64"
	switch {
	case subTaskOf(req.FirstUser()) != "leak":
	case req.AssistantTurns() == 0:
		return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{
			{Name: "bash", Args: map[string]any{"command": command, "description": "Look at " + keyInEnviron}},
		}}
	case req.AssistantTurns() == 2: // the gate was red
		return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{
			{Name: "write", Args: map[string]any{"filePath": "done.txt", "content": "TOKEN=" + keyInFile + "\n"}},
		}}
	}
	return scriptmodel.Reply{Text: "I used " + keySaid + " and " + keyInEnviron + " and it is all done now."}
}

// Keys from the task, or printed by an agent, a gate or a model, are in no file below .manager, in the database, on
// stdout or stderr, in what the judge was shown, or in the next brief.
func TestPlantedKeysAreNowhere(t *testing.T) {
	t.Parallel()
	w := directWorld(t, leakyModel, map[string]string{
		".env":       "# of the project\nSTRIPE=" + keyInFile + "\nDB_PASSWORD=" + keyNamed + "\n",
		".gitignore": "/.env\n/plan.yaml\n",
		"plan.yaml": `
task: Use the key ` + keyInTask + ` to deploy
sub_tasks:
  - {id: leak, description: "Deploy with ` + keyInTask + `", gates: ["env; cat .env >&2; test -e done.txt"]}
  - {id: next, description: Go on, depends_on: [leak]}
`,
	})
	w.env = append(w.env, "DEPLOY_TOKEN="+keyInEnviron)
	said := map[string]string{}
	manager := func(args ...string) {
		t.Helper()
		name := "manager " + strings.Join(args, " ")
		said[name+" (stdout)"], said[name+" (stderr)"] = w.run(0, args...)
	}
	manager("run", "plan.yaml", "--json", "-v")
	for line := range strings.Lines(said["manager run plan.yaml --json -v (stdout)"]) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	warned := said["manager run plan.yaml --json -v (stderr)"]
	if !strings.Contains(warned, "The plan plan.yaml holds a GitLab token.") {
		t.Errorf("no warning: %s", warned)
	}
	manager("show", "--json")
	manager("logs", "-v", "leak")
	manager("logs", "--json", "leak")
	manager("status")
	if err := os.Remove(filepath.Join(w.dir, "done.txt")); err != nil {
		t.Fatal(err)
	}
	manager("run", "plan.yaml", w.attached())
	manager("plan", "--direct", "Deploy with "+keyInTask)

	noSecretsIn(t, said)
	files := contents(t, filepath.Join(w.dir, ".manager"))
	noSecretsIn(t, files)
	asked := map[string]string{}
	for _, r := range w.model.Requests() {
		if r.Kind() == scriptmodel.KindStructured || r.AssistantTurns() == 0 {
			asked["a request to the model"] += r.Text()
		}
	}
	noSecretsIn(t, asked)
	// Without planted keys the checks above prove nothing.
	all := strings.Join(slices.Collect(maps.Values(files)), "")
	marks := strings.Count(all, "[redacted]")
	if !strings.Contains(all, "OPENCODE_SERVER_PASSWORD=[redacted]") {
		t.Error("the agent's tools do not see the password of the OpenCode server any more: say so in docs/security.md")
	}
	if marks < 20 || !strings.Contains(asked["a request to the model"], "It uses the key [redacted]") {
		t.Errorf("%d marks", marks)
	}
	if !strings.Contains(said["manager logs -v leak (stdout)"], "DEPLOY_TOKEN=[redacted]") {
		t.Errorf("the agent did not print its environment:\n%s", said["manager logs -v leak (stdout)"])
	}
}

var serverPassword = regexp.MustCompile(`OPENCODE_SERVER_PASSWORD=[^\[]`)

func noSecretsIn(t *testing.T, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		for _, key := range []string{keyInEnviron, keyInFile, keyNamed, keySaid, keyInTask} {
			inBase64 := base64.StdEncoding.EncodeToString([]byte(key))
			for _, form := range []string{key, inBase64[:len(inBase64)-4]} {
				if at := strings.Index(text, form); at >= 0 {
					t.Errorf("%s holds %s: …%s", name, form, text[max(0, at-100):at+len(form)])
				}
			}
		}
		if found := serverPassword.FindString(text); found != "" {
			t.Errorf("%s holds the password of the OpenCode server", name)
		}
	}
}
