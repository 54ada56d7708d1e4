package scriptmodel_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// TestOpenCodePlaysTheScript is the proof that the wire format is right: the real OpenCode writes the file that the
// script tells it to write, and says what the script says. It would fail for a broken stream, for wrong tool call
// deltas and for a session that runs into a title request.
func TestOpenCodePlaysTheScript(t *testing.T) {
	t.Parallel()
	model := octest.Script(t, `
rules:
  - when: {kind: agent, first_user: greeting}
    replies:
      - text: I write the greeting.
        tool_calls: [{name: write, args: {filePath: docs/hello.txt, content: "hello, wörld\n"}}]
      - {status: 500}
      - text: The greeting is written.
`)
	dir := octest.Repo(t, map[string]string{"README.md": "# Sample\n"})
	cmd := exec.CommandContext(t.Context(), octest.Binary(t), "run", "Create the greeting")
	cmd.Dir, cmd.Env = dir, octest.Env(t, model.URL())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("opencode run: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "The greeting is written.") {
		t.Errorf("output has no final message:\n%s", out)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "docs/hello.txt")); string(got) != "hello, wörld\n" {
		t.Errorf("docs/hello.txt = %q, %v", got, err)
	}

	kinds := make(map[scriptmodel.Kind]int)
	for _, req := range model.Requests() {
		kinds[req.Kind()]++
		if !strings.HasPrefix(req.SessionID, "ses_") {
			t.Errorf("session id %q of a %s request", req.SessionID, req.Kind())
		}
	}
	// Two steps and the repetition of the one that failed; one title.
	if kinds[scriptmodel.KindAgent] != 3 || kinds[scriptmodel.KindTitle] != 1 {
		t.Errorf("requests by kind: %v", kinds)
	}
	if status := octest.Git(t, dir, "status", "--porcelain"); status != "?? docs/\n" {
		t.Errorf("OpenCode left more than the file: %q", status)
	}
}
