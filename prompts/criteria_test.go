package prompts_test

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/golden"
	"github.com/bouldermgr/manager/prompts"
)

// What the criteria of a loop say in a brief and in continuations; without them nothing of it is said.
func TestCriteriaGolden(t *testing.T) {
	t.Parallel()
	in := input()
	in.SubTask.DoneWhen, in.SubTask.Lint = boulder.DoneWords(), []string{"go vet ./..."}
	in.SubTask.NoWorse = []string{"go test ./..."}
	turn := judgedTurn()
	brief := prompts.Build(in).Text
	missing := prompts.Continuation(in.SubTask, turn, prompts.Told{})
	turn.Evidence.Promised, turn.Evidence.NoServer, turn.Evidence.Diagnostics = true, true, nil
	turn.Evidence.Gates = []boulder.Gate{{Command: "go vet ./...", ExitCode: 1, Output: "a.go:3: unreachable code"}}
	given := prompts.Continuation(in.SubTask, turn, prompts.Told{}) + prompts.Forgotten([]string{"write tests"})
	golden.Compare(t, "criteria.md", strings.Join([]string{brief, missing, given}, "\n======\n\n"))

	if text := prompts.Forgotten(nil); text != "" {
		t.Errorf("nothing was forgotten: %q", text)
	}
	in.SubTask.DoneWhen = []string{boulder.DoneTests, boulder.DoneJudge}
	plain := prompts.Build(in).Text + prompts.Continuation(in.SubTask, turn, prompts.Told{})
	if strings.Contains(plain, "promise") || strings.Contains(plain, "language server") {
		t.Errorf("criteria that do not count are told of:\n%s", plain)
	}
}
