package taskledger_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/taskledger"
	"github.com/bouldermgr/manager/testkit/golden"
)

// TestParseProblems: all problems are reported at once, each with its place, what is wrong, and what to do.
func TestParseProblems(t *testing.T) {
	t.Parallel()
	cases, err := txtar.ParseFile(filepath.Join("testdata", "problems.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(cases.Files); i += 2 {
		in, problems := cases.Files[i], &cases.Files[i+1]
		problems.Data = []byte(problemsOf(t, in.Name, in.Data))
	}
	golden.Compare(t, "problems.txtar", string(txtar.Format(cases)))
}

func problemsOf(t *testing.T, name string, data []byte) string {
	t.Helper()
	plan, err := taskledger.Parse("p", data)
	var file *taskledger.FileError
	if !errors.As(err, &file) {
		t.Fatalf("%s: no problem was found: %v, %+v", name, err, plan)
	}
	return err.Error() + "\n"
}

// TestParseBadCharacters has the cases that a txtar file cannot hold.
func TestParseBadCharacters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"task: é\x00\n":             "p:1:8: there is a control character, U+0000: save the file as plain UTF-8 text\n",
		"task: x\ngoal: caf\xe9\n":  "p:2:10: this is not valid UTF-8: save the file as plain UTF-8 text\n",
		"task: caf\xe9\ngoal: \x00": "p:1:10: this is not valid UTF-8: save the file as plain UTF-8 text\n",
	} {
		if got := problemsOf(t, want, []byte(in)); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}

// TestTagsAreRefusedAnywhere: YAML would drop the tag, so that `! grep -q TODO main.go` becomes its opposite.
func TestTagsAreRefusedAnywhere(t *testing.T) {
	t.Parallel()
	for gate, quoting := range map[string]string{
		"- ! grep -q TODO src/main.go": "'! grep -q TODO src/main.go'", "- ! test -f 'a b' # no": "'! test -f ''a b'''",
		"- !grep -q x": "'!grep -q x'", "- !!str x": "'!!str x'", "- ! [ -f x ]": "", "- ! {a: b}": "", "- !": "", "- ! ~": "'! ~'",
		"- ! 'x'": "", "- ! |\n       x": "", "- !\n       x": "", "- ! test a &&\n       test b": "", "- !!null x": "'!!null x'",
		"! grep -q x": "'! grep -q x'", "! [a]": "", "[a, ! b]": "'! b'", "&x a": "'&x a'", "- &x": "", "- !<x> a": "'!<x> a'",
		"- !!binary aGk=": "'!!binary aGk='", "- a: ! b": "'! b'", "- ! a: b": "'! a'", "!!seq [a]": "",
	} {
		for _, key := range []string{"gates", "no_worse", "nosuchkey"} {
			in := "task: t\nsub_tasks:\n  - description: d\n    " + key + ":\n     " + gate + "\n"
			got := problemsOf(t, in, []byte(in))
			what := "YAML reads this as a tag"
			if strings.Contains(gate, "&x") {
				what = "YAML reads this as an anchor"
			}
			if !strings.Contains(got, "p:5:") || !strings.Contains(got, what) || !strings.Contains(got, quoting) {
				t.Errorf("%q:\n%s", in, got)
			}
		}
	}
	for _, in := range []string{
		"! \ntask: t\nsub_tasks: [description: d]\n", "! task: t\nsub_tasks: [description: d]\n",
		"task: ! t\nsub_tasks: [description: d]\n", "task: t\nmodel: !!null x\nsub_tasks: [description: d]\n",
		"%TAG ! tag:x,2000:\n---\ntask: !a t\nsub_tasks: [description: d]\n", "task: t\nsub_tasks: ! [! {description: d}]\n",
	} {
		if got := problemsOf(t, in, []byte(in)); !strings.Contains(got, "YAML reads this as a tag") {
			t.Errorf("%q:\n%s", in, got)
		}
	}
}

// TestCommandsThatYAMLOrTheShellWeaken: each is told with its line; what is quoted, or can be red, is not.
func TestCommandsThatYAMLOrTheShellWeaken(t *testing.T) {
	t.Parallel()
	const head = "task: t\nintegration_gates: [make || true]\nsub_tasks:\n  - description: d\n    gates:\n"
	for gate, want := range map[string]string{
		"echo a #b && exit 1":             "p:6:9: `#b && exit 1` is a comment to YAML, and no part of the command: if it is meant, write the command between quotes: 'echo a #b && exit 1'",
		"'echo a #b && exit 1'":           "",
		"\"go test\" # the tests":         "",
		"go test # the tests":             "p:6:9: `# the tests` is a comment",
		"npm test 2>&1 | tail -5":         "p:6:9: the gate `npm test 2>&1 | tail -5` cannot be red",
		"npx vitest":                      "p:6:9: `npx vitest` may watch files and never end: write vitest run",
		"go test ./...":                   "",
		"|\n        go vet\n        true": "p:6:9: the gate",

		"npm test\n        npm run lint":            "p:6:9: YAML joins these lines: the command is `npm test npm run lint`: make each",
		">\n        npm test\n        npm run lint": "p:6:9: YAML joins these lines",
		">-\n        npm test \\\n          --all":  "",
		">-\n        npm test \\\n        --all":    "p:6:9: YAML joins these lines: the command is `npm test \\",
		"npm test \\\n        --all":                "p:6:9: YAML joins these lines",
		">\n        npm test # all\n        lint":   "p:6:9: YAML joins these lines",
		"'npm test\n         lint ''a b'''":         "p:6:9: YAML joins these lines: the command is `npm test lint 'a b'`",
		"\"npm test\n         lint \\\"a b\\\"\"":   "p:6:9: YAML joins these lines",
		"\"npm test\n\n         lint \\\"a b\\\"\"": "",
		"npm test \\": "p:6:9: the gate `npm test \\` ends with a \\, and nothing follows",

		"npm test &&\n        npm run lint":            "",
		">\n        npm test &&\n        npm run lint": "",
		">\n        test -f a\n\n        test -f b":    "",
		"|\n        npm test \\\n        --all":        "",
		">\n        test -f a":                         "",
		"echo é   b":                                   "",
		"for f in a b\n        ; do test -f $f; done":  "",
	} {
		_, warnings, err := taskledger.ParseWarn("p", []byte(head+"      - "+gate+"\n"))
		if err != nil || len(warnings) == 0 || !strings.HasPrefix(warnings[0].String(), "p:2:21: the gate `make || true` cannot be red") {
			t.Fatalf("%s: %v, %v", gate, warnings, err)
		}
		got := ""
		for _, w := range warnings[1:] {
			got += w.String() + "\n"
		}
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", gate, got)
		}
	}
}

// TestIDsThatArePaths: ids become directory names, so anything that is no plain name is refused with its line.
func TestIDsThatArePaths(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		"../x", "..", ".", "/etc/passwd", "a/b", `a\\b`, `C:\\x`, "C:x", "~root", "a b", "x.jsonl", "é",
		`\u202ex`, `a\u0000b`, `a\nb`, "-/../../x", "%2e%2e", strings.Repeat("x", 65),
	} {
		got := problemsOf(t, id, []byte("task: t\nsub_tasks:\n  - description: d\n    id: \""+id+"\"\n"))
		if !strings.HasPrefix(got, "p:4:") {
			t.Errorf("%q: %s", id, got)
		}
	}
}

func TestParseTellsTwentyProblems(t *testing.T) {
	t.Parallel()
	got := problemsOf(t, "many", []byte("sub_tasks:\n"+strings.Repeat("  - {}\n", 30)))
	if strings.Count(got, "\n") != 21 || !strings.HasSuffix(got, "\nand 11 more\n") { // 30 descriptions and the task
		t.Error(got)
	}
}

func TestParseFillsIn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   string
		want boulder.Plan
	}{
		"only descriptions": {
			"sub_tasks:\n- description: |\n\n    Add the   toggle\n    and more\n- description: Wire it up\n  depends_on: [1]\n",
			boulder.Plan{Version: 1, Task: "Add the toggle; Wire it up", SubTasks: []boulder.Spec{
				{
					ID: "1", Subject: "Add the toggle", ActiveForm: "Add the toggle", Description: "\nAdd the   toggle\nand more\n",
					SuccessCriteria: []string{"Add the toggle"},
				}, {
					ID: "2", Subject: "Wire it up", ActiveForm: "Wire it up", Description: "Wire it up",
					SuccessCriteria: []string{"Wire it up"}, DependsOn: []string{"1"},
				},
			}},
		},
		"numbers beside names": {
			"goal: g\nsub_tasks:\n- {id: toggle, description: x, subject: s}\n- {id: 7, description: y, subject: s}\n" +
				"- {id: docs, description: z, subject: s, depends_on: [1, 7]}\n",
			boulder.Plan{Version: 1, Task: "g", Goal: "g", SubTasks: []boulder.Spec{
				{ID: "toggle", Subject: "s", ActiveForm: "s", Description: "x", SuccessCriteria: []string{"s"}},
				{ID: "7", Subject: "s", ActiveForm: "s", Description: "y", SuccessCriteria: []string{"s"}},
				{ID: "docs", Subject: "s", ActiveForm: "s", Description: "z", SuccessCriteria: []string{"s"}, DependsOn: []string{"toggle", "7"}},
			}},
		},
		"taken numbers": {
			"goal: g\nsub_tasks:\n- {id: 2, description: x, subject: s}\n- {description: y, subject: s}\n" +
				"- {id: 4, description: z, subject: s}\n",
			boulder.Plan{Version: 1, Task: "g", Goal: "g", SubTasks: []boulder.Spec{
				{ID: "2", Subject: "s", ActiveForm: "s", Description: "x", SuccessCriteria: []string{"s"}},
				{ID: "5", Subject: "s", ActiveForm: "s", Description: "y", SuccessCriteria: []string{"s"}},
				{ID: "4", Subject: "s", ActiveForm: "s", Description: "z", SuccessCriteria: []string{"s"}},
			}},
		},
		"scalars as they are written": {
			"task: 1e3\nconstraints: only one\nsub_tasks:\n- id: 007\n  subject: true\n  description: 1.50\n" +
				"  gates: true\n  outputs:\n  success_criteria: [0x1F, no, 'it''s']\n  budget: {}\n",
			boulder.Plan{Version: 1, Task: "1e3", Constraints: []string{"only one"}, SubTasks: []boulder.Spec{{
				ID: "007", Subject: "true", ActiveForm: "true", Description: "1.50", Gates: []string{"true"},
				SuccessCriteria: []string{"0x1F", "no", "it's"},
			}}},
		},
		"JSON with tabs": {
			"{\n\t\"task\":\t\"a\\tb \\ud83d\\ude00 \\/\",\n\t\"sub_tasks\":" +
				" [\n\t\t{\"description\":\"x\",\t\"budget\":{\"attempts\":2,\"time\":\"30m\"}}\n\t]\n}\n",
			boulder.Plan{Version: 1, Task: "a\tb 😀 /", SubTasks: []boulder.Spec{{
				ID: "1", Subject: "x", ActiveForm: "x", Description: "x", SuccessCriteria: []string{"x"},
				Budget: &boulder.Budget{Attempts: 2, Time: boulder.Duration(30 * time.Minute)},
			}}},
		},
		"byte order mark and CRLF": {
			"\uFEFFtask: t\r\nsub_tasks:\r\n  - description: |\r\n      a\r\n      b\r\n",
			boulder.Plan{Version: 1, Task: "t", SubTasks: []boulder.Spec{{
				ID: "1", Subject: "a", ActiveForm: "a", Description: "a\nb\n", SuccessCriteria: []string{"a"},
			}}},
		},
	} {
		got, err := taskledger.Parse("p", []byte(tc.in))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(&tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestParseHostileFiles: input that could cause endless recursion or copying is read quickly, or refused.
func TestParseHostileFiles(t *testing.T) {
	t.Parallel()
	const n = 1 << 20
	many := "constraints: [" + strings.Repeat("a, ", 99_999) + "b]\n"
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 9))
	}
	var keys strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	var stairs strings.Builder
	for i := range 200 {
		stairs.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, tc := range map[string]struct{ in, want string }{
		"brackets":   {strings.Repeat("[", 100_000), "max depth of 32"},
		"braces":     {strings.Repeat("{a: ", 50_000), "max depth of 32"},
		"colons":     {strings.Repeat("a: ", 50_000), "not YAML"},
		"staircase":  {stairs.String(), "max depth of 32"},
		"bomb":       {"constraints: &a [x]\n" + bomb, "an anchor or an alias"},
		"keys":       {keys.String(), "no key \"k19\""},
		"quotes":     {"task: " + strings.Repeat("'' ", 80_000), "not YAML"},
		"dash lines": {strings.Repeat("-\n", n), "not a list"},
		"no values":  {strings.Repeat("- a:\n", 80_000), "not a list"},
		"flow keys":  {"facts: [" + strings.Repeat("{a, b}, ", 30_000) + "x]", "facts must be keys and values"},
		"many":       {many, "no sub-tasks"},
		"one flow":   {"facts: {" + strings.Repeat("a, ", 100_000) + "x}", "the key \"a\" is there twice"},
		"documents":  {strings.Repeat("--- a\n", 80_000), "second YAML document"},
		"empty text": {"task: | # x\n" + strings.Repeat("  \n", n), "no sub-tasks"},
		"one word":   {strings.Repeat("a", n), "must be keys and values"},
		"line feeds": {strings.Repeat("\n", n), "file is empty"},
		"10 MB":      {strings.Repeat("a", 10<<20), "larger than 4 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := taskledger.Parse("p", []byte(tc.in))
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 4500 { // 20 problems
				t.Errorf("got %.1000v", err)
			}
		})
	}
}

// TestParseLargePlans: parsing is linear, even for thousands of sub-tasks with a cycle.
func TestParseLargePlans(t *testing.T) {
	t.Parallel()
	plan := &boulder.Plan{Task: "x"}
	for i := range 4_000 {
		s := boulder.Spec{ID: fmt.Sprint("t", i), Description: "do\nit"}
		if i > 0 {
			s.DependsOn = []string{fmt.Sprint("t", i-1)}
		}
		plan.SubTasks = append(plan.SubTasks, s)
	}
	data, err := taskledger.Format(plan)
	if err != nil {
		t.Fatal(err)
	}
	closed := strings.Replace(string(data), "depends_on: []", "depends_on: [t3999]", 1)
	_, err = taskledger.Parse("p", []byte(closed))
	if want := "t0 → t3999 → t3998"; err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
		t.Errorf("%v", err)
	}
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 10<<30); err != nil { // sparse; reading all of it would take very long
		t.Fatal(err)
	}
	var file *taskledger.FileError
	if _, err := taskledger.ReadFile(large); !errors.As(err, &file) {
		t.Errorf("large: %v", err)
	}
	if _, err := taskledger.ReadFile(dir); !errors.As(err, &file) || !strings.Contains(err.Error(), "directory") {
		t.Errorf("directory: %v", err)
	}
	_, err := taskledger.ReadFile(filepath.Join(dir, "none"))
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, &file) {
		t.Errorf("missing: %v", err)
	}
}
