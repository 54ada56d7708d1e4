package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/internal/view"
)

func TestDoctorWithoutOpenCode(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	writeFile(t, filepath.Join(project, ".manager", "config.yaml"), "nosuch: a/b\n")
	stdout, _ := expect(t, project, exitError, []string{"doctor", "--json", "--opencode", "nosuch"}, `"ok":false`)
	var report view.Doctor
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range report.Checks {
		got += c.Name + " " + string(c.Finding) + ", "
		if c.Finding == view.Broken && c.Do == "" {
			t.Errorf("%s does not say what to do: %s", c.Name, c.Detail)
		}
	}
	const want = "config failed, git note, state ok, database ok, opencode failed, keys ok, ledgers ok, prices ok, "
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// The names of keys are shown, their values never.
func TestDoctorKeepsKeys(t *testing.T) {
	t.Parallel()
	text := doctorText(t, "endpoints: [{name: mine, base_url: 'http://127.0.0.1:1/v1'}]",
		"OPENAI_API_KEY=sk-secret-secret", "GOOGLE_API_KEY=secret-too", "ANTHROPIC_API_KEY= ")
	texts(t, "doctor", []string{
		"anthropic: ANTHROPIC_API_KEY not set\n", "openai: OPENAI_API_KEY set\n", "google: GOOGLE_API_KEY set\n",
		"xai: XAI_API_KEY not set\n", "mine: needs none\n",
		"asked directly with OPENAI_API_KEY", "! prices", "openai does not tell what openai/",
	}, []string{"secret"}, text)
}

// doctorText is what doctor says of the ledgers with a configuration and an environment.
func doctorText(t *testing.T, configuration string, environ ...string) string {
	t.Helper()
	project := t.TempDir()
	writeFile(t, filepath.Join(project, ".manager", "config.yaml"), configuration)
	a, stdout, _ := testApp(t, project, append(environ, "MANAGER_OPENCODE=nosuch")...)
	(&doctor{app: a}).look(t.Context()).Print(a.on(a.Stdout))
	return stdout.String()
}

func TestDoctorOnPrices(t *testing.T) {
	t.Parallel()
	const key = "OPENAI_API_KEY=sk-secret-secret"
	for _, test := range []struct{ config, environ, want string }{
		{"", "", "✓ prices    none configured; OpenCode tells"},
		{`prices: [{model: "openai/*", input: 1, output: 2}]`, key, "✓ prices    1 price configured, that of openai/"},
		{`prices: [{model: "other/*", input: 1, output: 2}]`, key, "! prices    1 price configured; openai does not tell"},
		{`budget: {cost: 5}`, key, "✗ prices    none configured; openai does not tell"},
	} {
		if text := doctorText(t, test.config, test.environ); !strings.Contains(text, test.want) {
			t.Errorf("%s: doctor does not say %q:\n%s", test.config, test.want, text)
		}
	}
}
