package opencode_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The real server listens on the loopback interface only, and answers nobody who does not know the password, whatever
// is asked.
func TestServerIsForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	if err := shared.start(); err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(shared.server.Client().URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{
		"GET /global/health", "GET /session", "GET /config", "GET /event", "GET /doc", "GET /file/content?path=/etc/passwd",
		"GET /", "POST /session", "POST /global/dispose", // OPTIONS is answered, with 204 and nothing else
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
	if got := listensOn(t, port); len(got) != 1 || got[0] != "0100007F" {
		t.Errorf("it listens on %q, want 127.0.0.1 only", got)
	}
	http.DefaultClient.CloseIdleConnections()
}

// listensOn gives the addresses, as the kernel writes them, on which somebody listens at a port.
func listensOn(t *testing.T, port int) []string {
	t.Helper()
	const listening = "0A"
	var found []string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			if len(fields) < 4 || fields[3] != listening {
				continue
			}
			if address, p, _ := strings.Cut(fields[1], ":"); p == fmt.Sprintf("%04X", port) {
				found = append(found, address)
			}
		}
	}
	return found
}
