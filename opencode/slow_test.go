package opencode_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// An MCP server that does not answer holds OpenCode's first turn up. It is named while that lasts, and afterwards.
func TestSlowMCPServersAreNamed(t *testing.T) {
	t.Parallel()
	model := octest.Model(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		return scriptmodel.Reply{Text: "All of it is done now."}
	})
	dir := octest.Repo(t, map[string]string{"opencode.json": `{"mcp": {
		"stuck": {"type": "local", "command": ["sleep", "100"], "timeout": 7000},
		"ends": {"type": "local", "command": ["false"]},
		"off": {"type": "local", "command": ["sleep", "100"], "enabled": false}}}`})
	server, err := octest.ServeWith(octest.Binary(t), dir, octest.Env(t, model.URL()), "0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	told := make(chan string, 9)
	c, err := opencode.Attach(t.Context(), server.URL, opencode.AttachConfig{Slow: func(text string) { told <- text }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d := c.In(dir)
	s, err := d.CreateSession(t.Context(), opencode.NewSession{Title: "slow"})
	for range 2 { // it is told once
		if err == nil {
			err = d.Prompt(t.Context(), s.ID, opencode.Prompt{Text: "Do it.", MessageID: opencode.NewMessageID(time.Now())})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	first, second := <-told, <-told
	if !strings.Contains(first, "(ends, stuck), and begins no turn before") {
		t.Error(first)
	}
	if !strings.Contains(second, "held the first turn up for ") || !strings.Contains(second, "stuck failed: Operation timed out after 7000ms") ||
		strings.Contains(second, "off") {
		t.Error(second)
	}
}
