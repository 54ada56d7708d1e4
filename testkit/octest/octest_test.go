package octest_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/testkit/octest"
)

func TestFindPrefersTheVariable(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(octest.BinaryVar, sh)
	if got, err := octest.Find(); err != nil || got != sh {
		t.Errorf("Find() = %q, %v, want %q", got, err, sh)
	}
	t.Setenv(octest.BinaryVar, filepath.Join(t.TempDir(), "missing"))
	if _, err := octest.Find(); err == nil || !strings.Contains(err.Error(), "make tools") {
		t.Errorf("a missing binary: %v, want what to do", err)
	}
}

// TestEnvIsolates would fail if a key, a setting or a directory of the user reached an OpenCode under test.
func TestEnvIsolates(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENCODE_CONFIG", "XDG_DATA_HOME", "GIT_DIR", "PWD"} {
		t.Setenv(name, "/of/the/user")
	}
	t.Setenv("UNRELATED", "kept")
	env := octest.Env(t, "http://127.0.0.1:1/v1")
	if i := slices.IndexFunc(env, func(s string) bool { return strings.Contains(s, "/of/the/user") }); i >= 0 {
		t.Errorf("%s reached the environment", env[i])
	}
	if !slices.Contains(env, "UNRELATED=kept") {
		t.Error("an unrelated variable was dropped")
	}
	seen := make(map[string]bool)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if seen[name] {
			t.Errorf("%s is set twice", name)
		}
		seen[name] = true
		if name == "OPENCODE_CONFIG_CONTENT" && !json.Valid([]byte(value)) {
			t.Errorf("the configuration is not JSON: %s", value)
		}
	}
	for _, name := range []string{"HOME", "PATH", "XDG_DATA_HOME", "OPENCODE_CONFIG_CONTENT"} {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestRepoHasOneCommitOfTheFiles(t *testing.T) {
	t.Setenv("GIT_DIR", "/nowhere") // as in a git hook
	dir := octest.Repo(t, map[string]string{"a.txt": "a\n", "sub/b.txt": "b\n"})
	if got := octest.Git(t, dir, "ls-tree", "-r", "--name-only", "HEAD"); got != "a.txt\nsub/b.txt\n" {
		t.Errorf("files: %q", got)
	}
	if got := octest.Git(t, dir, "rev-list", "--count", "HEAD"); got != "1\n" {
		t.Errorf("commits: %q", got)
	}
	if got := octest.Git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("status: %q", got)
	}
	if got := octest.Git(t, octest.Repo(t, nil), "rev-list", "--count", "HEAD"); got != "1\n" {
		t.Errorf("commits of an empty repository: %q", got)
	}
}
