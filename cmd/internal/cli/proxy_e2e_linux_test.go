package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// refusingProxy is a proxy that reaches nothing. It records what it is asked for.
type refusingProxy struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newRefusingProxy(t *testing.T) *refusingProxy {
	p := &refusingProxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = append(p.asked, r.Method+" "+r.RequestURI)
		http.Error(w, "the proxy cannot reach it", http.StatusBadGateway)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *refusingProxy) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// With the proxy of a company in the environment, in any spelling, nothing that manager starts asks it for an address of
// this machine: neither OpenCode for the model and manager's own tools, nor what a gate runs.
func TestProxyIsNotAskedForThisMachine(t *testing.T) {
	t.Parallel()
	proxy := newRefusingProxy(t)
	w := directWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case req.Kind() == scriptmodel.KindStructured:
			return acceptAll
		case req.AssistantTurns() == 0:
			return calls(boulder.BlockerTool, map[string]any{
				"category": "question", "question": "Which colour?", "context": "It is not said.", "blocks_progress": false,
				"options": []string{"red", "blue"}, "chosen_option": "red", "chosen_reasoning": "Easy to change.",
			})
		}
		return scriptmodel.Reply{Text: "All of it is done now."}
	}, map[string]string{
		"plan.yaml": "task: Paint it\nmodel: scripted/agent\nsub_tasks: [{id: one, description: Paint it, gates: [env | grep -i proxy > env.txt]}]\n",
	})
	for _, name := range strings.Fields("HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy") {
		w.env = append(w.env, name+"="+proxy.URL)
	}
	w.run(0, "run", "plan.yaml", "--blockers")
	told := func(r scriptmodel.Request) bool { return toolSaid(r, mcptool.Registered) }
	if !slices.ContainsFunc(w.model.Requests(), told) {
		t.Error("the agent had no blocker tool")
	}
	for _, asked := range proxy.requests() {
		if strings.Contains(asked, "127.0.0.1") || strings.Contains(asked, "localhost") {
			t.Errorf("the proxy was asked: %s", asked)
		}
	}
	if env := contents(t, w.dir)[filepath.Join(w.dir, "env.txt")]; strings.Count(env, "127.0.0.1,::1\n") != 2 {
		t.Errorf("a gate got\n%s", env)
	}
}
