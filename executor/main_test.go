package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// shared is the server of tests that do not harm it. A model request goes to the test named in its session's prompts.
var shared struct {
	host          *opencode.Host
	cast          scriptmodel.Cast
	plain, asking octest.Repos
}

var (
	hello = files(`"permission": "allow"`)
	asks  = files(`"permission": {"bash": "ask", "external_directory": "ask", "doom_loop": "ask", "question": "allow"}`)
)

// files returns a project with the configuration. Without $schema OpenCode would write one into it.
func files(config string) map[string]string {
	config = `{"$schema": "https://opencode.ai/config.json", ` + config + "}"
	return map[string]string{"hello.txt": "one\ntwo\nthree\n", "opencode.json": config}
}

// patience bounds a start of the real server, which takes a minute on a busy machine.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(languageServerVar) != "" {
		_ = serveLanguage(os.Stdin, os.Stdout) // until OpenCode hangs up
		os.Exit(0)
	}
	octest.Guard()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	binary, noBinary := octest.Find()
	made, noHome := os.MkdirTemp("", "executor-test-")
	defer os.RemoveAll(made)
	home, noLink := filepath.EvalSymlinks(made) // as OpenCode reports it
	model, noModel := scriptmodel.Start(shared.cast.Reply)
	shared.plain, shared.asking = octest.Repos{Home: home, Files: hello}, octest.Repos{Home: home + "/asking", Files: asks}
	if err := errors.Join(noBinary, noHome, noLink, noModel, os.Mkdir(shared.asking.Home, 0o700)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer model.Close()
	env := configured(octest.Lean(scriptmodel.OpenCodeEnv(os.Environ(), home, model.URL())))
	shared.host = opencode.NewHost(func(ctx context.Context) (*opencode.Server, error) {
		return opencode.Start(ctx, opencode.ServerConfig{
			Binary: binary, Dir: home, Env: env, StartTimeout: patience, CallTimeout: patience,
		})
	})
	defer stopHost(shared.host)
	return m.Run()
}

// configured changes the server's configuration in env: the project decides on permissions, a rejection without a
// message, as parallel asks get, does not end the turn, and nothing listens at the address of the provider "nowhere".
func configured(env []string) []string {
	change := strings.NewReplacer(
		`"permission":"allow"`, `"experimental":{"continue_loop_on_deny":true}`,
		`"enabled_providers":["scripted"]`, `"enabled_providers":["scripted","nowhere"]`,
		`"provider":{`, `"provider":{"nowhere":{"npm":"@ai-sdk/openai-compatible",`+
			`"options":{"baseURL":"http://127.0.0.1:1/v1","apiKey":"x"},"models":{"agent":{"tool_call":true}}},`,
	)
	for i := range env {
		env[i] = change.Replace(env[i])
	}
	return env
}

func stopHost(h *opencode.Host) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	h.Stop(ctx)
}
