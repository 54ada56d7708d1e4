package executor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

// The samples are real outputs of the tools, shortened.
func TestFailingTests(t *testing.T) {
	for _, test := range []struct {
		name, output string
		want         []string
	}{
		{"go test", `--- FAIL: TestA (0.00s)
    a_test.go:7: got 1
    --- FAIL: TestA/sub_one (0.00s)
FAIL
FAIL	example.com/m/a	0.003s
ok  	example.com/m/b	0.002s
# example.com/m/c
c/c.go:3:2: undefined: x
FAIL	example.com/m/c [build failed]
panic: boom
FAIL	example.com/m/d	0.011s
FAIL
`, []string{"example.com/m/a.TestA", "example.com/m/a.TestA/sub_one", "example.com/m/c [build failed]", "example.com/m/d"}},
		{"go test -json", `{"Time":"2026-11-21T12:00:00Z","Action":"run","Package":"m/a","Test":"TestA"}
{"Action":"output","Package":"m/a","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}
{"Action":"fail","Package":"m/a","Test":"TestA","Elapsed":0}
{"Action":"fail","Package":"m/a","Elapsed":0.003}
{"ImportPath":"m/c","Action":"build-fail"}
`, []string{"m/a", "m/a.TestA", "m/c [build failed]"}},
		{"pytest", `tests/test_a.py .F                                           [100%]
=================================== FAILURES ===================================
______________________________ test_adds[1 2-3] ________________________________
E       assert 4 == 3
=========================== short test summary info ============================
FAILED tests/test_a.py::test_adds[1 2-3] - assert 4 == 3
FAILED tests/test_a.py::TestB::test_x - ValueError: no - really
ERROR tests/test_c.py - ModuleNotFoundError: No module named 'c'
========================= 2 failed, 1 passed, 1 error in 0.12s =================
`, []string{"tests/test_a.py::TestB::test_x", "tests/test_a.py::test_adds[1 2-3]", "tests/test_c.py"}},
		{"pytest -v", "tests/test_a.py::test_adds FAILED      [ 50%]\ntests/test_a.py::test_subs PASSED   [100%]\n",
			[]string{"tests/test_a.py::test_adds"}},
		{"unittest", `======================================================================
FAIL: test_x (tests.test_a.TestA.test_x)
----------------------------------------------------------------------
FAILED (failures=1)
`, []string{"test_x (tests.test_a.TestA.test_x)"}},
		{"TAP", `TAP version 13
ok 1 - subtracts
not ok 2 - adds
  ---
  expected: 3
not ok 3 - later # TODO not yet
not ok 4 divides # time=3ms
1..4
`, []string{"adds", "divides"}},
		{"jest", "\x1b[1m\x1b[31mFAIL\x1b[39m\x1b[22m src/sum.test.js (5.2 s)\n" + `  adder
    ✓ subtracts (1 ms)
    ✕ adds (2 ms)

  ● adder › adds 1 + 2

    expect(received).toBe(expected)

  ● Console

Tests:       1 failed, 1 passed, 2 total
`, []string{"adder › adds 1 + 2", "src/sum.test.js"}},
		{"vitest", ` ❯ src/sum.test.ts (2 tests | 1 failed) 5ms
⎯⎯⎯⎯⎯⎯⎯ Failed Tests 1 ⎯⎯⎯⎯⎯⎯⎯
 FAIL  src/sum.test.ts > adder > adds
AssertionError: expected 4 to be 3
`, []string{"src/sum.test.ts > adder > adds"}},
		{"mocha", `  adder
    ✔ subtracts
    1) adds


  1 passing (4ms)
  1 failing

  1) adder
       adds:
     AssertionError
`, []string{"adder", "adds"}},
		{"a numbered list is no mocha", "Steps:\n  1) compile\n  2) link\nerror: no space left\n", nil},
		{"node --test", "✔ subtracts (0.5ms)\n✖ adds (1.25ms)\nℹ fail 1\n", []string{"adds"}},
		{"cargo", `running 2 tests
test tests::adds ... FAILED
test tests::subs ... ok
failures:
    tests::adds
test result: FAILED. 1 passed; 1 failed; 0 ignored
error: test failed, to rerun pass ` + "`--lib`\n", []string{"tests::adds"}},
		{"cargo that does not build", "error[E0425]: cannot find value `x`\nerror: could not compile `adder` (lib) due to 1 error\n",
			[]string{"could not compile `adder`"}},
		{"nextest", "        FAIL [   0.004s] adder tests::adds\n", []string{"adder tests::adds"}},
		{"rspec", `Failed examples:

rspec ./spec/adder_spec.rb:12 # Adder adds
rspec './spec/adder_spec.rb[1:2]' # Adder divides
`, []string{"./spec/adder_spec.rb # Adder adds", "./spec/adder_spec.rb # Adder divides"}},
		{"phpunit", "There was 1 failure:\n\n1) AdderTest::testAdds with data set #1\nFailed asserting that 4 matches 3.\n",
			[]string{"AdderTest::testAdds with data set #1"}},
		{"surefire", `[ERROR] Failures:
[ERROR]   AdderTest.testAdds:23 expected: <3> but was: <4>
[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0
`, []string{"AdderTest.testAdds"}},
		{"gradle", "AdderTest > adds() FAILED\n    org.opentest4j.AssertionFailedError at AdderTest.java:12\n", []string{"AdderTest > adds()"}},
		{"ctest", "The following tests FAILED:\n\t  3 - adder (Failed)\n\t  4 - loop (Timeout)\n", []string{"adder", "loop"}},
		{"dotnet", "  Failed Tests.AdderTests.Adds [12 ms]\n  Passed Tests.AdderTests.Subs [1 ms]\n", []string{"Tests.AdderTests.Adds"}},
		{"exunit", "  1) test adds (AdderTest)\n     test/adder_test.exs:5\n", []string{"test adds (AdderTest)"}},
		{"no test", "make: *** [Makefile:3: all] Error 2\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := failingIn(test.output, len(test.output)); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// failingIn parses an output written in pieces of n bytes.
func failingIn(output string, n int) []string {
	var f failingTests
	for piece := range slices.Chunk([]byte(output), max(1, n)) {
		f.Write(piece)
	}
	return f.list()
}

// The split into writes changes nothing, and what is kept is bounded for any output.
func TestFailingTestsInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.OneOf(
			rapid.SampledFrom([]string{"--- FAIL: TestA (0s)", "FAIL\tm/a\t0.1s", "not ok 3 - x", "  1) mocha", "  1 failing", "{", "\x1b[31mFAILED"}),
			rapid.String(),
		)).Draw(t, "lines")
		output := strings.Join(lines, "\n")
		whole := failingIn(output, len(output))
		if got := failingIn(output, rapid.IntRange(1, 20).Draw(t, "piece")); !slices.Equal(got, whole) {
			t.Fatalf("in pieces %q, whole %q", got, whole)
		}
		if len(whole) > failingKept {
			t.Fatalf("%d names", len(whole))
		}
	})
}

func TestFailingTestsAreBounded(t *testing.T) {
	var f failingTests
	for i := range 1000 {
		fmt.Fprintf(&f, "not ok %d - test %04d %s\n", i, i, strings.Repeat("x", 50_000))
	}
	names := f.list()
	if len(names) != failingKept || cap(f.line) > 4*failingLine {
		t.Errorf("%d names, a line of %d bytes", len(names), cap(f.line))
	}
}

func TestNoWorse(t *testing.T) {
	red := func(names ...string) boulder.Gate { return boulder.Gate{ExitCode: 1, Output: "out", Failing: names} }
	said := func(output string) boulder.Gate { return boulder.Gate{ExitCode: 2, Output: output} }
	exit := func(g boulder.Gate, code int) boulder.Gate { g.ExitCode = code; return g }
	many := make([]string, failingKept)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, test := range []struct {
		name          string
		before, after boulder.Gate
		want          string
	}{
		{"the same", red("A", "B"), red("A", "B"), "red before too: A, B"},
		{"fewer", red("A", "B"), red("B"), "red before too: B"},
		{"no names any more", red("A"), red(), ""},
		{"names only now", red(), red("A"), ""},
		{"as many as are kept", red(many...), red(many...), ""},
		{"the same output", said("pid 12: took 3s: x.c:5: error"), said("pid 99: took 4.2s: x.c:5: error"),
			"red before too, with the same output"},
		{"another output", said("x.c:5: error"), said("x.c:6: error"), ""},
		{"the same end of a long output", said("[cut: the last 9 of 99 characters]\nab\nc\nend"),
			said("[cut: the last 9 of 98 characters]\nb\nc\nend"), "red before too, with the same output"},
		{"crashed", red("A"), exit(red("A"), 139), ""},
		{"not found", said("sh: x: not found"), exit(said("sh: x: not found"), 127), ""},
		{"another count for status", red("A", "B"), exit(red("A"), 3), "red before too: A"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := NoWorse(&test.before, test.after); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	for _, after := range []boulder.Gate{red("A"), exit(red(), 127), {ExitCode: -1, TimedOut: true}} {
		if got := NoWorse(&boulder.Gate{ExitCode: 1, NoWorse: "nothing to compare with"}, after); got != "nothing to compare with" {
			t.Errorf("red before in a way that decides nothing, but now: %q", got)
		}
	}
	if got := NoWorse(nil, red("A")); got != "" {
		t.Errorf("nothing was measured before, but %q", got)
	}
}

// An excused gate has no failing test that passed before.
func TestNoWorseExcusesNothingNew(t *testing.T) {
	names := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"A", "B", "C", "D"}), rapid.ID[string])
	rapid.Check(t, func(t *rapid.T) {
		gate := func(label string) boulder.Gate {
			return boulder.Gate{
				ExitCode: rapid.IntRange(-1, 130).Draw(t, label+" exit"), Failing: names.Draw(t, label),
				Output:   rapid.SampledFrom([]string{"x", "y"}).Draw(t, label+" output"),
				TimedOut: rapid.Bool().Draw(t, label+" timed out"),
			}
		}
		before, after := gate("before"), gate("after")
		if NoWorse(&before, after) == "" {
			return
		}
		if before.Green() || after.Green() || before.TimedOut || after.TimedOut || after.ExitCode < 0 {
			t.Fatal("excused")
		}
		for _, name := range after.Failing {
			if !slices.Contains(before.Failing, name) {
				t.Fatalf("%s is new", name)
			}
		}
	})
}
