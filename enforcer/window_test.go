package enforcer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

// feed makes a window of calls with ids in order, each reported twice.
func feed(r Rules, calls ...Call) *Window {
	w := NewWindow("s", r)
	for i, c := range calls {
		c.ID = fmt.Sprint("call", i)
		w.Call(c)
		w.Call(c)
	}
	return w
}

func bash(command, output string) Call {
	input, _ := json.Marshal(map[string]string{"command": command})
	return Call{Tool: "bash", Input: input, Output: output}
}

func read(file, output string) Call {
	return Call{Tool: "read", Input: json.RawMessage(`{"filePath":"` + file + `"}`), Output: output}
}

func fails(c Call) Call      { c.Failed = true; return c }
func afterNudge(c Call) Call { c.AfterNudge = true; return c }

func edit(content string) Call {
	return Call{
		Tool: "write", Input: json.RawMessage(`{"content":"` + content + `","filePath":"a"}`), Output: "ok", Edited: true,
	}
}

func times(n int, calls ...Call) []Call { return slices.Concat(slices.Repeat([][]Call{calls}, n)...) }

func (w *Window) kinds() []string {
	var out []string
	for _, f := range w.Findings {
		out = append(out, string(f.Kind)+" "+string(f.Rule))
	}
	return out
}

func TestWindow(t *testing.T) {
	rules := DefaultRules()
	missing, a, b := fails(read("nope", "File not found")), read("a", "one"), read("b", "two")
	for _, test := range []struct {
		name  string
		calls []Call
		want  []string
	}{
		{"three times the same", times(3, a), nil},
		{"four times the same", times(4, a), []string{"stop repeat"}},
		{"four times the same among others", []Call{a, b, a, read("c", "3"), a, read("d", "4"), a}, []string{"stop repeat"}},
		{"other arguments", []Call{a, a, a, read("a2", "one")}, nil},
		{"order and space of arguments", []Call{
			{Tool: "x", Input: json.RawMessage(`{"a":1,"b":2}`)}, {Tool: "x", Input: json.RawMessage(`{"b":2,"a":1}`)},
			{Tool: "x", Input: json.RawMessage(`{ "a": 1, "b": 2 }`)}, {Tool: "x", Input: json.RawMessage("{\"b\":2,\n\"a\":1}")},
		}, []string{"stop repeat"}},
		{"a command's description is prose", []Call{
			{Tool: "bash", Input: json.RawMessage(`{"command":"make","description":"Build"}`)},
			{Tool: "bash", Input: json.RawMessage(`{"command":"make","description":"Build it"}`)},
			{Tool: "bash", Input: json.RawMessage(`{"command":"make","description":"Run make"}`)},
			{Tool: "bash", Input: json.RawMessage(`{"command":"make"}`)},
		}, []string{"stop repeat"}},
		{"tests after ever new edits", []Call{
			bash("go test", "FAIL"), edit("1"), bash("go test", "FAIL"), edit("2"), bash("go test", "FAIL"), edit("3"),
			bash("go test", "FAIL"), edit("4"), bash("go test", "FAIL"),
		}, nil},
		{"tests after the same two edits", times(4, edit("1"), bash("go test", "FAIL"), edit("2"), bash("go test", "FAIL")),
			[]string{"stop repeat"}},
		{"nine times waiting", times(9, bash("sleep 30; gh run view 7", "in progress")), nil},
		{"ten times waiting", times(10, bash("sleep 30; gh run view 7", "in progress")), []string{"stop repeat"}},
		{"waiting that fails", times(9, fails(bash("curl -f localhost/healthz", "refused"))), nil},
		{"waiting between looks", times(3, bash("sleep 5", ""), read("log", "starting")), nil},
		{"twice the same error", times(2, missing), nil},
		{"three times the same error", times(3, missing), []string{"nudge errors"}},
		{"the fourth was under way", times(4, missing), []string{"nudge errors"}},
		{"the fourth after the nudge", append(times(3, missing), afterNudge(missing)), []string{"nudge errors", "stop errors"}},
		{"twice as many, heard or not", times(8, missing), []string{"nudge errors", "stop errors"}},
		{"another error", []Call{missing, missing, fails(read("nope", "permission denied"))}, nil},
		{"A B A B A", []Call{a, b, a, b, a}, nil},
		{"A B A B A B", []Call{a, b, a, b, a, b}, []string{"stop alternate"}},
		{"A B A C A B", []Call{a, b, a, read("c", "3"), a, b}, nil},
	} {
		w := feed(rules, test.calls...)
		if got := w.kinds(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		for _, f := range w.Findings {
			if f.Session != "s" || f.Reason == "" {
				t.Errorf("%s: a finding that does not say what was seen: %+v", test.name, f)
			}
		}
	}
}

func TestMessagesWithoutTools(t *testing.T) {
	for _, test := range []struct {
		messages string // t: calls a tool, -: does not, h: does not after a nudge
		want     []string
	}{
		{"--", nil},
		{"--t--", nil},
		{"---", []string{"nudge idle"}},
		{"----", []string{"nudge idle"}},
		{"---h", []string{"nudge idle", "stop idle"}},
		{"---th", []string{"nudge idle"}},
		{"--------", []string{"nudge idle", "stop idle"}},
	} {
		w := NewWindow("s", DefaultRules())
		for i, m := range test.messages {
			w.Message(Message{ID: fmt.Sprint(i), Tools: m == 't', AfterNudge: m == 'h'})
			w.Message(Message{ID: fmt.Sprint(i), Tools: m == 't', AfterNudge: m == 'h'}) // reported twice
		}
		if got := w.kinds(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.messages, got, test.want)
		}
	}
}

func TestCompactions(t *testing.T) {
	for _, test := range []struct {
		what string // c: compacted, n: a new successful call, s: the same one again, f: one that fails
		want []string
	}{
		{"c", nil},
		{"ncnc", nil},
		{"cc", []string{"stop compaction"}},
		{"ncsc", []string{"stop compaction"}},
		{"ncfc", []string{"stop compaction"}},
		{"ncncnc", nil},
	} {
		w := NewWindow("s", DefaultRules())
		for i, c := range test.what {
			call := Call{ID: fmt.Sprint(i), Tool: "read", Output: "same"}
			switch c {
			case 'c':
				w.Compacted()
				continue
			case 'n':
				if i > 0 {
					call.Output = "new " + strings.Repeat("x", i)
				}
			case 'f':
				call.Output, call.Failed = "failed", true
			}
			w.Call(call)
		}
		if got := w.kinds(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.what, got, test.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	a, missing := read("a", "one"), fails(read("nope", "File not found"))
	for _, test := range []struct {
		name   string
		change func(*Rules)
		calls  []Call
		want   []string
	}{
		{"none allowed", func(r *Rules) { r.SameOutput = 0 }, []Call{a}, []string{"stop repeat"}},
		{"off", func(r *Rules) { r.SameOutput = -1 }, times(50, a), nil},
		{"no nudge", func(r *Rules) { r.SameError = -1 }, times(4, missing), []string{"stop errors"}},
		{"never stopped", func(r *Rules) { r.SameErrorStop = -1 }, times(20, afterNudge(missing)), []string{"nudge errors"}},
		{"no alternation", func(r *Rules) { r.Alternate = -1 }, times(3, a, read("b", "two")), nil},
		{"a small window forgets", func(r *Rules) { r.Window = 3 }, times(9, a), nil},
	} {
		rules := DefaultRules()
		test.change(&rules)
		if got := feed(rules, test.calls...).kinds(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestPolling(t *testing.T) {
	for command, want := range map[string]bool{
		"sleep 5": true, "make; sleep $((5))": false, "sleep \"30\" && cat log": true, "wait %1": true, "tail -n 5 -f log": true,
		"tail --follow log": true, "tail -n 5 log": false, "watch -n1 date": true, "kubectl -n x get pods": true,
		"docker compose ps": true, "docker build .": false, "gh pr checks 12": true, "gh pr create": false,
		"curl -sf http://localhost:8080/healthz": true, "curl -O https://example.com/a.tar": false,
		"systemctl --user status x": true, "ps aux | grep node": true, "go test ./...": false, "npm run watcher": false,
		"cat sleepy.txt": false,
	} {
		if got := isPolling(bash(command, "").Input, []*regexp.Regexp{defaultPolling()}); got != want {
			t.Errorf("%q waits for something: %v, want %v", command, got, want)
		}
	}
}

func TestNormalize(t *testing.T) {
	for _, pair := range [][2]string{
		{"\x1b[31mred\x1b[0m", "red"},
		{"ok  \tpkg\t0.012s", "ok  \tpkg\t3.4s"},
		{"Finished in 1 minute 3.2 seconds", "Finished in 2 minutes 0.1 seconds"},
		{"took 1m2.5s", "took 12ms"},
		{"2026-11-21T12:17:02.123Z start", "2026-11-22T01:02:03Z start"},
		{"-rw-r--r-- 1 u g 5 Nov 21 12:17 a", "-rw-r--r-- 1 u g 5 Dec  1 02:07 a"},
		{"Sat Nov 21 12:17:02 UTC 2026", "Sun Nov 22 02:17:59 UTC 2026"},
		{"at 1763721422", "at 1763729999"},
		{"[1] 4711\nserver (pid 4711) up", "[1] 815\nserver (pid 815) up"},
		{"sshd[4711]: closed", "sshd[815]: closed"},
		{"/tmp/go-build123/b001/x.test: exit 1", "/tmp/go-build987/b002/x.test: exit 1"},
		{"see /tmp/tmp.Ab12Cd", "see /tmp/tmp.zZ99Qq"},
		{"panic: 0xc000123456 goroutine 12 [running]", "panic: 0xc000fedcba goroutine 7 [running]"},
	} {
		if Normalize(pair[0]) != Normalize(pair[1]) {
			t.Errorf("these say the same, but became\n%q\n%q", Normalize(pair[0]), Normalize(pair[1]))
		}
	}
	for _, pair := range [][2]string{
		{"3 tests failed", "4 tests failed"}, {"a.go:12:34: x", "a.go:12:35: x"}, {"45%", "46%"}, {"exit 1", "exit 2"},
		{"--- FAIL: TestA (0.00s)", "--- FAIL: TestB (0.00s)"}, {"/tmp/x/a.go", "/tmp/x/b.go"}, {"[12]", "[13]"},
	} {
		if Normalize(pair[0]) == Normalize(pair[1]) {
			t.Errorf("%q and %q became the same: %q", pair[0], pair[1], Normalize(pair[0]))
		}
	}
}

// TestNothingFiresOnNewOutputs: an agent that always gets new output is not stuck, whatever it calls and however often.
func TestNothingFiresOnNewOutputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 80).Draw(t, "calls")
		w := NewWindow("s", DefaultRules())
		for i := range n {
			c := Call{
				ID: fmt.Sprint(i), Tool: rapid.SampledFrom([]string{"bash", "read"}).Draw(t, "tool"),
				Input:  json.RawMessage(rapid.SampledFrom([]string{`{"command":"a"}`, `{"command":"sleep 1"}`}).Draw(t, "input")),
				Output: "line " + strings.Repeat("x", i), Failed: rapid.Bool().Draw(t, "failed"), AfterNudge: true,
			}
			w.Call(c)
			w.Message(Message{ID: fmt.Sprint("m", i), Tools: true})
		}
		if got := w.kinds(); got != nil {
			t.Fatalf("%q", got)
		}
	})
}

// TestNoiseDoesNotHideALoop: a loop is found although its outputs contain text that changes from run to run.
func TestNoiseDoesNotHideALoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.IntRange(0, 9999)
		w := NewWindow("s", DefaultRules())
		for i := range 4 {
			c := bash("go test ./...", fmt.Sprintf(
				"\x1b[3%dmFAIL\x1b[0m pkg %d.%03ds\n2026-11-21 12:%02d:%02d pid %d at 0xc000%06x in /tmp/go-build%d/b001\n",
				number.Draw(t, "colour")%8, number.Draw(t, "s"), number.Draw(t, "ms")%1000, number.Draw(t, "min")%60,
				number.Draw(t, "sec")%60, number.Draw(t, "pid"), number.Draw(t, "address"), number.Draw(t, "temp")))
			c.ID = fmt.Sprint(i)
			w.Call(c)
		}
		if got := w.kinds(); !slices.Equal(got, []string{"stop repeat"}) {
			t.Fatalf("%q", got)
		}
	})
}

// Findings stay in their order. Each rule fires once as a nudge and once as a stop, and the nudge comes first.
func TestFindingsStay(t *testing.T) {
	calls := []Call{read("a", "1"), read("b", "2"), fails(read("c", "no")), afterNudge(fails(read("c", "no"))), edit("x"), edit("y")}
	rapid.Check(t, func(t *rapid.T) {
		w := NewWindow("s", DefaultRules())
		var before []Decision
		for i := range rapid.IntRange(1, 120).Draw(t, "n") {
			switch k := rapid.IntRange(0, len(calls)+1).Draw(t, "what"); k {
			case len(calls):
				w.Compacted()
			case len(calls) + 1:
				w.Message(Message{ID: fmt.Sprint("m", i), AfterNudge: rapid.Bool().Draw(t, "heard")})
			default:
				c := calls[k]
				c.ID = fmt.Sprint(i)
				w.Call(c)
			}
			now := w.Findings
			if len(now) < len(before) || !slices.Equal(now[:len(before)], before) {
				t.Fatalf("%v became %v", before, now)
			}
			before = slices.Clone(now)
		}
		nudged := map[boulder.Rule]bool{}
		once := map[string]bool{}
		for _, f := range before {
			name := string(f.Kind) + string(f.Rule)
			if once[name] {
				t.Fatalf("%s fired twice", name)
			}
			once[name] = true
			if f.Kind == Nudge {
				nudged[f.Rule] = true
			} else if (f.Rule == boulder.RuleErrors || f.Rule == boulder.RuleIdle) && !nudged[f.Rule] {
				t.Fatalf("%s was stopped without a nudge", f.Rule)
			}
		}
	})
}
