package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// sharedPassword is as random as those that manager makes, or it would not be recognised as a secret.
const sharedPassword = "aQ7xW2mK" + "9vTz4RbN" // split, or scanners would take it for a leak

const sharedLogin = "OPENCODE_SERVER_PASSWORD" + "=" + sharedPassword

// shared is one OpenCode server for all tests that do it no harm: a start takes 2 s of CPU time and 0.6 GB. To manager
// it is a foreign server, without manager's own configuration. shared2 runs the stand-in for OpenCode 2.
var (
	shared  = sharedServer{generation: 0}
	shared2 = sharedServer{generation: 1}
)

// sharedServer starts when the first test needs it.
type sharedServer struct {
	generation int // index in octest.Generations
	once       sync.Once
	err        error
	home       string
	exchange   *exchange
	server     *octest.Server
}

// lead makes the sessions in directories and below ask the model at modelURL, until the next call, and returns the address.
func (s *sharedServer) lead(modelURL string, dirs ...string) (address string, err error) {
	if s.once.Do(s.start); s.err != nil {
		return "", s.err
	}
	for _, dir := range dirs {
		err = errors.Join(err, s.exchange.connect(dir, modelURL))
	}
	return s.server.URL, err
}

func (s *sharedServer) start() {
	if s.home, s.err = os.MkdirTemp("", "cli-test-"); s.err != nil {
		return
	}
	if s.exchange, s.err = newExchange(); s.err != nil {
		return
	}
	generations, err := octest.Generations(s.home)
	if s.err = err; err != nil {
		return
	}
	g := generations[s.generation]
	env := append(octest.Lean(scriptmodel.OpenCodeEnv(os.Environ(), s.home, s.exchange.url())), sharedLogin)
	for i := range env { // a project may have its own provider
		env[i] = strings.Replace(env[i], `"enabled_providers":["scripted"]`, `"enabled_providers":["scripted","planted"]`, 1)
	}
	s.server, s.err = octest.ServeWith(g.Binary, s.home, append(env, g.Env...), "0")
}

func (s *sharedServer) close() {
	if s.server != nil {
		s.server.Kill()
	}
	if s.exchange != nil {
		s.exchange.close()
	}
	if s.home != "" {
		os.RemoveAll(s.home)
	}
}

// attached returns the environment and the flag of a manager that attaches to the shared server.
func attached(t *testing.T, dir string, env []string, model *scriptmodel.Server) (withPassword []string, flag string) {
	t.Helper()
	address, err := shared.lead(model.URL(), dir, project.Getenv(env, "HOME")) // where its slots are
	if err != nil {
		t.Fatal(err)
	}
	return append(env[:len(env):len(env)], sharedLogin), "--attach=" + address
}

// versionKnown is manager's cache of the real OpenCode's version: asking takes a second of CPU time.
var versionKnown = sync.OnceValues(func() ([]byte, error) {
	binary, err := octest.Find()
	if err != nil {
		return nil, err
	}
	if _, err := opencode.Version(context.Background(), binary); err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(cache, versionFile))
})

const versionFile = "manager/opencode-version"

// knowVersion puts that cache into a home.
func knowVersion(home string) error {
	known, err := versionKnown()
	if err != nil {
		return err
	}
	file := filepath.Join(home, "cache", versionFile)
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, known, 0o600))
}

// testsWithServer runs all tests and closes the shared servers.
type testsWithServer struct{ *testing.M }

func (m testsWithServer) Run() int {
	octest.Guard()
	cache, err := os.MkdirTemp("", "cli-test-cache-") // for commands in this process
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(cache)
	if err := os.Setenv("XDG_CACHE_HOME", cache); err != nil {
		panic(err)
	}
	defer shared.close()
	defer shared2.close()
	return m.M.Run()
}

// await polls for what another process or goroutine does, at most until the test's deadline.
func await(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the test is over")
		}
	}
}
