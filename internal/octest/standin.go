package octest

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/internal/fakeopencode"
)

// ServeStandIn serves a stand-in for OpenCode 2, started in dir with the environment, as long as the test runs. Its address has
// the password.
func ServeStandIn(tb testing.TB, b fakeopencode.Behaviour, dir string, env []string) (url string) {
	tb.Helper()
	environ := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		environ[name] = value
	}
	const password = "secret"
	server, err := fakeopencode.New(fakeopencode.Config{Behaviour: b, Dir: dir, Environ: environ, Password: password})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Close)
	listening := httptest.NewServer(server.Handler())
	tb.Cleanup(listening.Close)
	return strings.Replace(listening.URL, "://", "://opencode:"+password+"@", 1)
}
