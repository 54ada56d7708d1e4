package opencode

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// defaultMCPTimeout is half of OpenCode's own: what waits for [Directory.AddMCP] waits for twice this at worst.
const defaultMCPTimeout = 15 * time.Second

// MCPConnected is the state of an MCP server whose tools agents have. One is "disabled" by the configuration or by
// [Directory.DisconnectMCP], "failed", or in another state if it wants a person to log in.
const MCPConnected = "connected"

// MCPServer is a server of tools that OpenCode is to use, over streamable HTTP.
type MCPServer struct {
	Name    string // makes the names of its tools, name_tool, with _ for what is not a letter, a digit, - or _
	URL     string
	Headers map[string]string
	// Timeout bounds each of the two ways in which OpenCode tries to connect, and later each call of a tool, which
	// then fails for the agent. Defaults to 15 s.
	Timeout time.Duration
}

// MCPStatus is how OpenCode gets on with an MCP server.
type MCPStatus struct {
	Status string `json:"status"` // such as [MCPConnected]
	Error  string `json:"error"`  // of a failed one
}

// AddMCP makes the tools of a server known in the directory, in the place of those of a server that had the name.
// Agents have them from their next step on, in sessions that exist too. Nothing is written into a configuration: a
// server that is restarted knows nothing of it. That OpenCode could not connect is an error.
//
// A call of such a tool is itself a matter of permission, under the tool's name and the pattern "*". When the MCP
// server has gone, turns are not held up, and calls fail at once.
func (d *Directory) AddMCP(ctx context.Context, server MCPServer) error {
	const op = "add MCP server"
	server.Timeout = cmp.Or(server.Timeout, defaultMCPTimeout)
	type config struct {
		Type    string            `json:"type"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers,omitempty"`
		OAuth   bool              `json:"oauth"` // else a refused token begins a login
		Timeout int64             `json:"timeout"`
	}
	body := struct {
		Name   string `json:"name"`
		Config config `json:"config"`
	}{server.Name, config{"remote", server.URL, server.Headers, false, server.Timeout.Milliseconds()}}
	var out map[string]MCPStatus
	err := d.call(ctx, request{
		op: op, method: http.MethodPost, path: "/mcp", in: body, out: &out,
		timeout: 2*server.Timeout + 5*time.Second, // a server that hangs is tried in two ways
	})
	if err != nil {
		return err
	}
	if s := out[server.Name]; s.Status != MCPConnected {
		return &Error{Op: op, Message: fmt.Sprintf("OpenCode could not connect to %s: %s",
			server.Name, cmp.Or(text.Short(s.Error, maxErrorMessage), s.Status))}
	}
	return nil
}

// DisconnectMCP takes the tools of a server away, from the next step of every agent on. OpenCode has no call that
// forgets a server: it stays among [Directory.MCPServers] as disabled. One that is not known is no error.
func (d *Directory) DisconnectMCP(ctx context.Context, name string) error {
	return ignoreNotFound(d.post(ctx, "disconnect MCP server", "/mcp/"+url.PathEscape(name)+"/disconnect", nil))
}

// MCPServers tells of the MCP servers that the directory knows, by their names. A connected one may have gone since.
func (d *Directory) MCPServers(ctx context.Context) (map[string]MCPStatus, error) {
	return get[map[string]MCPStatus](ctx, d, "list MCP servers", "/mcp", nil)
}
