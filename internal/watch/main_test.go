package watch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// patience bounds every wait for the real server, which shares two cores with other tests.
const patience = 3 * time.Minute

// shared is the real server of the tests, each of which has a repository for itself while it runs.
var shared fixture

func TestMain(m *testing.M) {
	octest.Guard()
	code := m.Run()
	shared.close()
	os.Exit(octest.CheckLeaks(code))
}

// fixture is a model whose answers each test chooses, and a server that uses it.
type fixture struct {
	once   sync.Once
	err    error
	home   string
	model  *scriptmodel.Server
	server *octest.Server

	cast octest.Cast

	mu   sync.Mutex
	made int      // repositories
	free []string // those among them that no test uses now
}

// repository gives a test a repository that no other test uses at the same time. OpenCode takes two seconds of a
// processor for the first session in one: they are used again, see [world.leave].
func (f *fixture) repository(t *testing.T) string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.free); n > 0 {
		dir := f.free[n-1]
		f.free = f.free[:n-1]
		return dir
	}
	f.made++
	dir := filepath.Join(f.home, fmt.Sprint("project", f.made))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	octest.Git(t, dir, "init", "--quiet", "--initial-branch=main")
	octest.Git(t, dir, "-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "--quiet", "--allow-empty",
		"--message", "Start")
	return dir
}

func (f *fixture) start() error {
	f.once.Do(func() {
		if f.home, f.err = os.MkdirTemp("", "watch-test"); f.err != nil {
			return
		}
		if f.home, f.err = filepath.EvalSymlinks(f.home); f.err != nil { // as OpenCode reports it
			return
		}
		if f.model, f.err = scriptmodel.Start(f.cast.Reply); f.err == nil {
			f.server, f.err = octest.Serve(f.home, scriptmodel.OpenCodeEnv(os.Environ(), f.home, f.model.URL()), "0")
		}
	})
	return f.err
}

func (f *fixture) close() {
	if f.server != nil {
		f.server.Kill()
	}
	if f.model != nil {
		f.model.Close()
	}
	if f.home != "" {
		os.RemoveAll(f.home)
	}
}
