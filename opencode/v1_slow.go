package opencode

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

const (
	slowServers    = 5 * time.Second // to connect to MCP servers
	maxSlowServers = 5 * time.Minute
)

// tellSlowServers names the configured MCP servers that hold the first turn up. OpenCode 1.18.33 asks no model before each
// one has connected or failed, by default after 30 s; until then it does not say how they stand.
func (v v1) tellSlowServers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxSlowServers)
	defer cancel()
	config, err := get[struct {
		MCP map[string]struct{ Enabled *bool }
	}](ctx, v, "get configuration", "/config", nil)
	var names []string
	for name, server := range config.MCP {
		if server.Enabled == nil || *server.Enabled {
			names = append(names, name)
		}
	}
	if err != nil || len(names) == 0 {
		return
	}
	slices.Sort(names)
	began := time.Now()
	waits := time.AfterFunc(slowServers, func() {
		v.cfg.Slow("OpenCode is connecting to the MCP servers of its configuration (" + text.Short(strings.Join(names, ", "), 200) +
			"), and begins no turn before …")
	})
	var all map[string]MCPStatus
	err = v.call(ctx, request{op: "list MCP servers", method: http.MethodGet, path: "/mcp", out: &all, timeout: maxSlowServers})
	if waits.Stop() || err != nil { // in time
		return
	}
	var failed []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if s := all[name]; slices.Contains(names, name) && s.Status == "failed" {
			failed = append(failed, name+" failed: "+text.Short(s.Error, 200))
		}
	}
	if failed == nil {
		failed = names
	}
	v.cfg.Slow(fmt.Sprintf("MCP servers of OpenCode's configuration held the first turn up for %s: %s",
		time.Since(began).Round(time.Second), strings.Join(failed, "; ")))
}
