package opencode

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// defaultMCPTimeout is half of OpenCode's own: what waits for [API.AddMCP] waits for twice this at worst.
const defaultMCPTimeout = 15 * time.Second

// MCPConnected is the state of an MCP server whose tools agents have. One is "disabled" by the configuration or by
// [API.DisconnectMCP], "failed", or in another state if it wants the user to log in.
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

// wire is how OpenCode is told of the server, how long it may take to connect in one way, and in both with what goes
// around that.
func (s MCPServer) wire() (config map[string]any, limit, wait time.Duration) {
	config = map[string]any{"type": "remote", "url": s.URL, "oauth": false} // else a refused token begins a login
	if len(s.Headers) > 0 {
		config["headers"] = s.Headers
	}
	limit = cmp.Or(s.Timeout, defaultMCPTimeout)
	return config, limit, 2*limit + 5*time.Second
}

func notConnected(op, name string, s MCPStatus) error {
	return &Error{Op: op, Message: fmt.Sprintf("OpenCode could not connect to %s: %s",
		name, cmp.Or(text.Short(s.Error, maxErrorMessage), s.Status))}
}
