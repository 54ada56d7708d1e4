package statedir_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/internal/statedir"
)

const runs = ".manager/runs/"

func TestWrite(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	for _, text := range []string{"one", "two"} {
		if err := statedir.Write(project, runs+"b/x/request.md", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(project, ".manager/runs/b/x/request.md")); string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	only(t, filepath.Join(project, ".manager/runs/b/x"), "request.md")
	if err := statedir.Write(project, runs+"b/x", nil); err == nil {
		t.Error("a file took the place of a directory")
	}
	only(t, filepath.Join(project, ".manager/runs/b"), "x")
}

func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	got, err := fs.Glob(os.DirFS(dir), "*")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s holds %v, %v, want %v", dir, got, err, want)
	}
}

// A link anywhere in the path is refused, whether it leads outside, to nothing, or within the project.
func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, planted := range []string{".manager", ".manager/runs", ".manager/runs/b", ".manager/runs/b/x"} {
		for _, target := range []string{"outside", "missing", "inside"} {
			project, outside := t.TempDir(), t.TempDir()
			to := map[string]string{
				"outside": outside, "missing": filepath.Join(outside, "none"), "inside": filepath.Join(project, "src"),
			}[target]
			link := filepath.Join(project, planted)
			if err := errors.Join(os.Mkdir(filepath.Join(project, "src"), 0o700), os.MkdirAll(filepath.Dir(link), 0o700),
				os.Symlink(to, link)); err != nil {
				t.Fatal(err)
			}
			if err := statedir.Write(project, runs+"b/x/1.jsonl", []byte("written")); err == nil {
				t.Errorf("%s -> %s was followed", planted, target)
			}
			only(t, outside)
			only(t, filepath.Join(project, "src"))
		}
	}
}

// TestLinkOfAFileIsReplaced: a link in place of the file is replaced, and its target stays unchanged.
func TestLinkOfAFileIsReplaced(t *testing.T) {
	t.Parallel()
	project, outside := t.TempDir(), t.TempDir()
	precious := filepath.Join(outside, "bashrc")
	if err := os.WriteFile(precious, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(project, ".manager", "plan.yaml")
	if err := os.Mkdir(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{precious, filepath.Join(outside, "none")} {
		_ = os.Remove(name)
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
		if err := statedir.Write(project, ".manager/plan.yaml", []byte("plan")); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%v, %v", info, err)
		}
	}
	if got, _ := os.ReadFile(precious); string(got) != "mine" {
		t.Errorf("the file behind the link is %q", got)
	}
	only(t, outside, "bashrc")
}

func TestNamesThatLeadOut(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	for _, name := range []string{
		"../x", "b/../../x", "/tmp/x", "", ".", "..", "b/x\x00y/1.jsonl", strings.Repeat("long", 100) + "/1.jsonl",
	} {
		if err := statedir.Write(project, runs+name, []byte("x")); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	only(t, project, ".manager")
	only(t, filepath.Join(project, ".manager"), "runs")
}

func TestNoProject(t *testing.T) {
	t.Parallel()
	if _, err := statedir.Open(filepath.Join(t.TempDir(), "none"), ".manager"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestModesWhateverTheUmask: a umask holds for the whole process, so each is tried in its own.
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
	if err := statedir.Write(project, runs+"b/x/1.jsonl", []byte("x")); err != nil {
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

// An existing file keeps its mode. Irregular files are refused with ErrIrregular: the caller may write to a pipe.
func TestReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	for _, ifNew := range []fs.FileMode{0o644, 0o600} {
		if err := statedir.Replace(file, nil, ifNew); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o644 {
			t.Errorf("new files should have %v: %v, %v", ifNew, info.Mode(), err)
		}
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := statedir.Replace(pipe, nil, 0o644); !errors.Is(err, statedir.ErrIrregular) {
		t.Error(err)
	}
	only(t, dir, "file", "pipe")
}
