package executor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
)

// shared is the one OpenCode server of the tests that do not harm it. A model request belongs to the test whose name is in
// the session's first prompt.
var shared struct {
	host  *opencode.Host
	model *scriptmodel.Server

	mu       sync.Mutex
	handlers map[string]scriptmodel.Handler
}

func TestMain(m *testing.M) {
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
	shared.handlers = map[string]scriptmodel.Handler{}
	if shared.model, err = scriptmodel.Start(route); err != nil {
		return 1, err
	}
	defer shared.model.Close()
	env := scriptmodel.OpenCodeEnv(os.Environ(), home, shared.model.URL())
	shared.host = opencode.NewHost(func(ctx context.Context) (*opencode.Server, error) {
		return opencode.Start(ctx, opencode.ServerConfig{Binary: binary, Dir: home, Env: env})
	})
	defer stopHost(shared.host)
	return m.Run(), nil
}

func stopHost(h *opencode.Host) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	h.Stop(ctx)
}

func route(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
	shared.mu.Lock()
	var handler scriptmodel.Handler
	for name, h := range shared.handlers {
		if strings.Contains(req.FirstUser(), name+":") {
			handler = h
		}
	}
	shared.mu.Unlock()
	if handler == nil {
		return scriptmodel.Errorf("no test claims %q", req.FirstUser())
	}
	return handler(ctx, req)
}
