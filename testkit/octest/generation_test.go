package octest

import (
	"os/exec"
	"strings"
	"testing"
)

func TestStandIn(t *testing.T) {
	t.Parallel()
	path, err := StandIn(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	version, err := exec.CommandContext(t.Context(), path, "--version").Output()
	if err != nil || !strings.HasPrefix(string(version), "opencode v2.") {
		t.Errorf("it says %q, %v", version, err)
	}
	server, err := ServeWith(path, t.TempDir(), Env(t, "http://127.0.0.1:1/v1"), "0")
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
}
