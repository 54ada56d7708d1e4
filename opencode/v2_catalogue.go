package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// v2boot bounds the wait for a directory to boot. It takes up to ten seconds after a start, or 21 on a very busy machine
// (measured with 2.0.14).
const v2boot = 30 * time.Second

// directoryBoot is locked while a directory is waited for.
type directoryBoot struct {
	sync.Mutex
	over bool
}

// booted waits, once for a directory, until the server has read its configuration and loaded its plugins. Before, lists
// are empty or incomplete: they fill in stages, and what the configuration defines comes last. The list of plugins stays
// empty until all others are complete (2.0.14). An old server without it has booted once it lists models.
func (v v2) booted(ctx context.Context) error {
	const op = "wait for the directory"
	known, _ := v.boots.LoadOrStore(v.dir, new(directoryBoot))
	boot := known.(*directoryBoot)
	boot.Lock()
	defer boot.Unlock()
	if boot.over {
		return nil
	}
	deadline := time.Now().Add(v.cfg.BootTimeout)
	filled := func(path string) error {
		return v2poll(ctx, op, func() (done bool, err error) {
			all, err := getData[[]json.RawMessage](ctx, v, op, path, v.here())
			if done = len(all) > 0; err == nil && !done && time.Now().After(deadline) {
				v.log.Warn("OpenCode has not booted the directory in time: its lists may be incomplete", "directory", v.dir)
				done = true
			}
			return done, err
		})
	}
	err := filled("/api/plugin")
	if errors.Is(err, ErrUnsupported) || errors.Is(err, ErrNotFound) {
		err = filled("/api/model")
	}
	boot.over = err == nil
	return err
}

func (v v2) Catalogue(ctx context.Context) (out Catalogue, err error) {
	if err := v.booted(ctx); err != nil {
		return out, err
	}
	models, err := getData[[]struct {
		sessionModel
		Enabled  *bool
		Settings struct{ APIKey, BaseURL string }
		Variants []struct{ ID string }
	}](ctx, v, "list models", "/api/model", v.here())
	if err != nil {
		return out, err
	}
	listed := map[string]bool{}
	out.Addresses, out.Efforts = map[string]string{}, map[ModelRef][]string{}
	for _, m := range models {
		listed[m.ProviderID] = true
		out.Keys = append(out.Keys, m.Settings.APIKey)
		if m.Settings.BaseURL != "" {
			out.Addresses[m.ProviderID] = m.Settings.BaseURL
		}
		if m.Enabled == nil || *m.Enabled {
			out.Models = append(out.Models, m.ref())
			for _, variant := range m.Variants {
				out.Efforts[m.ref()] = append(out.Efforts[m.ref()], variant.ID)
			}
			slices.Sort(out.Efforts[m.ref()])
		}
	}
	entries, err := v.configuration(ctx)
	if errors.Is(err, ErrUnsupported) { // the preview of this API in OpenCode 1.18 lacks it
		return out, nil
	}
	for _, e := range entries {
		for name := range e.Info.Providers {
			if !listed[name] {
				out.Missing = append(out.Missing, name)
			}
		}
	}
	slices.Sort(out.Missing)
	out.Missing = slices.Compact(out.Missing)
	return out, err
}

// v2configuration is a document of the configuration. Later ones win.
type v2configuration struct {
	Info struct {
		Model     json.RawMessage // {providerID, model}, or provider/model#variant
		Providers map[string]json.RawMessage
	}
}

func (v v2) configuration(ctx context.Context) ([]v2configuration, error) {
	return get[[]v2configuration](ctx, v, "get configuration", "/api/config", v.here())
}

func (v v2) DefaultModel(ctx context.Context) (string, error) {
	entries, err := v.configuration(ctx)
	model := ""
	for _, e := range entries {
		var name string
		var ref struct{ ProviderID, Model, ID string }
		switch {
		case json.Unmarshal(e.Info.Model, &name) == nil && name != "":
			model, _, _ = strings.Cut(name, "#")
		case json.Unmarshal(e.Info.Model, &ref) == nil && ref.ProviderID != "":
			model = ref.ProviderID + "/" + cmp.Or(ref.Model, ref.ID)
		}
	}
	return model, err
}

func (v v2) Agents(ctx context.Context) (names []string, err error) {
	if err := v.booted(ctx); err != nil {
		return nil, err
	}
	all, err := getData[[]struct{ ID string }](ctx, v, "list agents", "/api/agent", v.here())
	for _, agent := range all {
		names = append(names, agent.ID)
	}
	return names, err
}

func (v v2) AgentRules(ctx context.Context, agent string) ([]Rule, error) {
	if err := v.booted(ctx); err != nil {
		return nil, err
	}
	all, err := getData[[]struct {
		ID          string
		Permissions []v2rule
	}](ctx, v, "list agents", "/api/agent", v.here())
	for _, a := range all {
		if a.ID == cmp.Or(agent, buildAgent) {
			return v1rulesOf(a.Permissions), err
		}
	}
	return nil, err
}

func (v v2) HasLanguageServer(context.Context) (bool, error) { return false, nil }

func (v v2) ShowToast(context.Context, Toast) error { return nil }

func (v v2) AddMCP(ctx context.Context, server MCPServer) error {
	const op = "add MCP server"
	config, limit, wait := server.wire()
	ms := limit.Milliseconds()
	config["timeout"] = map[string]int64{"startup": ms, "catalog": ms, "execution": ms}
	config["codemode"] = false // otherwise the tools are hidden behind one that runs programs
	err := v.call(ctx, request{
		op: op, method: http.MethodPut, path: mcpPath(server.Name), query: v.here(), timeout: wait,
		in: map[string]any{"config": config},
	})
	if err != nil {
		return err
	}
	deadline := time.Now().Add(wait)
	return v2poll(ctx, op, func() (done bool, err error) {
		known, err := v.MCPServers(ctx)
		s := known[server.Name]
		if err == nil && s.Status != MCPConnected && (s.Status != "pending" || time.Now().After(deadline)) {
			err = notConnected(op, server.Name, s)
		}
		return s.Status == MCPConnected, err
	})
}

func mcpPath(name string) string { return "/api/experimental/mcp/" + url.PathEscape(name) }

func (v v2) DisconnectMCP(ctx context.Context, name string) error {
	return remove(ctx, v, "remove MCP server", mcpPath(name), v.here())
}

func (v v2) MCPServers(ctx context.Context) (map[string]MCPStatus, error) {
	all, err := getData[[]struct {
		Name   string
		Status MCPStatus
	}](ctx, v, "list MCP servers", "/api/mcp", v.here())
	known := map[string]MCPStatus{}
	for _, s := range all {
		known[s.Name] = s.Status
	}
	return known, err
}
