package opencode_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
)

const mcpToken = "of the test"

// newToolServer is an MCP server with the tool echo, which wants mcpToken.
func newToolServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Says it again"},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Text string `json:"text"`
		}) (*mcp.CallToolResult, any, error) {
			if in.Text == "fail" {
				return nil, nil, errors.New("told to fail")
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "echo of " + in.Text}}}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+mcpToken {
			http.Error(w, "another token", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(served.Close)
	return served
}

// A session that was there before gets the tool, and loses it; another directory never has it; the agent reads what
// the tool answers, and its error; a server that went away holds nobody up.
func TestToolsOfAnMCPServerComeAndGo(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.TurnsSinceUser() == 0 && strings.Contains(r.LastUser(), "say ") {
			_, word, _ := strings.Cut(r.LastUser(), "say ")
			return call("test_echo", map[string]any{"text": word})
		}
		return scriptmodel.Reply{Text: "done"}
	})
	tools := newToolServer(t)
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	turn := func(text string, state opencode.ToolState, want string) {
		t.Helper()
		s.send(session.ID, text)
		said := ""
		for _, e := range await(s.ctx, t, sub, status(opencode.Idle)) {
			if tool(state)(e) {
				call := e.Payload.(opencode.PartUpdated).Part.Tool
				said += call.Output + call.Error
			}
		}
		if !strings.HasPrefix(said, want) || said == "" && state != "" {
			t.Errorf("%q came to %q, want %s with %q", text, said, state, want)
		}
	}
	turn("before", "", "")
	token := map[string]string{"Authorization": "Bearer " + mcpToken}
	good := opencode.MCPServer{Name: "test", URL: tools.URL, Headers: token}
	if err := s.dir.AddMCP(s.ctx, good); err != nil {
		t.Fatal(err)
	}
	turn("say hello", opencode.ToolCompleted, "echo of hello")
	turn("say fail", opencode.ToolError, "told to fail")
	other, err := s.dir.Client().In(octest.Repo(t, nil)).MCPServers(s.ctx)
	if err != nil || len(other) != 0 {
		t.Errorf("another directory has %v, %v", other, err)
	}
	if err := s.dir.DisconnectMCP(s.ctx, "test"); err != nil {
		t.Fatal(err)
	}
	known, err := s.dir.MCPServers(s.ctx)
	if err != nil || known["test"].Status != "disabled" {
		t.Errorf("after the end: %v, %v", known, err)
	}
	turn("after", "", "")
	var offered []bool // whether the model was offered the tool, for each request
	for _, r := range shared.model.Requests() {
		if strings.Contains(r.FirstUser(), s.mark) {
			offered = append(offered, slices.Contains(r.Tools, "test_echo"))
		}
	}
	if want := []bool{false, true, true, true, true, false}; !slices.Equal(offered, want) {
		t.Errorf("the tool was offered %v, want %v", offered, want)
	}
	if err := s.dir.AddMCP(s.ctx, good); err != nil { // once more, with the same name
		t.Fatal(err)
	}
	tools.Close()
	turn("say gone", opencode.ToolError, "")
}

func TestMCPServerThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps())
	tools := newToolServer(t)
	err := s.dir.AddMCP(s.ctx, opencode.MCPServer{Name: "refused", URL: tools.URL})
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without the token: %v", err)
	}
	hanging := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not seen
		hang(w, r)
	}))
	t.Cleanup(func() { hanging.CloseClientConnections(); hanging.Close() })
	err = s.dir.AddMCP(s.ctx, opencode.MCPServer{Name: "hanging", URL: hanging.URL, Timeout: 200 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("a server that hangs: %v", err)
	}
	known, err := s.dir.MCPServers(s.ctx)
	if err != nil || known["refused"].Status != "failed" || known["hanging"].Status != "failed" {
		t.Errorf("known: %v, %v", known, err)
	}
	if err := s.dir.DisconnectMCP(s.ctx, "nobody"); err != nil {
		t.Errorf("a server that was never there: %v", err)
	}
}
