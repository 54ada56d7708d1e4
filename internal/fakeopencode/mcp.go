package fakeopencode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpConfig is a server of tools, as a request names it. Only remote ones are connected to.
type mcpConfig struct {
	Type     string
	URL      string
	Headers  map[string]string
	Codemode *bool                                       // Defaults to true: the tools are hidden in a tool that runs programs.
	Timeout  struct{ Startup, Catalog, Execution int64 } // in milliseconds
}

// mcpServer is a server that a directory knows.
type mcpServer struct {
	name    string
	config  mcpConfig
	status  string // connected, pending, failed or disabled
	failure string // of a failed one
	session *mcp.ClientSession
	tools   []*mcp.Tool
}

func (m *mcpServer) disconnect() {
	if m.session != nil {
		_ = m.session.Close() // the other end may have gone
	}
	m.session, m.tools, m.status = nil, nil, "disabled"
}

// headers adds those of the configuration to each request.
type headers map[string]string

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// connect puts a server in the place of one with its name. The caller does not have the lock.
func (s *Server) connect(l *location, name string, config mcpConfig) {
	m := &mcpServer{name: name, config: config, status: "pending"}
	s.mu.Lock()
	if old := l.mcp[name]; old != nil {
		old.disconnect()
	}
	l.mcp[name] = m
	s.mu.Unlock()
	limit := time.Duration(cmp.Or(config.Timeout.Startup, 30_000)) * time.Millisecond
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "opencode", Version: s.behaviour.Version}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: config.URL, HTTPClient: &http.Client{Transport: headers(config.Headers)}, MaxRetries: -1,
		DisableStandaloneSSE: true,
	}, nil)
	var tools []*mcp.Tool
	if err == nil {
		for tool, each := range session.Tools(ctx, nil) {
			if err = each; err != nil {
				break
			}
			tools = append(tools, tool)
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("MCP server %q timed out after %v", name, limit)
	}
	s.connected(l, m, session, tools, err)
}

// connected says how a server is, if it is still wanted.
func (s *Server) connected(l *location, m *mcpServer, session *mcp.ClientSession, tools []*mcp.Tool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.session, m.tools = session, tools
	switch {
	case err != nil:
		m.disconnect()
		m.status, m.failure = "failed", err.Error()
	case l.mcp[m.name] != m || s.ctx.Err() != nil:
		m.disconnect()
	default:
		m.status = "connected"
	}
	s.publish(event{Type: "mcp.status.changed", Location: &l.ref, Data: fields{"server": m.name}})
}

func (l *location) listMCP(*http.Request) (any, error) {
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(l.mcp)) {
		status := fields{"status": l.mcp[name].status}
		if l.mcp[name].status == "failed" {
			status["error"] = l.mcp[name].failure
		}
		out = append(out, fields{"name": name, "status": status})
	}
	return l.answer(out)
}

// addMCP answers when the server is connected, or was not in time: the same in both cases.
func (s *Server) addMCP(w http.ResponseWriter, r *http.Request) {
	in, err := read[struct{ Config *mcpConfig }](r)
	if err == nil && (in.Config == nil || in.Config.Type == "") {
		err = badRequest("config: expected an object")
	}
	s.mu.Lock()
	l, notHere := s.locate(r)
	s.mu.Unlock()
	if err := cmp.Or(err, notHere); err != nil {
		writeError(w, err)
		return
	}
	s.connect(l, r.PathValue("server"), *in.Config)
	w.WriteHeader(http.StatusNoContent)
}

func (l *location) mcpServer(r *http.Request) (*mcpServer, error) {
	name := r.PathValue("server")
	if l.mcp[name] == nil {
		return nil, notFound("McpServer", "server", name)
	}
	return l.mcp[name], nil
}

func (l *location) removeMCP(r *http.Request) (any, error) {
	m, err := l.mcpServer(r)
	if err == nil {
		m.disconnect()
		delete(l.mcp, m.name)
	}
	return nil, err
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// mcpTools are the tools of the directory's servers. Those of which a program would have to be written are left out.
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
				return m.call(t, each.Name, t.input)
			}
			all = append(all, tool)
		}
	}
	return all
}

// call calls a tool. Nothing in the call tells for which session.
func (m *mcpServer) call(t *toolCall, name string, input any) (result, error) {
	t.step.x.server.mu.Lock()
	session := m.session
	t.step.x.server.mu.Unlock()
	if session == nil {
		return result{}, failed("MCP server %s is not connected", m.name)
	}
	ctx, cancel := context.WithCancel(t.ctx)
	if limit := m.config.Timeout.Execution; limit > 0 { // Defaults to 12 hours
		ctx, cancel = context.WithTimeout(t.ctx, time.Duration(limit)*time.Millisecond)
	}
	defer cancel()
	answer, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: input})
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
