package opencode_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// patience bounds every wait for the real server, which shares two cores with other tests.
const patience = 5 * time.Minute

// shared is the real server of the tests, which have a project each.
var shared struct {
	host    *opencode.Host
	cast    scriptmodel.Cast
	model   *scriptmodel.Server
	project string
}

func TestMain(m *testing.M) {
	octest.Guard()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(octest.CheckLeaks(code))
}

func run(m *testing.M) (int, error) {
	binary, err := octest.Find()
	if err != nil {
		return 1, err
	}
	home, err := os.MkdirTemp("", "ocprovider-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(home)
	shared.project = filepath.Join(home, "project")
	if err := os.Mkdir(shared.project, 0o755); err != nil {
		return 1, err
	}
	if shared.model, err = scriptmodel.Start(shared.cast.Reply); err != nil {
		return 1, err
	}
	defer shared.model.Close()
	config, err := serverConfig(shared.model.URL())
	if err != nil {
		return 1, err
	}
	shared.host = opencode.NewHost(func(ctx context.Context) (*opencode.Server, error) {
		return opencode.Start(ctx, opencode.ServerConfig{
			Binary: binary, Dir: home, Env: scriptmodel.OpenCodeEnv(os.Environ(), home, shared.model.URL()),
			ConfigContent: func(int) string { return config }, StartTimeout: patience, CallTimeout: patience,
		})
	})
	defer shared.host.Stop(context.Background())
	return m.Run(), nil
}

// serverConfig allows projects to define a provider "local", and adds the ledgers' agent.
func serverConfig(url string) (string, error) {
	config := map[string]any{}
	if err := json.Unmarshal([]byte(scriptmodel.OpenCodeConfig(url)), &config); err != nil {
		return "", err
	}
	config["enabled_providers"] = []string{scriptmodel.ProviderID, "local"}
	config["agent"] = ocprovider.AgentConfig()
	config["snapshot"], config["lsp"], config["formatter"] = false, false, false // no question needs them
	out, err := json.Marshal(config)
	return string(out), err
}

// scene is one test's part of the shared server.
type scene struct {
	t       *testing.T
	mark    string
	schema  string // the name of the questions' schema, which is in the titles of their sessions
	project string
}

// newScene has handler answer the scene's questions. They are asked in a new project with files, or, without any, in a
// shared one: OpenCode needs a second to open a project.
func newScene(t *testing.T, files map[string]string, handler scriptmodel.Handler) *scene {
	t.Helper()
	s := &scene{
		t: t, mark: "[" + t.Name() + "]", schema: strings.ReplaceAll(t.Name(), "/", "-"), project: shared.project,
	}
	if files != nil {
		s.project = project(t, files)
	}
	shared.cast.Play(s.mark, handler)
	return s
}

func project(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (s *scene) config() *ocprovider.Completer {
	return &ocprovider.Completer{
		Host: shared.host, Directory: s.project, Model: scripted(scriptmodel.ModelAgent), Agent: ocprovider.Agent,
		Timeout: patience,
	}
}

func scripted(model string) opencode.ModelRef {
	return opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: model}
}

const schema = `{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"],` +
	`"additionalProperties":false}`

func (s *scene) question() *providers.Request {
	return &providers.Request{
		System: "You are a judge.", Schema: json.RawMessage(schema), SchemaName: s.schema,
		Messages: []providers.Message{{Role: providers.RoleUser, Text: s.mark + " Is it done?"}},
	}
}

func (s *scene) requests() []scriptmodel.Request {
	var own []scriptmodel.Request
	for _, r := range shared.model.Requests() {
		if strings.Contains(r.FirstUser(), s.mark) {
			own = append(own, r)
		}
	}
	return own
}

func (s *scene) noSessions() {
	s.t.Helper()
	conn, err := shared.host.Connect(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	left, err := conn.Client.In(s.project).Sessions(s.t.Context(), opencode.SessionFilter{Title: s.schema})
	if err != nil || len(left) != 0 {
		s.t.Errorf("sessions left behind: %+v, %v", left, err)
	}
}

func says(replies ...scriptmodel.Reply) scriptmodel.Handler {
	var mu sync.Mutex
	next := 0
	return func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		mu.Lock()
		defer mu.Unlock()
		reply := replies[min(next, len(replies)-1)]
		next++
		return reply
	}
}

func yes() scriptmodel.Reply { return scriptmodel.Reply{JSON: map[string]any{"answer": "yes"}} }
