package simulate

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

var (
	oneSeed = flag.Uint64("seed", 0, "replay this one world, and print its log with -v")
	// 1,000 worlds reach 71.8 % of the statements of boulder, schedule, orchestrator and enforcer, 2,000 reach 72.3 %.
	runs  = flag.Int("runs", 1_000, "how many worlds to simulate")
	fresh = flag.Bool("fresh", false, "begin with a random seed instead of 1")
)

// TestMain makes garbage collection rarer. 1,500 saves an eighth of the time of 400, and costs 200 MB.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1_500)
	os.Exit(m.Run())
}

// TestSimulation runs boulders in random worlds. `make simulate` runs many more, from a fresh seed.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if *oneSeed != 0 {
		w := simulate(t, scratch(t), *oneSeed, true)
		t.Log("\n" + w.log.String())
		return
	}
	n := *runs
	if testing.Short() {
		n = min(n, 500)
	}
	first := firstSeed(n)
	var seen census
	var next, failed atomic.Int64
	if n >= 1_000 {
		t.Cleanup(func() {
			if !t.Failed() {
				seen.check(t)
			}
		})
	}
	for range runtime.GOMAXPROCS(0) {
		t.Run("shard", func(t *testing.T) {
			t.Parallel()
			dir := scratch(t)
			for i := next.Add(1) - 1; i < int64(n) && failed.Load() < 5; i = next.Add(1) - 1 {
				w := simulate(t, dir, first+uint64(i), false)
				seen.add(w)
				if len(w.broken) > 0 {
					failed.Add(1)
				}
			}
		})
	}
}

func firstSeed(n int) uint64 {
	if !*fresh {
		return 1
	}
	first := rand.Uint64N(1 << 53)
	fmt.Printf("simulate: %d worlds from seed %d\n", n, first)
	return first
}

// TestDeterminism: a seed always gives the same log, byte for byte, with its crashes. Map order, randomness or the real
// clock would break it.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	n := 150
	if testing.Short() {
		n = 30
	}
	dir, from := scratch(t), firstSeed(n)
	for seed := from; seed < from+uint64(n); seed++ {
		first, second := simulate(t, dir, seed, true), bubble(t, dir, newScenario(seed), true)
		if first.log.String() != second.log.String() {
			t.Fatalf("seed %d: two logs (-first +second):\n%s", seed, cmp.Diff(lines(first), lines(second)))
		}
	}
}

// scratch returns a directory for databases, in memory if possible, where commits cost no disk access.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "simulate") //nolint:usetesting // t.TempDir may be on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// simulate runs one world, and again without crashes if both must end alike. It fails the test for what it finds.
func simulate(t *testing.T, dir string, seed uint64, logging bool) *world {
	t.Helper()
	sc := newScenario(seed)
	w := bubble(t, dir, sc, logging)
	w.checkDecisions()
	if sc.class.same() && len(w.broken) == 0 {
		sc.calm = true
		calm := bubble(t, dir, sc, logging)
		if d := cmp.Diff(calm.ending(), w.ending()); d != "" || len(calm.broken) > 0 {
			w.broken = append(w.broken, calm.broken...)
			w.log.WriteString("\nwithout crashes:\n" + calm.log.String())
			w.broken = append(w.broken, "the same end as without crashes: (-without +with)\n"+d)
		}
	}
	for _, b := range w.broken {
		t.Errorf("seed %d (%s): %s\nreplay it: go test ./testkit/simulate -run TestSimulation -seed=%d -v",
			seed, sc.class, b, seed)
	}
	return w
}

// bubble runs one world in a synctest bubble with its own clock. The bubble ends only if no goroutine is left.
func bubble(t *testing.T, dir string, sc scenario, logging bool) (w *world) {
	t.Helper()
	dir, err := os.MkdirTemp(dir, "") //nolint:usetesting // see scratch
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != nil {
			w.broken = append(w.broken, fmt.Sprintf("no goroutine is left: %v", r))
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(sc, logging)
		w.live(dir)
	})
	return w
}
