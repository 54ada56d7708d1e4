package opencode_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The real server listens on the loopback interface only, and answers nobody who does not know the password, whatever
// is asked. It leaves port 4096 to people.
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
	listeners := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: ([0-9A-F]+):%04X \S+ 0A `, port)) // 0A: it listens
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
