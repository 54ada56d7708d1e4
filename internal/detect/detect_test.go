package detect_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/internal/detect"
)

func project(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func commands(found []detect.Command) []string {
	var all []string
	for _, c := range found {
		all = append(all, c.Run+" because "+c.Why)
	}
	return all
}

func TestTests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"nothing":       {nil, nil},
		"go":            {map[string]string{"go.mod": "module x\n"}, []string{"go test ./... because there is a go.mod"}},
		"go below only": {map[string]string{"tools/go.mod": "module x\n"}, nil},
		"npm": {
			map[string]string{"package.json": `{"scripts": {"test": "vitest"}}`},
			[]string{`npm test because package.json has the script "test"`},
		},
		"npm as npm init writes it": {
			map[string]string{"package.json": `{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}`}, nil,
		},
		"npm without a test":    {map[string]string{"package.json": `{"scripts": {"build": "tsc"}}`}, nil},
		"npm with a blank one":  {map[string]string{"package.json": `{"scripts": {"test": " "}}`}, nil},
		"npm with a list":       {map[string]string{"package.json": `{"scripts": {"test": ["a"]}}`}, nil},
		"a broken package.json": {map[string]string{"package.json": `{"scripts": {"test": "x"`}, nil},
		"cargo":                 {map[string]string{"Cargo.toml": "[package]\n"}, []string{"cargo test because there is a Cargo.toml"}},
		"cargo with a workspace": {
			map[string]string{"Cargo.toml": "[package]\nname = \"x\"\n\n[workspace]\n"},
			[]string{"cargo test --workspace because Cargo.toml has a workspace"},
		},
		"pytest by pyproject.toml": {
			map[string]string{"pyproject.toml": "[project]\n[tool.pytest.ini_options]\n"},
			[]string{"pytest because pyproject.toml configures pytest"},
		},
		"pytest by setup.cfg": {
			map[string]string{"setup.cfg": "[tool:pytest]\n"}, []string{"pytest because setup.cfg configures pytest"},
		},
		"pytest by a file":        {map[string]string{"tests/test_x.py": ""}, []string{"pytest because there is tests/test_x.py"}},
		"pytest by a file beside": {map[string]string{"x_test.py": ""}, []string{"pytest because there is x_test.py"}},
		"python without tests":    {map[string]string{"pyproject.toml": "[project]\n", "latest.py": "", "tests/data.txt": ""}, nil},
		"tox without pytest":      {map[string]string{"tox.ini": "[tox]\n"}, nil},
		"make": {
			map[string]string{"Makefile": ".PHONY: test\nall: x\n\ntest: all\n\tsh test.sh\n"},
			[]string{`make test because Makefile has the target "test"`},
		},
		"make with several targets": {
			map[string]string{"GNUmakefile": "check test::\n\ttrue\n"}, []string{`make test because GNUmakefile has the target "test"`},
		},
		"make without the target": {map[string]string{
			"Makefile": ".PHONY: test\nall: test\ntest := a\ntest ::= b\n# test: no\n\ttest: no\ntests: x\nmy-test:\n",
		}, nil},
		"make takes the first file": {map[string]string{"makefile": "all:\n", "Makefile": "test:\n"}, nil},
		"make where go says more":   {map[string]string{"go.mod": "", "Makefile": "test:\n"}, []string{"go test ./... because there is a go.mod"}},
		"go and npm": {
			map[string]string{"go.mod": "", "package.json": `{"scripts": {"test": "jest"}}`},
			[]string{"go test ./... because there is a go.mod", `npm test because package.json has the script "test"`},
		},
	} {
		if diff := cmp.Diff(test.want, commands(detect.Tests(project(test.files)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	all := project(map[string]string{
		"go.mod": "", "Cargo.toml": "[workspace]", "package.json": `{"scripts": {"lint": "eslint ."}}`, "Makefile": "lint:\n",
	})
	want := []string{
		"go vet ./... because there is a go.mod", `npm run lint because package.json has the script "lint"`,
		"cargo check --workspace because Cargo.toml has a workspace",
	}
	if diff := cmp.Diff(want, commands(detect.Lint(all))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := detect.Lint(project(map[string]string{"Makefile": "lint:\n", "package.json": "{}"})); got != nil {
		t.Errorf("without any: %v", got)
	}
}

// A pipe in place of a manifest would hang its reader. A directory is no manifest.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"package.json", "go.mod"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"Cargo.toml", "Makefile"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := detect.Tests(os.DirFS(dir)); got != nil {
		t.Errorf("found %v", got)
	}
}

// Whatever the files contain, every command has a reason and a program, and none is found twice.
func TestAnything(t *testing.T) {
	t.Parallel()
	names := []string{"go.mod", "package.json", "Cargo.toml", "pyproject.toml", "tox.ini", "Makefile", "tests/test_a.py"}
	rapid.Check(t, func(t *rapid.T) {
		files := map[string]string{}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), func(s string) string { return s }).Draw(t, "files") {
			files[name] = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
				`{"scripts":{"test":"a","lint":"b"}}`, "test:\n", "[workspace]\n[tool.pytest]\n[pytest]\n", `{"scripts":null}`,
			})).Draw(t, name)
		}
		seen := map[string]bool{}
		for _, c := range append(detect.Tests(project(files)), detect.Lint(project(files))...) {
			if c.Why == "" || c.Program == "" || !strings.HasPrefix(c.Run, c.Program) || seen[c.Run] {
				t.Fatalf("%+v", c)
			}
			seen[c.Run] = true
		}
	})
}

func TestMissing(t *testing.T) {
	t.Parallel()
	node := map[string]string{"package.json": `{"scripts": {"lint": "eslint"}}`, "node_modules/.bin/tsc": ""}
	makes := map[string]string{"Makefile": "CC := cc\n.PHONY: all\nall check: main.o\n\t$(CC) main.o\n"}
	for _, test := range []struct {
		files      map[string]string
		line, want string
	}{
		{node, "npm run nosuch", `package.json has no script "nosuch"`},
		{node, "yarn run nosuch", `package.json has no script "nosuch"`},
		{node, "npm run lint", ""},
		{node, "yarn run tsc", ""},
		{node, "npm run nosuch --if-present", ""},
		{node, "cd web && npm run nosuch", ""},
		{nil, "npm run nosuch", ""},
		{map[string]string{"package.json": "{"}, "npm run nosuch", ""},
		{makes, "make nosuch", `Makefile has no target "nosuch"`},
		{makes, "make check", ""},
		{makes, "make -C src nosuch", ""},
		{map[string]string{"Makefile": "all:\n", "nosuch.c": ""}, "make nosuch", ""},
		{map[string]string{"Makefile": "include more.mk\n"}, "make nosuch", ""},
		{map[string]string{"Makefile": "$(ALL): x\n"}, "make nosuch", ""},
		{map[string]string{"Makefile": "%: %.x\n"}, "make nosuch", ""},
	} {
		if got := detect.Missing(project(test.files), test.line); got != test.want {
			t.Errorf("%s: %q, want %q", test.line, got, test.want)
		}
	}
}

// Scripts and targets are named as commands; what is no plain word is left out.
func TestScripts(t *testing.T) {
	t.Parallel()
	got := detect.Scripts(fstest.MapFS{
		"package.json": {Data: []byte(`{"scripts":{"lint":"x","build:all":"x","evil\nname":"x","a b":"x"}}`)},
		"Makefile":     {Data: []byte("check test: x\n\t@true\n.PHONY: check\n$(X): y\nV := 1\n")},
		"justfile":     {Data: []byte("fmt:\n  gofmt -w .\n")},
	})
	if want := []string{"npm run build:all", "npm run lint", "make check", "make test", "just fmt"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
