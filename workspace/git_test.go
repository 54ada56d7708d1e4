package workspace

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCancelLeavesNoLock: a cancelled git command removes its lock. A stale one would refuse all later commands.
func TestCancelLeavesNoLock(t *testing.T) {
	t.Parallel()
	g := git{dir: t.TempDir()}
	if out, err := exec.Command("git", "init", "-q", g.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, send := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error)
	go func() { ended <- g.run(ctx, in, out, "update-ref", "--stdin") }()
	empty, err := g.line(t.Context(), "hash-object", "-w", "-t", "tree", os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	// refs outside of refs/heads may point at anything
	if _, err := io.WriteString(send, "start\ncreate refs/manager/a "+empty+"\nprepare\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(answers, make([]byte, len("start: ok\nprepare: ok\n"))); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(g.dir, ".git", "refs", "manager", "a.lock")
	if _, err := os.Stat(lock); err != nil {
		t.Fatal(err)
	}
	cancel()
	send.Close()
	if err := <-ended; err == nil {
		t.Error("it was not cancelled")
	}
	if _, err := os.Stat(lock); !os.IsNotExist(err) {
		t.Errorf("the lock is still there: %v", err)
	}
}

// A repository of another user is refused by git. The reason names the command with which the user trusts it.
func TestReasonNamesTheCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w := &Workspace{git: git{dir: dir, env: []string{"GIT_TEST_ASSUME_DIFFERENT_OWNER=1"}}}
	if err := w.locate(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = "; if you trust it: git config --global --add safe.directory "
	if !strings.Contains(w.reason, "dubious ownership") || !strings.Contains(w.reason, want) {
		t.Errorf("the reason is %q", w.reason)
	}
}
