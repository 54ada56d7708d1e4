package executor

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

const (
	failingKept  = 200
	failingName  = 300     // characters
	failingLine  = 4 << 10 // bytes; the rest of a longer line cannot name a test
	pendingTests = 1000
)

// failingTests is a writer that collects the names of failed tests from an output of any length. It knows go test (also
// -json), pytest, unittest, TAP, jest, vitest, mocha, node --test, cargo, nextest, rspec, PHPUnit, surefire, ctest,
// dotnet test and any line "name FAILED".
type failingTests struct {
	line    []byte
	names   map[string]bool
	goTests []string // without their package, which go test prints later
	mocha   bool     // it printed how many fail: numbered items are failures
	items   []string // of a numbered list
}

func (f *failingTests) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		head, tail, ended := bytes.Cut(rest, []byte("\n"))
		if room := failingLine - len(f.line); room > 0 {
			f.line = append(f.line, head[:min(room, len(head))]...)
		}
		if ended {
			f.take()
		}
		rest = tail
	}
	return len(p), nil
}

// list ends the output and returns at most failingKept names, sorted.
func (f *failingTests) list() []string {
	f.take()
	if !f.mocha {
		f.items = nil
	}
	for _, name := range slices.Concat(f.goTests, f.items) {
		f.add(name)
	}
	names := slices.Sorted(maps.Keys(f.names))
	return names[:min(len(names), failingKept)]
}

func (f *failingTests) add(name string) {
	name = text.Short(strings.TrimSpace(name), failingName)
	if name == "" || len(f.names) > failingKept {
		return
	}
	if f.names == nil {
		f.names = map[string]bool{}
	}
	f.names[name] = true
}

var colour = text.Regexp(`\x1b\[[0-9;?]*[ -/]*[@-~]`)

// take processes a line. A TAP directive means that the test may fail.
func (f *failingTests) take() {
	text := strings.TrimRight(colour().ReplaceAllString(string(f.line), ""), " \t\r")
	f.line = f.line[:0]
	switch {
	case strings.HasPrefix(text, "{"):
		f.goEvent(text)
		return
	case !mayName().MatchString(text), mayFail().MatchString(text), f.goLine(text):
		return
	case mochaCount().MatchString(text):
		f.mocha = true
		return
	}
	for _, format := range formats {
		if m := format().FindStringSubmatch(text); m != nil {
			f.add(strings.Join(strings.Fields(strings.Join(m[1:], " ")), " "))
			return
		}
	}
	if m := mochaItem().FindStringSubmatch(text); m != nil && len(f.items) < pendingTests {
		f.items = append(f.items, m[1])
	}
}

var (
	// mayName rules out nearly every line cheaply: an output may have millions.
	mayName    = text.Regexp(`[Ff]ail|FAIL|ERROR|not ok|●|✖|SIG|TIMEOUT|Timeout|could not compile|rspec|^\s*\d+(?:\)| - )`)
	mayFail    = text.Regexp(`(?i)^\s*not ok\b.*#\s*(?:todo|skip)`)
	mochaCount = text.Regexp(`^\s+\d+ failing$`)
	mochaItem  = text.Regexp(`^\s+\d+\) (\S.*?):?$`)
)

var (
	goTest    = text.Regexp(`^\s*--- FAIL: (\S+)`)
	goPackage = text.Regexp(`^FAIL\t(\S+)(?:\t[\d.]+s| (\[.+\])|\t(\[.+\]))?$`)
)

// goLine reads a line of plain go test. A package that fails without naming a test (build error, panic) is the name.
func (f *failingTests) goLine(text string) bool {
	if m := goTest().FindStringSubmatch(text); m != nil {
		if len(f.goTests) < pendingTests {
			f.goTests = append(f.goTests, m[1])
		}
		return true
	}
	m := goPackage().FindStringSubmatch(text)
	if m == nil {
		return false
	}
	for _, test := range f.goTests {
		f.add(m[1] + "." + test)
	}
	if len(f.goTests) == 0 || m[2]+m[3] != "" {
		f.add(m[1] + " " + m[2] + m[3])
	}
	f.goTests = nil
	return true
}

func (f *failingTests) goEvent(text string) {
	var e struct{ Action, Package, Test, ImportPath string }
	if json.Unmarshal([]byte(text), &e) != nil {
		return
	}
	switch {
	case e.Action == "build-fail":
		f.add(e.ImportPath + " [build failed]")
	case e.Action == "fail" && e.Test != "":
		f.add(e.Package + "." + e.Test)
	case e.Action == "fail" && e.Package != "":
		f.add(e.Package)
	}
}

// formats are tried in this order. The groups of a match, joined by a space, are the name.
var formats = []func() *regexp.Regexp{
	// exunit: 1) test adds (AdderTest)
	text.Regexp(`^\s+\d+\) (test .+ \([\w.]+\))$`),
	// TAP: not ok 3 - adds # time=3ms
	text.Regexp(`^\s*not ok\b(?:\s+\d+)?(?:\s+-)?\s+([^#]*)`),
	// pytest: FAILED tests/test_a.py::test_x[1 2] - assert 1 == 2; also files that cannot be collected
	text.Regexp(`^(?:FAILED|ERROR) (\S+\.py(?:::.+?)?)(?: - .*)?$`),
	text.Regexp(`^(\S+\.py::.+?) (?:FAILED|ERROR)(?:\s+\[\s*\d+%\])?$`),
	// unittest: FAIL: test_x (tests.test_a.TestA.test_x)
	text.Regexp(`^(?:FAIL|ERROR): (\w+ \([\w.]+\))`),
	// vitest: FAIL  src/a.test.ts > suite > test
	text.Regexp(`^\s*FAIL\s+(?:\|\S+\|\s+)?(\S+\.[cm]?[jt]sx? > .+)$`),
	// jest: FAIL src/a.test.js (5.2 s), then ● suite › test
	text.Regexp(`^\s*FAIL\s+(?:\S+\s+)?(\S+\.(?:[cm]?[jt]sx?|vue|svelte))(?:\s+(?:\([\d.]+ m?s\)|\[.*\]))?$`),
	text.Regexp(`^\s{0,4}● ([^›]+ › .+)$`),
	// node --test: ✖ adds (1.5ms)
	text.Regexp(`^\s*✖ (.+?) \([\d.]+ms\)$`),
	// nextest: FAIL [   0.004s] crate tests::adds
	text.Regexp(`^\s*(?:FAIL|SIGABRT|SIGSEGV|TIMEOUT) \[\s*[\d.]+s\] (?:\(\s*\d+/\d+\) )?(.+)$`),
	// cargo: test tests::adds ... FAILED; a crate that does not build
	text.Regexp(`^test (\S.*?) \.\.\. FAILED$`),
	text.Regexp("^error: (could not compile `[^`]+`)"),
	// rspec: rspec ./spec/a_spec.rb:12 # Adder adds (the line moves with edits)
	text.Regexp(`^rspec '?(\./[^\s:\[']+)\S* (# .+)$`),
	// PHPUnit: 1) FooTest::testBar
	text.Regexp(`^\d+\) ([\w\\]+::\w+.*)$`),
	// surefire: [ERROR]   FooTest.testBar:23 expected …; [ERROR] FooTest.testBar -- Time elapsed: 0.1 s <<< FAILURE!
	text.Regexp(`^\[ERROR\]\s+([\w.$]+\.[\w$]+)(?:\(.*?\))?(?::\d+| -- .*<<< (?:FAILURE|ERROR)!$)`),
	// ctest: 3 - adder (Failed)
	text.Regexp(`^\s*\d+ - (\S+) \((?:Failed|Timeout|SEGFAULT|Subprocess .*|Not Run|Exception.*)\)`),
	// dotnet test: Failed Namespace.Test [12 ms]
	text.Regexp(`^\s+Failed (\S.*?) \[`),
	// XCTest
	text.Regexp(`^Test Case '(.+)' failed`),
	// gradle and others: FooTest > testBar FAILED
	text.Regexp(`^\s*(\S.*?)(?: \.{2,})? FAILED$`),
}
