package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/config"
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

// The configuration reaches the desk, and what makes no sense is refused with its name.
func TestBlockersConfig(t *testing.T) {
	t.Parallel()
	c, err := config.Load(true, configFile(t, `
blockers:
  enabled: true
  file: docs/night.md
  max_per_session: 7
  cooldown: off
  questions: ask
  wait: 5m
  permissions:
    - {permission: bash, pattern: "git push *", action: ask, wait: 30m}
    - {permission: edit, action: allow}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Blockers.Desk("/p")
	want := blockers.Config{
		Root: "/p", File: "docs/night.md", Enabled: true, Max: 7, Cooldown: -1,
		Policy: blockers.Policy{
			Questions: blockers.AskMe, Wait: 5 * time.Minute,
			Permissions: []blockers.Rule{
				{Permission: "bash", Pattern: "git push *", Action: blockers.AskMe, Wait: 30 * time.Minute},
				{Permission: "edit", Action: blockers.Allow},
			},
		},
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for text, says := range map[string]string{
		"file: ../night.md": "has to be in the project", "file: /tmp/b.md": "has to be in the project",
		"file: .manager/b.md": "is not for people to edit", "max_per_session: 0": "blockers.max_per_session must be at least 1",
		"questions: allow": `questions: "allow" is none of deny, ask`, "enabled: maybe": "must be true or false",
		"wait: 0s": "must be a duration", "cooldown: soon": "must be a duration of more than 0 as 90s, 10m or 1h30m, or off",
		"permissions: [{permission: bash, action: maybe}]":          `permissions[0]: action "maybe" is none of allow`,
		"permissions: [{permission: bash}]":                         `permissions[0]: action "" is none of`,
		"permissions: [{action: deny}]":                             "permissions[0]: it names no permission",
		"permissions: [{permission: a, action: deny, wait: 1m}]":    "only an ask waits",
		"permission: [{permission: a, action: deny, pattern: b}]":   "permission",
		"permissions: [{permission: a, action: deny, patern: bla}]": "patern",
	} {
		if _, err := config.Load(true, configFile(t, "blockers: {"+text+"}")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
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
