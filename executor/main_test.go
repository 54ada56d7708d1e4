package executor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
)

// shared are the OpenCode servers of the tests that do not harm them. A model request belongs to the test whose name is in a
// prompt of the session.
var shared struct {
	host   *opencode.Host
	asking *opencode.Host // whose permissions ask
	cast   octest.Cast
	repos  map[*opencode.Host]*octest.Repos
}

// patience bounds a start of the real server: a busy machine takes a minute for it.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(languageServerVar) != "" {
		_ = serveLanguage(os.Stdin, os.Stdout) // until OpenCode hangs up
		os.Exit(0)
	}
	octest.Guard()
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func runTests(m *testing.M) (int, error) {
	binary, err := octest.Find()
	if err != nil {
		return 1, err
	}
	home, err := os.MkdirTemp("", "executor-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(home)
	if home, err = filepath.EvalSymlinks(home); err != nil { // as OpenCode reports it
		return 1, err
	}
	model, err := scriptmodel.Start(shared.cast.Reply)
	if err != nil {
		return 1, err
	}
	defer model.Close()
	env := withNowhere(scriptmodel.OpenCodeEnv(os.Environ(), home, model.URL()))
	shared.host = opencode.NewHost(func(ctx context.Context) (*opencode.Server, error) {
		return opencode.Start(ctx, opencode.ServerConfig{Binary: binary, Dir: home, Env: env, StartTimeout: patience})
	})
	defer stopHost(shared.host)
	asking := asksForEverything(scriptmodel.OpenCodeEnv(os.Environ(), filepath.Join(home, "asking"), model.URL()))
	if err := os.MkdirAll(filepath.Join(home, "asking"), 0o700); err != nil {
		return 1, err
	}
	shared.asking = opencode.NewHost(func(ctx context.Context) (*opencode.Server, error) {
		return opencode.Start(ctx, opencode.ServerConfig{Binary: binary, Dir: home, Env: asking, StartTimeout: patience})
	})
	defer stopHost(shared.asking)
	shared.repos = map[*opencode.Host]*octest.Repos{
		shared.host: {Home: home, Files: hello}, shared.asking: {Home: filepath.Join(home, "asking"), Files: hello},
	}
	return m.Run(), nil
}

// withNowhere adds a provider at whose address nothing listens.
func withNowhere(env []string) []string {
	for i, v := range env {
		v = strings.Replace(v, `"enabled_providers":["scripted"]`, `"enabled_providers":["scripted","nowhere"]`, 1)
		env[i] = strings.Replace(v, `"provider":{`, `"provider":{"nowhere":{"npm":"@ai-sdk/openai-compatible",`+
			`"options":{"baseURL":"http://127.0.0.1:1/v1","apiKey":"x"},"models":{"agent":{"tool_call":true}}},`, 1)
	}
	return env
}

func stopHost(h *opencode.Host) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	h.Stop(ctx)
}
