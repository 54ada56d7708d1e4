// Package octest lets tests and benchmarks use the real OpenCode: the pinned binary, an environment isolated from the
// user's, with a scripted model only, and small git repositories.
//
// One OpenCode process takes about 600 MB: a package with many tests starts one server in TestMain, and gives each test
// its own repository. The model's handler tells tests apart by their prompts.
package octest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// BinaryVar is the environment variable that names another OpenCode binary to test with.
const BinaryVar = "MANAGER_TEST_OPENCODE"

// Find returns the absolute path of the OpenCode to test with: that of [BinaryVar], or the one pinned in tools/.
func Find() (string, error) {
	path := os.Getenv(BinaryVar)
	if path == "" {
		_, self, _, ok := runtime.Caller(0)
		if !ok || !filepath.IsAbs(self) {
			return "", fmt.Errorf("cannot locate tools/ in a build with -trimpath: set %s to an OpenCode binary", BinaryVar)
		}
		path = filepath.Join(filepath.Dir(self), "../../tools/node_modules/.bin/opencode")
	}
	path, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("no OpenCode to test with: run make tools, or set %s: %w", BinaryVar, err)
	}
	return filepath.Abs(path)
}

// Binary is [Find] for one test. A missing binary fails the test: skipping would hide that nothing was tested.
func Binary(tb testing.TB) string {
	tb.Helper()
	path, err := Find()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Env returns the whole environment of a process that may start OpenCode: isolated below a temporary directory, with
// the model server at modelURL as the only provider, and [Lean]. See [scriptmodel.OpenCodeEnv]. The directory is
// removed when the test ends: stop processes in cleanups registered after this call. Such an OpenCode lives for a few
// turns, and collects no garbage: 40 % less CPU time, for 40 MB a turn (measured).
func Env(tb testing.TB, modelURL string) []string {
	tb.Helper()
	return append(Lean(scriptmodel.OpenCodeEnv(os.Environ(), tb.TempDir(), modelURL)), "BUN_JSC_useGC=0")
}

// Lean turns off snapshots in env, in place: half the cost of a short turn, and only project/internal/watch reads them.
func Lean(env []string) []string {
	for i := range env {
		env[i] = strings.Replace(env[i], `"share":"disabled"`, `"share":"disabled","snapshot":false`, 1)
	}
	return env
}

// Model starts a scripted model for one test.
func Model(tb testing.TB, handler scriptmodel.Handler) *scriptmodel.Server {
	tb.Helper()
	server, err := scriptmodel.Start(handler)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Close)
	return server
}

// Script is [Model] for a YAML script.
func Script(tb testing.TB, script string) *scriptmodel.Server {
	tb.Helper()
	parsed, err := scriptmodel.ParseScript([]byte(script))
	if err != nil {
		tb.Fatal(err)
	}
	return Model(tb, parsed.Reply)
}

// Repo makes a git repository in a temporary directory and returns its path. It has one commit of files (content by
// slash-separated path), and an author for further ones.
func Repo(tb testing.TB, files map[string]string) string {
	tb.Helper()
	dir, err := filepath.EvalSymlinks(tb.TempDir()) // OpenCode and git report resolved paths; macOS has /tmp behind a link
	if err != nil {
		tb.Fatal(err)
	}
	commit(tb, dir, files)
	return dir
}

func commit(tb testing.TB, dir string, files map[string]string) {
	tb.Helper()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	Git(tb, dir, "init", "--quiet", "--initial-branch=main")
	Git(tb, dir, "config", "user.name", "Test")
	Git(tb, dir, "config", "user.email", "test@example.com")
	Git(tb, dir, "config", "commit.gpgsign", "false")
	Git(tb, dir, "add", "--all")
	Git(tb, dir, "commit", "--quiet", "--allow-empty", "--message", "Start")
}

// Git runs git in dir without the configuration of user, machine or a hook's GIT_ variables, and returns its output.
func Git(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// CheckLeaks returns the exit code of a TestMain: code, or 1 if its tests passed but left goroutines.
func CheckLeaks(code int) int {
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
