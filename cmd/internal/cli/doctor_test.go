package cli

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/contract"
	"github.com/bouldermgr/manager/testkit/fakeopencode"
	samples "github.com/bouldermgr/manager/testkit/golden/sample"
	"github.com/bouldermgr/manager/testkit/octest"
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
	const want = "config failed, git note, state ok, database ok, opencode failed, keys none, ledgers ok, limits none, prices none, "
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// The OpenCode to check must be installed, and --attach is only for --contract.
func TestContractWithoutOpenCode(t *testing.T) {
	t.Parallel()
	expect(t, t.TempDir(), exitError, []string{"doctor", "--contract", "--opencode", "nosuch"}, "not installed")
	expect(t, t.TempDir(), exitUsage, []string{"doctor", "--attach", "http://127.0.0.1:1"}, "--contract")
}

// The stand-in for OpenCode 2 fulfils the contract, and doctor says so as text and as JSON.
func TestContractHolds(t *testing.T) {
	t.Parallel()
	binary, err := octest.StandIn(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"doctor", "--contract", "--opencode", binary}
	expect(t, t.TempDir(), exitOK, args, "OpenCode 2.0.21 ("+binary+")", "✓ a prompt that is sent twice", "– a notice is shown",
		"    no call of its API shows one", "hold, 2 not tried, in ", "!✗")
	stdout, _ := expect(t, t.TempDir(), exitOK, append(args, "--json"))
	var report contractReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if !report.OK || report.OpenCode != "2.0.21" || len(report.Cases) != len(contract.Cases) || report.Manager.Go == "" {
		t.Errorf("the report is %+v", report)
	}
}

// A broken requirement is shown and decides the exit code.
func TestContractThatDoesNotHold(t *testing.T) {
	t.Parallel()
	report := &contractReport{OK: true}
	a, stdout, _ := testApp(t, t.TempDir())
	for _, r := range []contract.Result{{Name: "one"}, {Name: "two", Err: errors.New("no such thing")}} {
		report.add(r).Print(a.on(a.Stdout))
	}
	report.Print(a.on(a.Stdout))
	checkTexts(t, "the report", []string{"✓ one", "✗ two", "    no such thing", "1 of 2 hold, 1 do not, in 0 s."}, nil, stdout.String())
	if report.OK {
		t.Error("it is called good")
	}
}

// Names of keys are shown, values never.
func TestDoctorKeepsKeys(t *testing.T) {
	t.Parallel()
	text := doctorText(t, "model: openai/agent\nendpoints: [{name: mine, base_url: 'http://127.0.0.1:1/v1'}]",
		"OPENAI_API_KEY=sk-secret-secret", "GOOGLE_API_KEY=secret-too", "ANTHROPIC_API_KEY= ")
	checkTexts(t, "doctor", []string{
		"anthropic: ANTHROPIC_API_KEY not set\n", "openai: OPENAI_API_KEY set\n", "google: GOOGLE_API_KEY set\n",
		"xai: XAI_API_KEY not set\n", "mine: needs none\n",
		"asked directly with OPENAI_API_KEY", "! prices", "openai does not tell what openai/",
	}, []string{"secret"}, text)
}

// doctorText returns what doctor says with a configuration and an environment.
func doctorText(t *testing.T, configuration string, environ ...string) string {
	t.Helper()
	project := t.TempDir()
	writeFile(t, filepath.Join(project, ".manager", "config.yaml"), configuration)
	a, stdout, _ := testApp(t, project, append(environ, "MANAGER_OPENCODE=nosuch")...)
	(&doctor{app: a}).look(t.Context()).Print(a.on(a.Stdout))
	return stdout.String()
}

// doctor shows the names of variables, and which ones the allow-list lacks.
func TestDoctorOnTheEnvironment(t *testing.T) {
	t.Parallel()
	environ := []string{"PATH=/bin", "HOME=/root", "NPM_TOKEN=sk-secret-secret", "OTHER=other"}
	got := doctorText(t, "environment: [PATH, HOME, 'NPM_*']", environ...)
	checkTexts(t, "doctor", []string{"✓ environ", "get 3 of 5 variables: HOME, NPM_TOKEN, PATH"}, []string{"secret", "OTHER"}, got)
	got = doctorText(t, "environment: [HOME]", environ...)
	checkTexts(t, "doctor", []string{"! environ", "add PATH to environment"}, nil, got)
	checkTexts(t, "doctor", nil, []string{" environ "}, doctorText(t, "", environ...))
}

func TestDoctorOnPrices(t *testing.T) {
	t.Parallel()
	const key = "OPENAI_API_KEY=sk-secret-secret"
	for _, test := range []struct{ config, environ, want string }{
		{"", key, "○ prices    none configured; OpenCode tells"},
		{"ledger_model: openai/judge\nprices: [{model: 'openai/*', input: 1, output: 2}]", key, "✓ prices    1 price configured, that of openai/"},
		{"ledger_model: openai/judge\nprices: [{model: 'other/*', input: 1, output: 2}]", key, "! prices    1 price configured; openai does not tell"},
		{"ledger_model: openai/judge\nbudget: {cost: 5}", key, "✗ prices    none configured; openai does not tell"},
	} {
		if text := doctorText(t, test.config, test.environ); !strings.Contains(text, test.want) {
			t.Errorf("%s: doctor does not say %q:\n%s", test.config, test.want, text)
		}
	}
}

// What is not there, or not known, has no tick.
func TestDoctorOnWhatIsNotThere(t *testing.T) {
	t.Parallel()
	checkTexts(t, "doctor", []string{"○ keys      anthropic: ANTHROPIC_API_KEY not set", "○ limits "}, []string{"✓ keys"}, doctorText(t, ""))
	checkTexts(t, "doctor", []string{"✓ keys      anthropic: ANTHROPIC_API_KEY not set"}, nil,
		doctorText(t, "", "OPENAI_API_KEY=sk-secret-secret"))
}

// A start that no process was there for is named, with what begins it now.
func TestDoctorOnAMissedStart(t *testing.T) {
	t.Parallel()
	s, dir := &sample{&samples.Boulder{T: t, ID: "01k3missed", State: boulder.NewState(), Now: samples.Began}}, t.TempDir()
	s.Apply(boulder.Created{Boulder: boulder.Boulder{ID: s.ID, Task: "T", Project: dir, Settings: boulder.Settings{
		StartAt: s.Now.Add(time.Hour),
	}}})
	s.storeIn(dir)
	a, stdout, _ := testApp(t, dir, "MANAGER_OPENCODE=nosuch")
	(&doctor{app: a}).look(t.Context()).Print(a.on(a.Stdout))
	checkTexts(t, "doctor", []string{
		"! database  1 boulder; no process was there: missed was to start at ", "→ `manager resume ID` starts what was to start",
	}, nil, stdout.String())
}

// For each thing that OpenCode 2 lacks, doctor names the alternative. It also says where sessions of runs are stored.
func TestDoctorOnOpenCode2(t *testing.T) {
	t.Parallel()
	url := octest.ServeStandIn(t, fakeopencode.Behaviour{}, t.TempDir(), []string{"XDG_DATA_HOME=" + t.TempDir()})
	client, err := opencode.Attach(t.Context(), url, opencode.AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	says := func(config string, environ ...string) string {
		project, all := t.TempDir(), ""
		writeFile(t, filepath.Join(project, ".manager", "config.yaml"), config)
		a, _, _ := testApp(t, project, append(environ, "PATH=/nowhere")...)
		d := &doctor{app: a, dir: client.In(project)}
		for _, look := range []func(context.Context) (string, string, error){d.data, d.todos, d.diagnostics, d.toasts} {
			detail, do, err := look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all += detail + " → " + do + "\n"
		}
		return all
	}
	checkTexts(t, "doctor", []string{
		"the database that your OpenCode 2 uses as well", "no todo list → nothing: agents get manager's own",
		"OpenCode 2 runs no language servers → use a command (gates, done_when: tests, ", "shows no toasts → look at the terminal",
	}, nil, says(""))
	checkTexts(t, "doctor", []string{
		"a database of their own (OPENCODE_DB=/own.db)", "runs no language servers; done_when: diagnostics runs make lint → \n",
	}, nil, says("lint: make lint", "OPENCODE_DB=/own.db"))
}
