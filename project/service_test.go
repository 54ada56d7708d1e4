package project

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/fakeopencode"
	"github.com/bouldermgr/manager/testkit/octest"
)

// If nothing listens at the default address, a watch finds the background service of OpenCode 2 by its registration,
// unless that service has ended. Other commands use their address as it is.
func TestServiceIsFound(t *testing.T) {
	t.Parallel()
	const nowhere = "http://127.0.0.1:1"
	state := t.TempDir()
	p := prepare(t.TempDir(), Options{Environ: []string{"XDG_STATE_HOME=" + state, "OPENCODE_SERVER_PASSWORD=of another one"}})
	near := prepare(t.TempDir(), p.opts)
	near.tryService = true
	if err := os.Mkdir(filepath.Join(state, "opencode"), 0o700); err != nil {
		t.Fatal(err)
	}
	register := func(url, password string) {
		t.Helper()
		data := fmt.Appendf(nil, `{"url":%q,"pid":1,"password":%q}`, url, password)
		if err := os.WriteFile(filepath.Join(state, "opencode", "service.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unavailable := func(p *Project) {
		t.Helper()
		if _, err := p.attach(t.Context(), nowhere, 0); !errors.Is(err, opencode.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
	unavailable(near)
	register(nowhere, "x")
	unavailable(near)
	url := strings.Replace(octest.ServeStandIn(t, fakeopencode.Behaviour{}, t.TempDir(), octest.Env(t, "")), "opencode:secret@", "", 1)
	register(url, "secret")
	unavailable(p)
	client, err := near.attach(t.Context(), nowhere, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	// A server that refuses the password is not the user's, so the watch looks for the service.
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer locked.Close()
	other, err := near.attach(t.Context(), locked.URL, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.Address() != url {
		t.Errorf("%s", other.Address())
	}
	if _, err := p.attach(t.Context(), locked.URL, 0); !errors.Is(err, opencode.ErrUnauthorized) {
		t.Errorf("%v", err)
	}
	if client.Address() != url || client.Caps().Generation != 2 {
		t.Errorf("%s, %+v", client.Address(), client.Caps())
	}
	register(url, "wrong")
	if _, err := near.attach(t.Context(), nowhere, 0); !errors.Is(err, opencode.ErrUnauthorized) ||
		!strings.Contains(err.Error(), "--attach") {
		t.Errorf("%v", err)
	}
}
