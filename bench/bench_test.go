package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/managertest"
	"github.com/bouldermgr/manager/testkit/octest"
)

// TestMain lets the test binary act as the helper processes and the stand-in for OpenCode.
func TestMain(m *testing.M) {
	octest.PlayStandIn()
	if len(os.Args) > 1 && (os.Args[1] == bareCommand || os.Args[1] == fakeCommand) {
		main()
		return
	}
	os.Exit(m.Run())
}

func managerIn(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "manager")
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/manager").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestEveryLineOnce fails if `make bench` does not run to its end or loses a line, except that of `opencode run`.
func TestEveryLineOnce(t *testing.T) {
	t.Parallel()
	opencode, err := octest.Find()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	args := []string{"-once", "-manager", managerIn(t, t.TempDir()), "-opencode", opencode, "-source", ".."}
	if err := runAll(t.Context(), args, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, line := range []string{
		"1 at once manager run --attach", "2 in a chain", "20 sessions",
		"project of 40 files", "project of 60 files",
		"a step, chain", "a step, fan-out", "slowest of 4 blockers", "slowest command, 2 blockers",
		"first prompt, 20 files run --isolate", "disk, 20 files slot", "1 at once, gate of 0 s", "1 repositories: text conflicts; 1 conflicts",
		"first byte boulder", "an event on the page", "1 at once, shown 4 pages",
		"lock files; 0 conflicts asked the model, 0 tokens each",
	} {
		if !strings.Contains(oneLine(out.String()), line) {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "nothing") {
		t.Errorf("a line has no result:\n%s", out.String())
	}
}

// TestPass fails if a measurement without results passes.
func TestPass(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ours, theirs, limit float64
		want                bool
	}{
		{1, 2, 0.5, true}, {1.0001, 2, 0.5, false}, {0, 0, 0.5, false}, {1, 0, 0.5, false}, {math.NaN(), 1, 0.5, false},
		{9, 1, 0, true}, {math.NaN(), 1, 0, false},
	} {
		c := comparison{ours: side{results: []float64{test.ours}}, theirs: side{results: []float64{test.theirs}}, limit: test.limit}
		if got := c.pass(); got != test.want {
			t.Errorf("%v against %v: pass = %v", test.ours, test.theirs, got)
		}
	}
	if got := median([]float64{9, 1, 2, 4}); got != 3 {
		t.Errorf("median = %v", got)
	}
}

func TestRaceTakesTurns(t *testing.T) {
	t.Parallel()
	var order string
	racer := func(name string) contender {
		return contender{name, func(context.Context) (float64, error) {
			order += name
			return 1, nil
		}}
	}
	w := &world{}
	if results, err := w.race(t.Context(), 3, racer("a"), racer("b")); err != nil || order != "abbaab" || len(results[1]) != 3 {
		t.Errorf("order %s, results %v, error %v", order, results, err)
	}
	broken := contender{"c", func(context.Context) (float64, error) { return 0, io.EOF }}
	if _, err := w.race(t.Context(), 3, racer("a"), broken); !errors.Is(err, io.EOF) {
		t.Errorf("error of a broken contender: %v", err)
	}
}

// BenchmarkLoop runs the steps alone, for a profile.
func BenchmarkLoop(b *testing.B) {
	for _, shape := range []string{shapeChain, shapeFanOut} {
		for _, steps := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", shape, steps), func(b *testing.B) {
				var sum float64
				for b.Loop() {
					took, err := loopSteps(b.Context(), b.TempDir(), shape, steps, &managertest.Runner{})
					if err != nil {
						b.Fatal(err)
					}
					sum += took
				}
				b.ReportMetric(sum/float64(b.N)*1e6, "µs/step")
			})
		}
	}
}
