package watch_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// patience bounds every wait for the real server, which shares two cores with other tests.
const patience = 5 * time.Minute

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

	repos octest.Repos
}

func (f *fixture) start() error {
	f.once.Do(func() {
		if f.home, f.err = os.MkdirTemp("", "watch-test"); f.err != nil {
			return
		}
		if f.home, f.err = filepath.EvalSymlinks(f.home); f.err != nil { // as OpenCode reports it
			return
		}
		f.repos.Home = f.home
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
