package executor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// Neither transcripts nor brief files are written through a .manager that links out of the project.
func TestPlantedLinks(t *testing.T) {
	t.Parallel()
	for _, planted := range []string{".manager", ".manager/runs", ".manager/runs/b", ".manager/runs/b/x"} {
		project, outside := t.TempDir(), t.TempDir()
		link := filepath.Join(project, planted)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(outside, link)); err != nil {
			t.Fatal(err)
		}
		tu := plainTurn(project, filepath.Join(project, ".manager/runs/b/x/output.md"))
		if err := tu.writeFiles(); err == nil {
			t.Errorf("%s: the brief's file was written", planted)
		}
		if err := tu.writeRun("b/x/1.jsonl", nil); err == nil {
			t.Errorf("%s: a transcript was written", planted)
		}
		if left, err := os.ReadDir(outside); len(left) > 0 || err != nil {
			t.Errorf("%s was followed: %v, %v", planted, left, err)
		}
	}
}

// Brief files outside .manager/runs, and ids that are not plain names, are refused.
func TestPathTricks(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	for _, path := range []string{
		"/etc/manager-test", filepath.Join(project, "hello.txt"), filepath.Join(project, ".manager/plan.yaml"),
		project + "/.manager/runs/b/../../x.md", project + "/.manager/runs", "",
	} {
		if err := plainTurn(project, path).writeFiles(); err == nil {
			t.Errorf("%q was written", path)
		}
	}
	for _, id := range []string{"", ".", "..", "../x", "a/b", "/x", "a\x00b", `a\b`} {
		for _, ids := range [][]string{{id, "x"}, {"b", id}} {
			if err := checkIDs(ids...); !errors.Is(err, boulder.ErrFatal) {
				t.Errorf("%q: %v", ids, err)
			}
		}
	}
	if err := checkIDs("01k5zj8q4m7v3x2n6t9r1b0c5d", "a-b_C9"); err != nil {
		t.Error(err)
	}
}

func plainTurn(project string, files ...string) *turn {
	tu := bare(Config{Project: project}).newTurn(boulder.Job{}, nil)
	for _, path := range files {
		tu.job.Files = append(tu.job.Files, boulder.File{Path: path, Text: "whole"})
	}
	return tu
}

// Texts are redacted before they are cut, so that a cut leaves no half of a secret.
func TestMessagesAreCleanBeforeTheyAreCut(t *testing.T) {
	t.Parallel()
	const key = "planted/key+of 40 characters in length!!"
	tu := plainTurn(t.TempDir())
	tu.cfg.Redact = secret.New([]string{"MY_TOKEN=" + key})
	long := func(n int) string { return strings.Repeat("x", n) }
	m := redacted(tu.Executor, opencode.Message{
		Info: opencode.MessageInfo{Role: opencode.RoleAssistant, Error: &opencode.TurnError{Message: key, Body: key}},
		Parts: []opencode.Part{
			{Type: opencode.PartText, Text: long(session.MaxWords-20) + key},
			{Type: opencode.PartTool, Tool: &opencode.ToolCall{
				Title: long(180) + key, Input: []byte(`{"command":"` + long(480) + key + `"}`), Error: key,
				Output: key + long(480), Metadata: []byte(`{"diff":"` + key + `"}`), State: opencode.ToolCompleted,
			}},
		},
	})
	var r reading
	tu.readMessage(&r, m, true)
	e := r.evidence
	all := e.FinalMessage + e.ToolCalls[0].Title + e.ToolCalls[0].Input + e.ToolCalls[0].Output + m.Info.Error.Message +
		m.Info.Error.Body + string(m.Parts[1].Tool.Metadata) + m.Parts[1].Tool.Error
	if strings.Contains(all, "planted") || strings.Contains(all, "length") {
		t.Errorf("left: %q", strings.ReplaceAll(all, "xxxxxxxxxx", ""))
	}
	if n := strings.Count(all, "[redacted]"); n < 4 {
		t.Errorf("%d marks", n)
	}
	_, err := tu.Run(t.Context(), boulder.Job{BoulderID: key}, nil)
	if !errors.Is(err, boulder.ErrFatal) || strings.Contains(err.Error(), "planted") {
		t.Errorf("%v", err)
	}
}
