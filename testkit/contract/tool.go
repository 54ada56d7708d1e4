package contract

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

const anotherToken = "another token" // 2.0.14 tells the body of a refusal, without its status

var mcpHeaders = map[string]string{"Authorization": "Bearer of the contract"}

// toolServer is an MCP server with the tools echo and todo, for requests with the token.
func (s *scene) toolServer() (url string, end func()) {
	server := mcp.NewServer(&mcp.Implementation{Name: "contract", Version: "1"}, nil)
	type input struct {
		Text  string          `json:"text,omitempty"`
		Todos []opencode.Todo `json:"todos,omitempty"`
	}
	for _, name := range []string{"echo", "todo"} {
		mcp.AddTool(server, &mcp.Tool{Name: name, Description: "Says what it was told"},
			func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
				if in.Text == "fail" {
					return nil, nil, errors.New("told to fail")
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " of " + in.Text}}}, nil, nil
			})
	}
	tools := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != mcpHeaders["Authorization"] {
			http.Error(w, anotherToken, http.StatusUnauthorized)
			return
		}
		tools.ServeHTTP(w, r)
	}))
}

func mcpTools(s *scene) {
	s.model(func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if _, word, ok := strings.Cut(r.LastUser(), "say "); ok && r.TurnsSinceUser() == 0 {
			return scriptmodel.Call("contract_echo", map[string]any{"text": word})
		}
		return scriptmodel.Reply{Text: "done"}
	})
	session, sub := s.newSession()
	said := func(state opencode.ToolState, text string) string {
		all := ""
		s.send(session, text)
		for _, e := range s.idle(sub, session) {
			if Tool(state)(e) {
				call := e.Payload.(opencode.PartUpdated).Part.Tool
				all += call.Output + call.Error
			}
		}
		return all
	}
	said("", "before")
	url, end := s.toolServer()
	server := opencode.MCPServer{Name: "contract", URL: url, Headers: mcpHeaders}
	s.must(s.dir.AddMCP(s.ctx, server))
	offered := func() (in []bool) {
		for _, r := range s.asked() {
			in = append(in, slices.Contains(r.Tools, "contract_echo"))
		}
		return in
	}
	s.eventually("the tool is offered", func() bool { // in 2.0.14 some 100 ms after the server counts as connected
		said("", "look")
		return slices.Contains(offered(), true)
	})
	before := slices.Index(offered(), true)
	got := said(opencode.ToolCompleted, "say hello")
	s.want(strings.HasPrefix(got, "echo of hello"), "the tool answered %q", got)
	got = said(opencode.ToolError, "say fail")
	s.want(strings.Contains(got, "told to fail"), "the tool failed with %q", got)
	for _, action := range []opencode.Action{opencode.Deny, opencode.Allow} {
		s.must(s.dir.AddRules(s.ctx, session, opencode.Rule{Permission: "contract_echo", Pattern: "*", Action: action}))
		said("", string(action))
	}
	other, err := s.dir.Client().In(s.suite.home).MCPServers(s.ctx)
	s.want(err == nil && other["contract"].Status == "", "another directory has it: %v", err)
	s.must(s.dir.DisconnectMCP(s.ctx, "contract"))
	known, err := s.dir.MCPServers(s.ctx)
	s.want(err == nil && known["contract"].Status != opencode.MCPConnected, "after the end: %+v, %v", known, err)
	gone := len(offered())
	s.eventually("the tool is not offered any more", func() bool { // as late as it came
		said("", "after")
		all := offered()
		return !all[len(all)-1]
	})
	s.want(slices.Equal(offered()[before:gone], []bool{true, true, true, true, true, false, true}),
		"in the calls of the model the tool was offered: %v", offered())
	s.must(s.dir.AddMCP(s.ctx, server)) // again, with the same name
	end()
	s.want(said(opencode.ToolError, "say gone") != "", "a call of a server that has gone does not fail")
}

func badMCP(s *scene) {
	url, _ := s.toolServer()
	err := s.dir.AddMCP(s.ctx, opencode.MCPServer{Name: "refused", URL: url})
	s.want(err != nil && slices.ContainsFunc([]string{"401", "Unauthorized", anotherToken}, func(said string) bool {
		return strings.Contains(err.Error(), said)
	}), "without the token: %v", err)
	url, _ = s.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-s.ctx.Done() }))
	err = s.dir.AddMCP(s.ctx, opencode.MCPServer{Name: "hanging", URL: url, Timeout: 200 * time.Millisecond})
	s.want(err != nil && strings.Contains(err.Error(), "timed out"), "a server that hangs: %v", err)
	known := must(s.dir.MCPServers(s.ctx))
	for _, name := range []string{"refused", "hanging"} {
		s.want(known[name].Status == "failed", "known are %+v", known)
	}
	s.must(s.dir.DisconnectMCP(s.ctx, "nobody"))
}
