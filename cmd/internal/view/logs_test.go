package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// A cut text has at most limit lines and is reported as cut. A text within the limit is unchanged.
func TestSomeLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,60}`), 1, 30).Draw(t, "lines")
		limit, fromEnd := rapid.IntRange(1, 40).Draw(t, "limit"), rapid.Bool().Draw(t, "from the end")
		lines, cut := someLines(strings.Join(all, "\n"), limit, 40, fromEnd)
		if len(lines) != min(len(all), limit) {
			t.Fatalf("%d lines of %d, with a limit of %d", len(lines), len(all), limit)
		}
		want, whole := all[:len(lines)], len(lines) == len(all)
		if fromEnd {
			want = all[len(all)-len(lines):]
		}
		for i, line := range lines {
			if len(want[i]) <= 40 && line != want[i] || len(want[i]) > 40 && line != want[i][:39]+"…" {
				t.Fatalf("line %d is %q, want %q", i, line, want[i])
			}
			whole = whole && len(want[i]) <= 40
		}
		if whole != (cut == "") {
			t.Fatalf("of %d lines %d are shown, and it is said: %q", len(all), len(lines), cut)
		}
	})
}

func FuzzTranscript(f *testing.F) {
	f.Add([]byte(`{"time":"2026-03-04T10:00:11Z","type":"tool","tool":"edit","state":"completed","input":{"filePath":"settings.go"}}` + "\n" + `not JSON`))
	f.Add([]byte(`{"type":"tool","input":[{}],"text":"\u0000\u202e"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, _ := parseTranscript(bytes.NewReader(data))
		for _, l := range lines {
			if _, err := json.Marshal(l); err != nil {
				t.Errorf("what was read of %q cannot be printed: %v", data, err)
			}
			for _, v := range []*Transcript{{}, {verbose: true}} {
				if told := v.Tell(l); strings.ContainsFunc(told, func(r rune) bool {
					return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
				}) {
					t.Errorf("it can move the cursor: %q", told)
				}
			}
		}
	})
}
