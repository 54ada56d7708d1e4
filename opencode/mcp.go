package opencode

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// defaultMCPTimeout is half of OpenCode's own, since [API.AddMCP] may wait for twice this.
const defaultMCPTimeout = 15 * time.Second

// MCPConnected is the status of an MCP server whose tools agents have. Others are "disabled" (by the configuration or
// [API.DisconnectMCP]), "failed", and those that ask the user to log in.
const MCPConnected = "connected"

// MCPServer is an MCP server that OpenCode is to use, over streamable HTTP.
type MCPServer struct {
	Name    string // prefix of its tools' names, name_tool; characters other than letters, digits, - and _ become _
	URL     string
	Headers map[string]string
	// Timeout bounds each of OpenCode's two ways to connect, and each tool call, which then fails. Defaults to 15 s.
	Timeout time.Duration
}

// MCPStatus is the state of an MCP server in OpenCode.
type MCPStatus struct {
	Status string `json:"status"` // such as [MCPConnected]
	Error  string `json:"error"`  // if it failed
}

// wire returns the configuration for OpenCode, the limit for one way to connect, and the wait for both, with overhead.
func (s MCPServer) wire() (config map[string]any, limit, wait time.Duration) {
	config = map[string]any{"type": "remote", "url": s.URL, "oauth": false} // otherwise a refused token starts a login
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
