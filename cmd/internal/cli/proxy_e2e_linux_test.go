package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// refusingProxy is a proxy that reaches one host, or nothing. It records what it is asked for.
type refusingProxy struct {
	*httptest.Server
	reaches string
	mu      sync.Mutex
	asked   []string
}

func newRefusingProxy(t *testing.T) *refusingProxy {
	t.Helper()
	p := &refusingProxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.Method+" "+r.RequestURI)
		p.mu.Unlock()
		if r.URL.Host == p.reaches {
			(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}}).ServeHTTP(w, r)
			return
		}
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

// If a server of the user cannot reach manager's tools, a run without the user says so at its end, in any form of
// output, and in its report, and not only among its events.
func TestRunWithoutTheToolSaysSo(t *testing.T) {
	t.Parallel()
	w := directWorld(t, instant, map[string]string{
		"plan.yaml": "task: Paint it\nmodel: scripted/agent\nsub_tasks: [{id: one, description: Paint it}]\n",
	})
	proxy := newRefusingProxy(t)
	proxy.reaches = strings.TrimSuffix(strings.TrimPrefix(w.model.URL(), "http://"), "/v1")
	env := append(octest.Env(t, w.model.URL()), sharedLogin, "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL)
	server, err := octest.ServeWith(octest.Binary(t), w.dir, env, "0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	w.env = append(w.env, sharedLogin)
	_, errs := w.run(0, "run", "plan.yaml", "--blockers", "--json", "--attach="+server.URL)
	made, _ := w.run(0, "report")
	for where, text := range map[string]string{"stderr of the run": errs, "the report": made} {
		if strings.Count(text, "agents have no tool to report blockers with") != 1 {
			t.Errorf("%s does not say it once:\n%s", where, text)
		}
	}
}

// A proxy that OpenCode, or a ledger, asks for a provider in the local network is named before the work begins, and by doctor.
func TestProxyInTheWayOfALocalProviderIsNamed(t *testing.T) {
	t.Parallel()
	standIn, err := octest.StandIn(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, binary := range map[string]string{"opencode1": octest.Binary(t), "opencode2": standIn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := newRefusingProxy(t)
			w := directWorld(t, instant, map[string]string{
				"opencode.json":        `{"provider": {"gpu": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "http://192.168.77.1:1/v1"}, "models": {"m": {}}}}}`,
				"plan.yaml":            "task: Do it\nsub_tasks: [{description: Do it, model: gpu/nosuch}]\n",
				".manager/config.yaml": "ledger_model: box/judge\nendpoints: [{name: box, base_url: 'http://10.1.2.3:8000/v1'}]\n",
			})
			for i := range w.env {
				w.env[i] = strings.Replace(w.env[i], `"enabled_providers":["scripted"]`, `"enabled_providers":["scripted","gpu"]`, 1)
			}
			w.env = append(w.env, "HTTP_PROXY="+proxy.URL, "MANAGER_OPENCODE="+binary)
			const gpu = "gpu at 192.168.77.1 is in the local network, and is asked through the proxy in HTTP_PROXY: if that cannot reach it, add 192.168.77.1 to NO_PROXY"
			const box = "box at 10.1.2.3 is in the local network"
			_, run := w.run(exitUsage, "run", "plan.yaml")
			made, _ := w.run(exitOK, "doctor")
			for where, said := range map[string]string{"run": run, "doctor": made} {
				if !strings.Contains(said, gpu) || strings.Count(said, box) != 1 {
					t.Errorf("%s:\n%s", where, said)
				}
			}
			w.env = append(w.env, "NO_PROXY=192.168.77.1,10.1.2.3")
			if _, said := w.run(exitUsage, "run", "plan.yaml"); strings.Contains(said, "NO_PROXY") {
				t.Errorf("%s", said)
			}
		})
	}
}
