package statedir_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// A umask is one of the whole process, so each is tried in a process of its own.
func TestModesWhateverTheUmask(t *testing.T) {
	const mask = "STATEDIR_TEST_UMASK"
	if text := os.Getenv(mask); text != "" {
		n, err := strconv.ParseInt(text, 8, 32)
		if err != nil {
			t.Fatal(err)
		}
		syscall.Umask(int(n))
		checkModes(t, os.Getenv(mask+"_DIR"))
		return
	}
	for _, umask := range []string{"0", "0777", "077", "0022"} {
		t.Run(umask, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestModesWhateverTheUmask$", "-test.v")
			cmd.Env = append(os.Environ(), mask+"="+umask, mask+"_DIR="+t.TempDir())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func checkModes(t *testing.T, project string) {
	t.Helper()
	d := open(t, project, ".manager", "runs")
	if err := d.Write("b/x/1.jsonl", []byte("x")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(filepath.Join(project, ".manager"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
