package fakeopencode

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpConfig is an MCP server as a request describes it. Only remote ones are connected to.
type mcpConfig struct {
	Type     string
	URL      string
	Headers  map[string]string
	Codemode *bool                   // Defaults to true: the tools are hidden behind a tool that runs programs.
	Timeout  struct{ Startup int64 } // in milliseconds
}

type mcpServer struct {
	name    string
	config  mcpConfig
	status  fields
	session *mcp.ClientSession
	tools   []*mcp.Tool
}

func (m *mcpServer) disconnect() {
	if m != nil && m.session != nil {
		_ = m.session.Close() // the other end may be gone
		m.session, m.tools = nil, nil
	}
}

// headers is a transport that adds the headers to each request.
type headers map[string]string

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// addMCP adds or replaces a server. It answers alike once the server is connected and once it failed.
func (l *location) addMCP(r *http.Request) (any, error) {
	config := read[struct{ Config mcpConfig }](r).Config
	s, m := l.server, &mcpServer{name: r.PathValue("server"), config: config, status: fields{"status": "pending"}}
	l.mcp[m.name].disconnect()
	l.mcp[m.name] = m
	var session *mcp.ClientSession
	var tools []*mcp.Tool
	var err error
	s.unlocked(func() { session, tools, err = m.connect(s.ctx, s.behaviour.Version) })
	m.session, m.tools, m.status = session, tools, fields{"status": "connected"}
	if err != nil {
		m.status = fields{"status": "failed", "error": err.Error()}
	}
	if err != nil || l.mcp[m.name] != m || s.ctx.Err() != nil { // failed, replaced or shut down
		m.disconnect()
	}
	s.publish(event{Type: "mcp.status.changed", Location: &l.ref, Data: fields{"server": m.name}})
	return nil, nil
}

func (m *mcpServer) connect(ctx context.Context, version string) (*mcp.ClientSession, []*mcp.Tool, error) {
	limit := time.Duration(cmp.Or(m.config.Timeout.Startup, 30_000)) * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("MCP server %q timed out after %v", m.name, limit))
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "opencode", Version: version}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: m.config.URL, HTTPClient: &http.Client{Transport: headers(m.config.Headers)}, MaxRetries: -1,
		DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, nil, cmp.Or(context.Cause(ctx), err)
	}
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		return session, nil, cmp.Or(context.Cause(ctx), err)
	}
	return session, list.Tools, nil
}

func (l *location) listMCP(*http.Request) (any, error) {
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(l.mcp)) {
		out = append(out, fields{"name": name, "status": l.mcp[name].status})
	}
	return l.answer(out)
}

func (l *location) removeMCP(r *http.Request) (any, error) {
	name := r.PathValue("server")
	if l.mcp[name] == nil {
		return nil, notFound("McpServer", "server", name)
	}
	l.mcp[name].disconnect()
	delete(l.mcp, name)
	return nil, nil
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// mcpTools returns the tools of the directory's servers, without those of servers in code mode.
func (l *location) mcpTools() (all []tool) {
	for _, name := range slices.Sorted(maps.Keys(l.mcp)) {
		m := l.mcp[name]
		if m.config.Codemode == nil || *m.config.Codemode {
			continue
		}
		for _, each := range m.tools {
			tool := tool{name: notInName.ReplaceAllString(name+"_"+each.Name, "_"), parameters: each.InputSchema}
			tool.action = tool.name
			tool.run = func(t *toolCall) (result, error) {
				if err := t.ask(tool.action, "*"); err != nil {
					return result{}, err
				}
				return m.call(t, each.Name)
			}
			all = append(all, tool)
		}
	}
	return all
}

// call calls a tool. The request does not name the session.
func (m *mcpServer) call(t *toolCall, name string) (result, error) {
	session := m.session
	if session == nil {
		return result{}, failed("MCP server %s is not connected", m.name)
	}
	var answer *mcp.CallToolResult
	var err error
	t.server().unlocked(func() { answer, err = session.CallTool(t.ctx, &mcp.CallToolParams{Name: name, Arguments: t.input}) })
	if err != nil {
		return result{}, failed("%v", err)
	}
	var texts []string
	for _, part := range answer.Content {
		if text, ok := part.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	if answer.IsError {
		return result{}, failed("%s", strings.Join(texts, "\n"))
	}
	return result{text: strings.Join(texts, "\n")}, nil
}
