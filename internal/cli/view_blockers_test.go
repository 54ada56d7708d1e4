package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// The looking commands say what waits, and that an answer comes first.
func TestLookAtBlockers(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.PlayBlocked()
	s.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "sub-task \"theme\" waits"})
	project := s.store()
	for _, test := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"status"}, exitOK, []string{
			"1 hard blocker waits for an answer · 1 choice can still be changed: manager blockers clarify\n",
			"Answer first, then continue with: manager resume " + sampleID,
		}},
		{[]string{"status", "--json"}, exitOK, []string{
			`"waiting_blockers":{"hard":1,"asks":0,"soft":1}`, `"blockers":[{"id":"B1","attempt":1,"blocks_progress":true,`,
		}},
		{[]string{"show"}, exitOK, []string{
			"  blocker: B1 (hard): Which key signs the theme 主题? The old one is weak.\n",
			"  blocker: B2 (soft): Variables or classes?; chosen for now: CSS variables\n",
		}},
		{[]string{"show", "--why", "theme"}, exitOK, []string{
			"hard blocker B1 (security)", "answer with: manager blockers clarify; no process runs it",
		}},
		{[]string{"wait"}, exitWaiting, []string{
			"answer with: manager blockers clarify; then continue with: manager resume " + sampleID,
		}},
		{[]string{"wait", "--for", "blocked"}, exitOK, []string{`Blocked: "theme"`}},
	} {
		expect(t, project, test.code, test.args, test.says...)
	}
}

// No answer is left on the way when -o fails, and nothing that is there is written over.
func TestBlockersExportToAFile(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	file := project + "/night.md"
	for _, test := range []answerCase{
		{[]string{"-o", "night.md"}, exitOK, "Exported 4 blockers to"},
		{[]string{"-o", "night.md"}, exitUsage, "night.md is there already, and is not overwritten"},
		{[]string{"-o", "night.md", "--force", "--hard"}, exitOK, "Exported 2 blockers to"},
		{[]string{"-o", ".manager"}, exitUsage, "is there already"},
		{[]string{"-o", "none/night.md"}, exitError, "no such file"},
		{[]string{"-o", "data.jsonl"}, exitOK, "Exported 4 blockers to"},
		{[]string{"-o", "data.md", "--json"}, exitOK, ""},
		{[]string{"--force"}, exitUsage, "--force is for the file of -o"},
	} {
		expect(t, project, test.code, append([]string{"blockers", "export"}, test.args...), test.says)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), "# Blockers\n\n2 blockers, 2 of them without an answer.") {
		t.Errorf("%v: %s", err, text)
	}
	for name, begins := range map[string]string{"data.jsonl": `{"type":"blocker-record","id":"B1",`, "data.md": "# Blockers\n"} {
		if text, err := os.ReadFile(filepath.Join(project, name)); err != nil || !strings.HasPrefix(string(text), begins) {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
	if left, err := os.ReadDir(project); err != nil || len(left) != 5 { // .manager, blockers.md, night.md and those two
		t.Errorf("left behind: %v, %v", left, err)
	}
}
