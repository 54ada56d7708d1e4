package cli

import (
	"os"
	"strings"
	"testing"
)

// Truncated output must not look complete.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	project := interrupted(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, line := range []string{
		"help", "version", "completion bash", "list", "status", "show", "show --why toggle", "show --receipt", "report", "logs",
		"logs toggle", "graph", "blockers status", "export", "doctor",
	} {
		for _, as := range []string{"", " --json"} {
			stderr, code := commandTo(full, project, strings.Fields(line+as)...)
			if code != exitError || !strings.Contains(stderr, "no space left on device") {
				t.Errorf("%s%s: exit code %d, stderr %q", line, as, code, stderr)
			}
		}
	}
}

// A reader that closes early is no error.
func TestReaderGone(t *testing.T) {
	t.Parallel()
	project := interrupted(t)
	for _, line := range []string{"logs", "logs --json", "logs toggle", "list", "show", "graph", "help"} {
		reader, stdout, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		reader.Close()
		if stderr, code := commandTo(stdout, project, strings.Fields(line)...); code != exitOK || stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", line, code, stderr)
		}
		stdout.Close()
	}
}
