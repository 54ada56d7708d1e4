package opencode

import (
	"context"
	"net/http"
	"net/url"
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

func (v v2) Catalogue(ctx context.Context) (out Catalogue, err error) {
	models, err := v2list[struct {
		sessionModel
		Enabled  *bool
		Settings struct{ APIKey string }
	}](ctx, v, "list models", "/api/model")
	for _, m := range models {
		out.Keys = append(out.Keys, m.Settings.APIKey)
		if m.Enabled == nil || *m.Enabled {
			out.Models = append(out.Models, m.ref())
		}
	}
	return out, err
}

func (v v2) DefaultModel(ctx context.Context) (string, error) {
	entries, err := get[[]struct{ Info struct{ Model any } }](ctx, v, "get configuration", "/api/config", v.here())
	model := ""
	for _, e := range entries { // later entries win
		if name, ok := e.Info.Model.(string); ok {
			model, _, _ = strings.Cut(name, "#")
		}
	}
	return model, err
}

func (v v2) Agents(ctx context.Context) (names []string, err error) {
	all, err := v2list[struct{ ID string }](ctx, v, "list agents", "/api/agent")
	for _, agent := range all {
		names = append(names, agent.ID)
	}
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
