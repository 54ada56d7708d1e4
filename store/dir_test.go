package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEnsureDir(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	ignore := filepath.Join(project, DirName, ".gitignore")
	for _, content := range []string{"*\n", "*\n!plan.yaml\n"} {
		dir, err := EnsureDir(project)
		if err != nil || dir != filepath.Join(project, ".manager") {
			t.Fatalf("%q, %v", dir, err)
		}
		if got, err := os.ReadFile(ignore); string(got) != content {
			t.Errorf(".gitignore is %q, %v", got, err)
		}
		// The user's changes to the file stay; a mode that was widened is narrowed again.
		if err := errors.Join(os.WriteFile(ignore, []byte("*\n!plan.yaml\n"), 0o600), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := EnsureDir(project); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Dir(ignore)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestEnsureDirRefuses(t *testing.T) {
	t.Parallel()
	file, link, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(file, DirName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(link, DirName)); err != nil {
		t.Fatal(err)
	}
	for name, project := range map[string]string{"file": file, "link": link, "missing": filepath.Join(file, "none")} {
		_, err := EnsureDir(project)
		if err == nil || !strings.Contains(err.Error(), filepath.Join(project, DirName)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(elsewhere); len(left) != 0 || err != nil {
		t.Errorf("the link was followed: %v, %v", left, err)
	}
}
