package opencode_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// The real server uses no inotify instance per directory: a user's are limited, and OpenCode hangs without one.
func TestServerWatchesNoFiles(t *testing.T) {
	t.Parallel()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	client, model := shared.server.Client(), opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: scriptmodel.ModelAgent}
	taken := func() (n int) {
		dir := client.In(t.TempDir())
		s, err := dir.CreateSession(t.Context(), opencode.NewSession{Title: "x"})
		if err != nil {
			t.Fatal(err)
		}
		events := client.Subscribe(opencode.Filter{Directory: dir.Path()})
		defer events.Close()
		<-events.C()
		if err := dir.Prompt(t.Context(), s.ID, opencode.Prompt{Model: model, Text: "Go."}); err != nil {
			t.Fatal(err)
		}
		for called := false; !called; { // until OpenCode has tried its unreachable model
			switch p := (<-events.C()).Payload.(type) {
			case opencode.StatusChanged:
				called = p.Status.Type == opencode.Retry
			case opencode.SessionFailed:
				called = true
			}
		}
		if err := dir.Abort(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
		fds := fmt.Sprintf("/proc/%d/fd", shared.server.PID())
		open, err := os.ReadDir(fds)
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range open {
			if to, _ := os.Readlink(filepath.Join(fds, fd.Name())); strings.Contains(to, "inotify") {
				n++
			}
		}
		return n
	}
	if first, second := taken(), taken(); second != first {
		t.Errorf("%d in one directory, %d in two", first, second)
	}
}

// The real server listens on loopback only, requires the password on every route, and leaves port 4096 to the user.
func TestServerIsForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(shared.server.Client().Address())
	if err != nil {
		t.Fatal(err)
	}
	if address.Port() == "4096" {
		t.Error("the port that people give to an OpenCode of their own is taken")
	}
	defer http.DefaultClient.CloseIdleConnections()
	for _, request := range []string{
		"GET /global/health", "GET /session", "GET /config", "GET /event", "GET /doc", "GET /file/content?path=/etc/passwd",
		"GET /", "POST /session", "POST /global/dispose", // OPTIONS needs no password: 204 without a body
	} {
		for _, password := range []string{"", "wrong", "opencode"} {
			method, path, _ := strings.Cut(request, " ")
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address.Host+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if password != "" {
				req.SetBasicAuth("opencode", password)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with password %q: %s", request, password, resp.Status)
			}
		}
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		t.Fatal(err)
	}
	listeners := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: ([0-9A-F]+):%04X \S+ 0A `, port)) // 0A: TCP_LISTEN
	var found []string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range listeners.FindAllStringSubmatch(string(data), -1) {
			found = append(found, m[1])
		}
	}
	if len(found) != 1 || found[0] != "0100007F" {
		t.Errorf("it listens on %q, want 127.0.0.1 only", found)
	}
}
