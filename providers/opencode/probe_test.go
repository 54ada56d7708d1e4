package opencode_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
	oc "github.com/bouldermgr/manager/providers/opencode"
)

func TestProbe(t *testing.T) {
	var mu sync.Mutex
	calls := map[string]int{}
	model := octest.Model(t, func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		mu.Lock(); defer mu.Unlock()
		name := r.FirstUser(); calls[name]++
		if calls[name] == 1 { fmt.Printf("-- %s sys %d: %q tools %v user %q\n", name, len(r.System), r.System[:min(2000,len(r.System))], r.Tools, r.FirstUser()) }
		if calls[name] < 8 && name == "othertool" { m := r.Messages[len(r.Messages)-1]; fmt.Printf("  last %s %s tools %v\n", m.Role, m.Text, r.Tools) }
		switch name {
		case "othertool": return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{Name: "bash", Args: json.RawMessage(`{"command":"ls"}`)}}}
		case "othertool-once": if calls[name] > 1 { return scriptmodel.Reply{JSON: map[string]any{"zebra":"z"}} }
			return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{Name: "bash", Args: json.RawMessage(`{"command":"ls"}`)}}}
		case "brokenargs": return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{Name: "StructuredOutput", Args: json.RawMessage(`{"zebra":"z`)}}}
		case "json": return scriptmodel.Reply{JSON: map[string]any{"zebra":"z"}}
		case "cut", "cutjson": return scriptmodel.Reply{Text: "hello world this is long enough to be cut", Cut: true}
		case "plain500": return scriptmodel.Reply{Status: 500}
		}
		return scriptmodel.Reply{Text: "hello"}
	})
	env := octest.Env(t, model.URL())
	dir := octest.Repo(t, map[string]string{"opencode.json": `{"provider":{"scripted":{"models":{"dead":{"name":"dead"}}}},"agent":{"steps":{"mode":"primary","prompt":"hi","steps":3}}}`})
	var cfg map[string]any
	_ = json.Unmarshal([]byte(scriptmodel.OpenCodeConfig(model.URL())), &cfg)
	maps.Copy(cfg, oc.AgentConfig())
	cb, _ := json.Marshal(cfg)
	conf := string(cb)
	srv, err := opencode.Start(t.Context(), opencode.ServerConfig{Binary: octest.Binary(t), Dir: dir, Env: env, ConfigContent: conf, StartTimeout: time.Minute})
	if err != nil { t.Fatal(err) }
	defer srv.Stop(context.Background())
	d := srv.Client().In(dir)
	schema := json.RawMessage(`{"type":"object","properties":{"zebra":{"type":"string"},"apple":{"type":"string"}},"required":["zebra","apple"],"additionalProperties":false}`)

	var wg sync.WaitGroup
	probe := func(name, agent, mod string, to time.Duration, useSchema bool, variant string) {
		began := time.Now()
		q := opencode.AskRequest{Title: "probe", Agent: agent, Variant: variant, Model: opencode.ModelRef{ProviderID: "scripted", ModelID: mod}, Text: name, Timeout: to}
		if useSchema { q.Schema = schema }
		a, err := d.Ask(t.Context(), q)
		mu.Lock()
		fmt.Printf("== %s: %d calls %v\n   %+v json=%s\n   %v\n   %#v\n", name, calls[name], time.Since(began).Round(time.Millisecond), a, a.JSON, err, err)
		mu.Unlock()
	}
	probe("othertool", "steps", "agent", 5*time.Second, true, "")
	probe("othertool-once", "steps", "agent", 5*time.Second, true, "")
	probe("brokenargs", "steps", "agent", 5*time.Second, true, "")
	probe("json", "manager-ledger", "agent", 5*time.Second, true, "high")
	probe("json", "manager-ledger", "agent", 5*time.Second, true, "")
	probe("hello", "manager-ledger", "agent", 5*time.Second, false, "")
	wg.Go(func(){ probe("cut", "manager-ledger", "agent", 100*time.Second, false, "") })
	wg.Go(func(){ probe("refused", "manager-ledger", "dead", 100*time.Second, false, "") })
	wg.Go(func(){ probe("plain500", "manager-ledger", "agent", 100*time.Second, false, "") })
	wg.Go(func(){ probe("cutjson", "manager-ledger", "agent", 100*time.Second, true, "") })
	wg.Wait()
}
