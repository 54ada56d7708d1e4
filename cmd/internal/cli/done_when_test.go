package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// By default a loop has all criteria that can be checked, and a run those with commands, todos and the judge. What the
// user names is kept, or refused. Found or configured commands decide tests and diagnostics.
func TestCriteriaOfALoop(t *testing.T) {
	t.Parallel()
	const all, noTests = "todos diagnostics tests promise judge", "todos diagnostics promise judge"
	const allOfRun, noCommands = "todos diagnostics tests judge", "todos judge"
	goAndNpm := map[string]string{"go.mod": "module x\n", "package.json": `{"scripts": {"test": "jest", "lint": "eslint"}}`}
	makefile := map[string]string{"Makefile": "test:\n\ttrue\n"}
	for name, test := range map[string]struct {
		config      string
		flag        doneFlag
		programs    string
		files       map[string]string
		want        string // criteria of a loop; empty: refused
		run         string // criteria of a run, if different
		tests, lint string
		none        string // why no tests are found
	}{
		"found": {
			programs: "go npm", files: goAndNpm, want: all, run: allOfRun, tests: "go test ./...|npm test", lint: "go vet ./...|npm run lint",
		},
		"one of them is not installed": {
			programs: "npm", files: goAndNpm, want: all, run: allOfRun, tests: "npm test", lint: "npm run lint",
		},
		"none of them is": {
			files: goAndNpm, want: noTests, run: noCommands, none: `package.json has the script "test", but npm is not installed`,
		},
		"configured": {
			config: "tests: make check\nlint: [make lint, make types]\n", programs: "go", files: goAndNpm, want: all, run: allOfRun,
			tests: "make check", lint: "make lint|make types",
		},
		"switched off": {
			config: "tests: []\nlint: []\n", programs: "go npm", files: goAndNpm, want: noTests, run: noCommands,
			none: "the configuration says that there is none (tests: [])",
		},
		"nothing there":       {want: noTests, run: noCommands, none: "none of these was found: a go.mod"},
		"configured criteria": {config: "done_when: [judge]", want: "judge", none: "none of these"},
		"the flag goes before": {
			config: "done_when: [judge]", flag: doneFlag{"todos"}, want: "todos", none: "none of these",
		},
		"tests by name": {
			flag: doneFlag{"tests"}, programs: "make", files: makefile, want: "tests", tests: "make test",
		},
		"tests by name, and none":    {flag: doneFlag{"tests"}, none: "none of these"},
		"configured tests, and none": {config: "done_when: [tests]", none: "none of these"},
	} {
		bin, project := t.TempDir(), t.TempDir()
		for p := range strings.FieldsSeq(test.programs) {
			if err := os.WriteFile(filepath.Join(bin, p), []byte("#!/bin/sh\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for file, text := range test.files {
			writeFile(t, filepath.Join(project, file), text)
		}
		writeFile(t, filepath.Join(project, ".manager", "config.yaml"), test.config)
		a, _, stderr := testApp(t, project, "PATH=/nowhere:"+bin)
		if run := strings.Join(a.project.Criteria(test.flag).Words, " "); test.want != "" && run != cmp.Or(test.run, test.want) {
			t.Errorf("%s: a run has %s", name, run)
		}
		done, err := a.loopDone(test.flag)
		if (err == nil) != (test.want != "") || err == nil && strings.Join(done.Words, " ") != test.want {
			t.Errorf("%s: %v, %v", name, done.Words, err)
		}
		if tests, lint := strings.Join(done.Checks.Tests, "|"), strings.Join(done.Checks.Lint, "|"); tests != test.tests ||
			lint != test.lint || !strings.HasPrefix(done.NoTests, test.none) || (done.NoTests == "") != (test.none == "") {
			t.Errorf("%s: %+v", name, done)
		}
		if noted := strings.Contains(stderr.String(), "tests do not decide here"); noted != (test.want == noTests) {
			t.Errorf("%s: noted: %q", name, stderr)
		}
	}
}
