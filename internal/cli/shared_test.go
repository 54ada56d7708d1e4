package cli

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// sharedPassword is that of the shared server: as random as those that the manager makes, or it is not known for a secret.
const sharedPassword = "aQ7xW2mK" + "9vTz4RbN" // in two, or it looks like one that slipped in

const sharedLogin = "OPENCODE_SERVER_PASSWORD" + "=" + sharedPassword

// shared is one OpenCode server for all tests that attach to a server and do it no harm: a start takes two seconds of a
// processor and 0.6 GB. It is somebody else's to the manager, and knows nothing of the manager's own configuration.
// shared2 is one of the stand-in for OpenCode 2.
var (
	shared  = sharedServer{generation: 0}
	shared2 = sharedServer{generation: 1}
)

// sharedServer starts when the first test needs it.
type sharedServer struct {
	generation int // in octest.Generations
	once       sync.Once
	err        error
	home       string
	exchange   *exchange
	server     *octest.Server
}

// lead has the sessions in a directory, and below it, ask the model at modelURL, and returns the server's address. It
// may be called again, with another model.
func (s *sharedServer) lead(dir, modelURL string) (address string, err error) {
	if s.once.Do(s.start); s.err != nil {
		return "", s.err
	}
	return s.server.URL, s.exchange.connect(dir, modelURL)
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
	for i := range env { // a project may have a provider of its own
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

// attached prepares a test whose manager attaches to the shared server: the environment in which it may, and the flag.
func attached(t *testing.T, dir string, env []string, model *scriptmodel.Server) (withPassword []string, flag string) {
	t.Helper()
	address, err := shared.lead(dir, model.URL())
	if err != nil {
		t.Fatal(err)
	}
	return append(env[:len(env):len(env)], sharedLogin), "--attach=" + address
}

// testsWithServer are all tests, and the end of the server that they share.
type testsWithServer struct{ *testing.M }

func (m testsWithServer) Run() int {
	octest.Guard()
	defer shared.close()
	defer shared2.close()
	return m.M.Run()
}
