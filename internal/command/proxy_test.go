package command_test

import (
	"testing"

	"github.com/bouldermgr/manager/internal/command"
)

// A proxy is named for an address of the local network that it is asked for, and for no other.
func TestProxyOf(t *testing.T) {
	t.Parallel()
	const proxy = "HTTP_PROXY=http://proxy:3128"
	for _, c := range []struct {
		address  string
		environ  []string
		variable string
	}{
		{"http://192.168.1.5:11434/v1", []string{proxy}, "HTTP_PROXY"},
		{"http://10.1.2.3", []string{"http_proxy=proxy:3128"}, "http_proxy"},
		{"https://172.16.0.1", []string{proxy, "https_proxy=http://proxy"}, "https_proxy"},
		{"http://100.100.1.1:1234", []string{proxy}, "HTTP_PROXY"}, {"http://[fd00::1]:80", []string{proxy}, "HTTP_PROXY"},
		{"http://gpu:8000/v1", []string{proxy}, "HTTP_PROXY"}, {"http://box.local", []string{proxy}, "HTTP_PROXY"},
		{"http://a.lan", []string{proxy, "NO_PROXY=localhost,127.0.0.1"}, "HTTP_PROXY"},
		{"http://192.168.1.5", []string{"HTTPS_PROXY=http://proxy"}, ""}, {"https://192.168.1.5", []string{proxy}, ""},
		{"http://192.168.1.5", []string{proxy, "HTTP_PROXY="}, ""}, {"http://192.168.1.5", nil, ""},
		{"http://192.168.1.5:1", []string{proxy, "no_proxy=192.168.1.5"}, ""}, {"http://192.168.1.5", []string{proxy, "NO_PROXY=192.168.0.0/16"}, ""},
		{"http://a.b.lan", []string{proxy, "NO_PROXY=.lan"}, ""}, {"http://gpu", []string{proxy, "NO_PROXY=*"}, ""},
		{"http://127.0.0.1:8080", []string{proxy}, ""}, {"http://localhost:8080", []string{proxy}, ""}, // never asked for
		{"http://api.example.com", []string{proxy}, ""}, {"http://8.8.8.8", []string{proxy}, ""}, {"", []string{proxy}, ""}, {"::", []string{proxy}, ""},
	} {
		if got, host := command.ProxyOf(c.environ, c.address); got != c.variable || (host == "") != (got == "") {
			t.Errorf("%s with %q: %q (%s), not %q", c.address, c.environ, got, host, c.variable)
		}
	}
}
