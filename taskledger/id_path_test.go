package taskledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/taskledger"
)

// Ids become names of directories: whatever could lead elsewhere, or cannot be a name, is refused with its line.
func TestIDsThatArePaths(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		"../x", "..", ".", "/etc/passwd", "a/b", `a\\b`, `C:\\x`, "C:x", "~root", "a b", "x.jsonl", "é",
		`\u202ex`, `a\u0000b`, `a\nb`,
		"-/../../x", "%2e%2e", strings.Repeat("x", 65), "",
	} {
		text := fmt.Sprintf("task: t\nsub_tasks:\n  - description: d\n    id: \"%s\"\n", id)
		_, err := taskledger.Parse("plan.yaml", []byte(text))
		if id == "" && err == nil {
			continue // filled in
		}
		if err == nil || !strings.Contains(err.Error(), "plan.yaml:4:") {
			t.Errorf("%q: %v", id, err)
		}
		text = fmt.Sprintf("task: t\nsub_tasks: [{id: a, description: d},"+
			" {id: b, description: d, depends_on: [\"%s\"]}]\n", id)
		if _, err := taskledger.Parse("plan.yaml", []byte(text)); err == nil {
			t.Errorf("depends_on %q was taken", id)
		}
	}
}
