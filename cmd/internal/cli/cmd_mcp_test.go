package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/internal/orphan"
)

// mcpClient connects to a command that serves tools in the project.
func mcpClient(t *testing.T, project string, env []string, args ...string) (*mcp.ClientSession, *exec.Cmd) {
	t.Helper()
	cmd := manager(t, project, env, args...)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session, cmd
}

// reportBlocker calls the tool and returns the text that an agent reads.
func reportBlocker(t *testing.T, session *mcp.ClientSession, arguments map[string]any) (text string, failed bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: mcptool.ToolName, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

func hardBlocker(question string) map[string]any {
	return map[string]any{
		"category": "security", "question": question, "context": "A token is in the fixtures.", "blocks_progress": true,
	}
}

// The tool is served over stdin and stdout, even while another process holds the database. It is off until switched on,
// here for one session, which is named after the client.
func TestMCP(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	openState(t, project)
	env := append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME=")
	session, cmd := mcpClient(t, project, env, "blockers", "mcp")
	if text, failed := reportBlocker(t, session, hardBlocker("Off?")); failed || text != mcptool.Off {
		t.Errorf("while it is off: %v %q", failed, text)
	}
	register := registerOfProject(t, project)
	if all, err := register.List(t.Context(), blockers.Filter{}); err != nil || len(all) != 0 {
		t.Errorf("recorded while it is off: %v, %v", all, err)
	}
	if code, _, stderr := run(t, project, env, "blockers", "on"); code != 0 {
		t.Fatalf("on: %d %s", code, stderr)
	}
	if text, failed := reportBlocker(t, session, hardBlocker("May it stay?")); failed || text != mcptool.Registered {
		t.Errorf("it was told %v %q", failed, text)
	}
	all, err := register.List(t.Context(), blockers.Filter{})
	if err != nil || len(all) != 1 || !all[0].Hard || all[0].SessionID != fmt.Sprintf("test-%d", cmd.Process.Pid) {
		t.Errorf("recorded: %+v, %v", all, err)
	}
	if err := session.Close(); err != nil { // waits for the end of the process
		t.Errorf("it ended with %v", err)
	}
	list, err := os.ReadFile(filepath.Join(project, blockers.DefaultFile))
	if err != nil || !strings.Contains(string(list), "May it stay?") {
		t.Errorf("blockers.md holds %q, %v", list, err)
	}
}

// `manager mcp` prints only the protocol on stdout, ends with its input, and refuses agents of a run.
func TestMCPForOtherAgents(t *testing.T) {
	t.Parallel()
	project, env := t.TempDir(), append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME=")
	session, _ := mcpClient(t, project, env, "mcp")
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 12 {
		t.Errorf("%+v, %v", tools, err)
	}
	none, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "blockers"})
	if err != nil || none.IsError || none.Content[0].(*mcp.TextContent).Text != "none" {
		t.Errorf("%+v, %v", none, err)
	}
	if err := session.Close(); err != nil { // waits for the end of the process
		t.Errorf("it ended with %v", err)
	}
	code, stdout, stderr := run(t, project, append(env, orphan.Variable+"=x"), "mcp")
	if code != exitUsage || stdout != "" || !strings.Contains(stderr, "an agent of a run cannot hand tasks over") {
		t.Errorf("within a run: %d %s%s", code, stdout, stderr)
	}
}
