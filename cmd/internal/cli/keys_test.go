package cli

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// A key of no known form in OpenCode's own configuration is never shown or stored, whatever repeats it.
func TestKeysOfOpenCodeStayThere(t *testing.T) {
	t.Parallel()
	const planted = "Planted4711" + "InTheGarden" // split, or scanners would take it for a leak
	for name, server := range map[string]*sharedServer{"opencode1": &shared, "opencode2": &shared2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := octest.Model(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
				return scriptmodel.Reply{Status: http.StatusUnauthorized, Body: `{"error":{"message":"Incorrect API key: ` + planted + `"}}`}
			})
			config := `{"provider":{"planted":{"npm":"@ai-sdk/openai-compatible","models":{"agent":{}},"options":{"baseURL":"` + model.URL() +
				`","apiKey":"` + planted + `"}}}}`
			project := octest.Repo(t, map[string]string{
				"opencode.json": config, "plan.yaml": "sub_tasks: [{description: Write a.txt.}]\n",
			})
			address, err := server.lead(model.URL(), project)
			if err != nil {
				t.Fatal(err)
			}
			env := append(testEnv(t, model.URL()), sharedLogin)
			code, stdout, stderr := run(t, project, env, "run", "plan.yaml", "--yes", "--verbose",
				"--model", "planted/agent", "--attach", address)
			checkTexts(t, "the run", []string{"Incorrect API key: [redacted]"}, []string{planted}, stdout+stderr)
			if code != exitError {
				t.Errorf("exit code %d", code)
			}
			err = filepath.WalkDir(filepath.Join(project, ".manager"), func(path string, entry os.DirEntry, err error) error {
				if err != nil || !entry.Type().IsRegular() {
					return err
				}
				data, err := os.ReadFile(path)
				if strings.Contains(string(data), planted) {
					t.Errorf("%s has it", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
