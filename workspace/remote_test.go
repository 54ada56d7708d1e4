package workspace_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/workspace"
)

// A push is atomic and can be repeated, and applies only if the refs are where the caller expects them.
func TestPush(t *testing.T) {
	t.Parallel()
	l := newLine(t, "a.txt", "1\n")
	one := strings.TrimSpace(l.git("rev-parse", "HEAD"))
	l.write("a.txt", "2\n")
	l.git("commit", "-aqm", "two")
	l.git("tag", "-am", "annotated", "v2")
	l.git("config", "push.followTags", "true")
	l.write(".git/hooks/pre-push", "#!/bin/sh\nexit 1\n")
	l.git("config", "core.hooksPath", ".git/hooks")
	two := strings.TrimSpace(l.git("rev-parse", "HEAD"))
	bare := filepath.Join(t.TempDir(), "bare.git")
	l.git("init", "-q", "--bare", bare)
	const x, y = "refs/manager/b/x/1", "refs/manager/b/y/1"
	type moves = []workspace.RefMove
	for i, step := range []struct {
		moves moves
		moved bool // by another process: ErrMoved
		want  map[string]string
	}{
		{moves{{x, "", one}}, false, map[string]string{x: one}},
		{moves{{x, "", one}}, false, map[string]string{x: one}},
		{moves{{x, "", two}}, true, map[string]string{x: one}},
		{moves{{y, "", two}, {x, two, one}}, false, map[string]string{x: one, y: two}},
		{moves{{y, two, one}, {x, two, ""}}, true, map[string]string{x: one, y: two}},
		{moves{{x, one, two}}, false, map[string]string{x: two, y: two}},
		{moves{{x, two, ""}, {y, two, ""}}, false, map[string]string{}},
	} {
		err := l.slots.Push(t.Context(), bare, step.moves...)
		if errors.Is(err, workspace.ErrMoved) != step.moved || err != nil && !step.moved {
			t.Errorf("push %d: %v", i, err)
		}
		got, err := l.slots.Remote(t.Context(), bare, "*")
		if err != nil || fmt.Sprint(got) != fmt.Sprint(step.want) {
			t.Errorf("after push %d: %v, %v; want %v", i, got, err, step.want)
		}
	}
}
