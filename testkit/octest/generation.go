package octest

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/testkit/fakeopencode"
)

// Generation is a kind of OpenCode to test with.
type Generation struct {
	Name   string
	Binary string
	Env    []string // further environment entries
}

// Generations returns the pinned OpenCode and the stand-in for OpenCode 2, whose program is put into dir.
func Generations(dir string) ([]Generation, error) {
	first, err := Find()
	if err != nil {
		return nil, err
	}
	second, err := StandIn(dir)
	// By default it waits for seconds before it retries a provider.
	quick := fakeopencode.Behaviour{Retry: 10 * time.Millisecond}.Env()
	return []Generation{{Name: "opencode1", Binary: first}, {"opencode2", second, []string{quick}}}, err
}

// standIn is the name under which a test binary plays OpenCode 2.
const standIn = "opencode"

// StandIn links this test binary below dir as an OpenCode 2. TestMain must begin with [Guard] or [PlayStandIn].
func StandIn(dir string) (path string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "stand-in") // the real one makes a directory named like its program
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	path = filepath.Join(dir, standIn)
	return path, os.Symlink(self, path)
}

// PlayStandIn runs the stand-in and exits, if the test binary was started as one.
func PlayStandIn() {
	if filepath.Base(os.Args[0]) == standIn {
		os.Exit(fakeopencode.Main())
	}
}

// ServeStandIn serves a stand-in for OpenCode 2 in dir, with env, until the test ends. The URL includes the password.
func ServeStandIn(tb testing.TB, b fakeopencode.Behaviour, dir string, env []string) (url string) {
	tb.Helper()
	const password = "secret"
	server, err := fakeopencode.New(fakeopencode.Config{
		Behaviour: b, Dir: dir, Environ: fakeopencode.Environ(env), Password: password,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Close)
	listening := httptest.NewServer(server.Handler())
	tb.Cleanup(listening.Close)
	return strings.Replace(listening.URL, "://", "://opencode:"+password+"@", 1)
}
