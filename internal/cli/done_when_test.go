package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/config"
)

// doneDeps is a project with these files, in a world with these programs.
func doneDeps(t *testing.T, config string, programs []string, files map[string]string) (a *app, said func() string) {
	t.Helper()
	bin, project := t.TempDir(), t.TempDir()
	for _, p := range programs {
		if err := os.WriteFile(filepath.Join(bin, p), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		writeFile(t, filepath.Join(project, name), text)
	}
	a, _, stderr := testApp("PATH=/nowhere:" + bin)
	a.configFile = configFile(t, config)
	return openProject(t, a, project), stderr.String
}

func TestWhichTestsDecide(t *testing.T) {
	t.Parallel()
	goAndNpm := map[string]string{"go.mod": "module x\n", "package.json": `{"scripts": {"test": "jest", "lint": "eslint"}}`}
	for name, test := range map[string]struct {
		config      string
		programs    []string
		files       map[string]string
		tests, lint []string
		noTests     string
	}{
		"found": {
			programs: []string{"go", "npm"}, files: goAndNpm, tests: []string{"go test ./...", "npm test"},
			lint: []string{"go vet ./...", "npm run lint"},
		},
		"one of them is not installed": {
			programs: []string{"npm"}, files: goAndNpm, tests: []string{"npm test"}, lint: []string{"npm run lint"},
		},
		"none of them is": {files: goAndNpm, noTests: `package.json has the script "test", but npm is not installed`},
		"configured": {
			config: "tests: make check\nlint: [make lint, make types]\n", programs: []string{"go"}, files: goAndNpm,
			tests: []string{"make check"}, lint: []string{"make lint", "make types"},
		},
		"switched off": {
			config: "tests: []\nlint: []\n", programs: []string{"go", "npm"}, files: goAndNpm,
			noTests: "the configuration says that there is none (tests: [])",
		},
		"nothing there": {noTests: "there is none of a go.mod"},
	} {
		d, _ := doneDeps(t, test.config, test.programs, test.files)
		done := d.Criteria(nil)
		if !slices.Equal(done.Checks.Tests, test.tests) || !slices.Equal(done.Checks.Lint, test.lint) ||
			!strings.HasPrefix(done.NoTests, test.noTests) || (done.NoTests == "") != (test.noTests == "") {
			t.Errorf("%s: %+v", name, done)
		}
	}
}

// Without a word of a person a loop has all criteria, but for those that nothing can check; what a person names is kept,
// or refused.
func TestCriteriaOfALoop(t *testing.T) {
	t.Parallel()
	makefile := map[string]string{"Makefile": "test:\n\ttrue\n"}
	for name, test := range map[string]struct {
		config string
		flag   doneFlag
		files  map[string]string
		want   string
		note   bool
		err    bool
	}{
		"all":                        {files: makefile, want: "todos diagnostics tests promise judge"},
		"no tests":                   {want: "todos diagnostics promise judge", note: true},
		"the configuration":          {config: "done_when: [judge]", want: "judge"},
		"the flag goes before":       {config: "done_when: [judge]", flag: doneFlag{"todos"}, want: "todos"},
		"tests by name":              {flag: doneFlag{"tests"}, files: makefile, want: "tests"},
		"tests by name, and none":    {flag: doneFlag{"tests"}, err: true},
		"configured tests, and none": {config: "done_when: [tests]", err: true},
	} {
		d, said := doneDeps(t, test.config, []string{"make"}, test.files)
		done, err := d.loopDone(test.flag)
		if (err != nil) != test.err || err == nil && strings.Join(done.Words, " ") != test.want {
			t.Errorf("%s: %v, %v", name, done.Words, err)
		}
		if noted := strings.Contains(said(), "tests do not decide here"); noted != test.note {
			t.Errorf("%s: noted: %q", name, said())
		}
	}
}

func TestDoneFlag(t *testing.T) {
	t.Parallel()
	var f doneFlag
	for _, text := range []string{"todos, tests", "judge", "todos"} {
		if err := f.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	if want := (doneFlag{"todos", "tests", "judge"}); !slices.Equal(f, want) {
		t.Errorf("%v, want %v", f, want)
	}
	for _, bad := range []string{"", "green", "todos,", "Todos"} {
		if err := f.Set(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestConfigOfALoop(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]boulder.Loop{
		"": {Iterations: 100, Failures: 5, Cooldown: 30 * time.Second},
		"loop: {iterations: 7, failures: 0, cooldown: off}": {Iterations: 7},
		"loop: {cooldown: 90s}":                             {Iterations: 100, Failures: 5, Cooldown: 90 * time.Second},
	} {
		c, err := config.Load(true, configFile(t, text))
		if err != nil || c.Loop != want {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
	for _, bad := range []string{"loop: {iterations: 0}", "tests: {a: b}", "tests: ['']", "done_when: [green]"} {
		if _, err := config.Load(true, configFile(t, bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
