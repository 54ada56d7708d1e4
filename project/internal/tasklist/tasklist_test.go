package tasklist

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/taskledger"
	"github.com/bouldermgr/manager/testkit/golden"
)

// TestRead reads the files of testdata/*.txtar; what comes of them is in the golden file of the same name.
func TestRead(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	for _, path := range archives {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, f := range archive.Files {
				name, tag, _ := strings.Cut(f.Name, "#")
				fmt.Fprintf(&got, "=== %s\n%s\n", f.Name, result(t, name, f.Data, Options{Tag: tag, Boxes: tag == "boxes", Now: time.Unix(1_700_000_000, 0)}))
			}
			golden.Compare(t, strings.TrimSuffix(filepath.Base(path), ".txtar")+".golden", got.String())
		})
	}
}

// result is what a test compares: the error, or the notes and the plan.
func result(t testing.TB, name string, data []byte, o Options) string {
	t.Helper()
	l, err := Read(name, data, o)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d of %d\n", l.Kind, l.Taken, l.Total)
	for _, n := range l.Notes {
		fmt.Fprintf(&b, "%d %s: %s: %s\n", n.Line, n.What, n.Item, n.Why)
	}
	return b.String() + written(t, l)
}

// written returns the plan file without comments and seal. That it can be written says that it can be run.
func written(t testing.TB, l *List) string {
	t.Helper()
	plan := taskledger.Seal(l.Plan, boulder.OriginList, "", time.Unix(1_700_000_000, 0))
	data, err := taskledger.FormatRemarked(plan, l.Remarks)
	if err != nil {
		t.Fatalf("the plan cannot be written: %v\n%+v", err, plan)
	}
	var kept []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "seal:") {
			break
		}
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "    active_form:") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// A text names a command that must succeed, or it does not: a wrong gate would be red for ever.
func TestCommandsIn(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"npm test":                                   "npm test",
		"Run `go test ./...`.":                       "go test ./...",
		"pnpm typecheck passes":                      "pnpm typecheck",
		"All is well: `make lint` must pass":         "make lint",
		"- `cargo test` exits with code 0":           "cargo test",
		"CI=1 npm run test:unit passes":              "CI=1 npm run test:unit",
		"Verify with `./scripts/check.sh --all`":     "./scripts/check.sh --all",
		"Run `npm run dev` and look":                 "",
		"`npm test` fails without the fix":           "",
		"Do not run `npm test`":                      "",
		"`npm test` is documented":                   "",
		"Typecheck passes":                           "",
		"make sure it passes":                        "",
		"go on as before":                            "",
		"The user can run `foo` with `bar`":          "",
		"npm start":                                  "",
		"Verify in browser using dev-browser skill":  "",
		"1. Unit tests with `pytest -q`\n2. By hand": "pytest -q",
	} {
		if got := strings.Join(commandsIn(said), "; "); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

// FuzzRead: any file gives an error, or a plan that a plan file can hold.
func FuzzRead(f *testing.F) {
	archives, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Read("list", data, Options{Now: time.Unix(0, 0)})
		_, unknown := errors.AsType[*Unknown](err)
		_, refused := errors.AsType[*taskledger.FileError](err)
		switch {
		case unknown, refused:
		case err != nil:
			t.Fatalf("%T %v", err, err)
		default:
			written(t, l)
		}
	})
}
