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
	"time"
)

// v2list reads a list of the directory. It is empty until the directory has booted, which takes about a second.
func v2list[T any](ctx context.Context, v v2, op, path string) (all []T, err error) {
	deadline := time.Now().Add(v2patience)
	err = v2poll(ctx, op, func() (done bool, err error) {
		all, err = getData[[]T](ctx, v, op, path, v.here())
		return len(all) > 0 || time.Now().After(deadline), err
	})
	return all, err
}

// v2fill bounds the wait for the configured providers. They are listed one after the other, up to ten seconds after a
// start, or 21 on a very busy machine (measured with 2.0.14).
const v2fill = 30 * time.Second

// Catalogue waits, once for a directory, until the models of all configured providers are listed.
func (v v2) Catalogue(ctx context.Context) (out Catalogue, err error) {
	const op = "list models"
	type model struct {
		sessionModel
		Enabled  *bool
		Settings struct{ APIKey string }
	}
	models, err := v2list[model](ctx, v, op, "/api/model")
	if err != nil {
		return out, err
	}
	entries, err := v.configuration(ctx)
	if err != nil && !errors.Is(err, ErrUnsupported) { // the preview of this API in OpenCode 1.18 lacks it
		return out, err
	}
	missing := func() (names []string) {
		for _, e := range entries {
			for name := range e.Info.Providers {
				if !slices.ContainsFunc(models, func(m model) bool { return m.ProviderID == name }) {
					names = append(names, name)
				}
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	err = nil
	if _, waited := v.filled.LoadOrStore(v.dir, true); !waited {
		deadline := time.Now().Add(v.cfg.FillTimeout)
		err = v2poll(ctx, op, func() (done bool, err error) {
			if len(missing()) == 0 || time.Now().After(deadline) {
				return true, nil
			}
			models, err = getData[[]model](ctx, v, op, "/api/model", v.here())
			return false, err
		})
	}
	if out.Missing = missing(); len(out.Missing) > 0 {
		v.log.Warn("OpenCode lists no model of configured providers; is a key missing?", "providers", out.Missing)
	}
	for _, m := range models {
		out.Keys = append(out.Keys, m.Settings.APIKey)
		if m.Enabled == nil || *m.Enabled {
			out.Models = append(out.Models, m.ref())
		}
	}
	return out, err
}

// v2configuration is a document of the configuration. Later ones win.
type v2configuration struct {
	Info struct {
		Model     json.RawMessage // {providerID, model}, or provider/model#variant
		Providers map[string]json.RawMessage
		Agents    map[string]struct{ Disabled bool }
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

// Agents waits, once for a directory, until those of the configuration are listed, which come after the built-in ones.
func (v v2) Agents(ctx context.Context) (names []string, err error) {
	entries, err := v.configuration(ctx)
	if err != nil && !errors.Is(err, ErrUnsupported) {
		return nil, err
	}
	configured := map[string]bool{}
	for _, e := range entries {
		for name, agent := range e.Info.Agents {
			configured[name] = !agent.Disabled
		}
	}
	const op = "list agents"
	_, waited := v.filled.LoadOrStore("agents of "+v.dir, true)
	deadline := time.Now().Add(v.cfg.FillTimeout)
	err = v2poll(ctx, op, func() (done bool, err error) {
		all, err := v2list[struct{ ID string }](ctx, v, op, "/api/agent")
		names, done = nil, true
		for _, agent := range all {
			names = append(names, agent.ID)
		}
		for name, enabled := range configured {
			done = done && (!enabled || slices.Contains(names, name))
		}
		return done || waited || time.Now().After(deadline), err
	})
	return names, err
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
