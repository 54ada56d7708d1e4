// Package examples runs the programs below it on the real OpenCode.
package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/managertest"
)

func agent(_ context.Context, r managertest.Request) managertest.Reply {
	switch {
	case r.Kind() == managertest.KindStructured:
		return managertest.Reply{JSON: map[string]any{
			"criteria":  []any{map[string]any{"id": "C1", "evidence": "the patch", "met": true}},
			"completed": true, "summary": "It is written.",
		}}
	case r.AssistantTurns() == 0:
		name := "hello.txt"
		if strings.Contains(r.FirstUser(), "bye.txt") {
			name = "bye.txt"
		}
		return managertest.Reply{ToolCalls: []managertest.ToolCall{
			{Name: "write", Args: map[string]any{"filePath": name, "content": "hello\n"}},
		}}
	}
	return managertest.Reply{Text: "All of it is done now."}
}

func TestPrograms(t *testing.T) {
	opencode, err := filepath.Abs("../tools/node_modules/.bin/opencode")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Dir(opencode) + string(os.PathListSeparator) + os.Getenv("PATH")
	// All use one home, so they run in sequence. The second finds OpenCode's cache and database ready.
	env := append(managertest.OpenCodeEnv(os.Environ(), t.TempDir(), managertest.StartModel(t, agent).URL()), "PATH="+path,
		"OPENCODE_SERVER=http://127.0.0.1:1")
	for program, test := range map[string]struct{ args, want string }{
		"front": {"Write hello.txt", "1 of 1 sub-tasks completed"},
		"parts": {"", "hello completed\nbye completed\ncompleted\n"},
		"look":  {"", "a watch continues a session at most: 100\nheld by: nobody\nblockers: 0 []\nno OpenCode server to watch\n"},
	} {
		dir, bin := t.TempDir(), filepath.Join(t.TempDir(), program)
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", bin, "./"+program).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := exec.CommandContext(t.Context(), "git", "-C", dir, "init", "--quiet").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.CommandContext(t.Context(), bin, strings.Fields(test.args)...)
		cmd.Dir, cmd.Env = dir, env
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
	}
}
