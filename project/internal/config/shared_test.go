package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Of a file that is not trusted nothing counts that could run, reach or permit something, whatever its form. Every key that is
// not listed as harmless is ignored, so a new one is until it is listed.
func TestUntrusted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "manager.yaml")
	load := func(content string, trusted bool) *Config {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(false, File{Path: path, Trusted: func(got []byte) bool {
			if string(got) != content {
				t.Errorf("asked about %q", got)
			}
			return trusted
		}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	example := strings.ReplaceAll(Example, "$NOTIFY_URL", "https://example.com/hook")
	c := load(example, false)
	var ignored []string
	for _, e := range c.Untrusted.Ignored {
		ignored = append(ignored, e.Key)
		if strings.TrimSpace(e.Value) == "" {
			t.Errorf("%s is shown without a value", e.Key)
		}
	}
	for _, key := range []string{
		"gates", "no_worse", "integration_gates", "tests", "lint", "slots.setup", "slots.copy", "slots.env.CI", "generated.api.pb.go",
		"notify.webhook", "opencode", "environment", "on_ask", "allow_model_gates", "land", "budget.cost", "limits.global", "rules.silence",
		"tracing.endpoint", "endpoints", "prices", "blockers.enabled", "watch.done_when", "done_when", "opencode_memory", "loop.iterations",
	} {
		if !strings.Contains(" "+strings.Join(ignored, " ")+" ", " "+key+" ") {
			t.Errorf("%s counts although the file is not trusted", key)
		}
	}
	want := Default()
	from := load(example, true)
	for _, take := range want.harmless(from) {
		take()
	}
	c.origins, c.Untrusted, c.Limits.Models, want.Limits.Models = nil, nil, nil, nil
	if !reflect.DeepEqual(c, want) {
		t.Errorf("counts: %+v\nwant %+v", c, want)
	}
	if from.Untrusted != nil || len(from.Gates) == 0 {
		t.Error("trusted, it does not count")
	}
	if c := load("model: a/b\nmodels: {describe: {a/b: good}}\n", false); c.Untrusted != nil || c.Model != "a/b" || c.Models.Describe["a/b"] != "good" {
		t.Errorf("harmless: %+v", c)
	}
	if c := load("rules: {silence: off}\n", false); c.Untrusted == nil || c.Untrusted.Ignored[0].Value != "off" || c.Rules.Silence == 0 {
		t.Errorf("switched off: %+v", c.Untrusted)
	}
	if c := load("apiVersion: v1\nkind: Deployment\n", false); len(c.Foreign) != 1 || c.Untrusted != nil {
		t.Errorf("another program's: %+v", c)
	}
	if _, err := Load(false, File{Path: path, Trusted: func([]byte) bool { return true }}); err != nil {
		t.Errorf("another program's: %v", err)
	}
	if err := os.WriteFile(path, []byte("gates: [x]\nmodels_of: a/b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(false, File{Path: path, Trusted: func([]byte) bool { return false }}); err == nil || !strings.Contains(err.Error(), "manager.yaml:2") {
		t.Errorf("a mistake: %v", err)
	}
}
