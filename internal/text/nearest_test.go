package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"description", "depends_on", "api", "page", "patterns"}
	for word, want := range map[string]string{
		"desciption":            "description",
		"DEPENDSON":             "depends_on",
		"apj":                   "api",
		"pagee":                 "page",
		"pgae":                  "page", // a swap is one slip
		"pattren":               "patterns",
		"a":                     "",
		"":                      "",
		"gates":                 "",
		strings.Repeat("p", 65): "",
		"apii":                  "api",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	if got := Nearest("same", []string{"seme", "Same", "same", strings.Repeat("s", 1000)}); got != "Same" {
		t.Errorf("of three that are near: %q", got)
	}
}

// recursive is the definition, which costs exponentially.
func recursive(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	changed := recursive(a[1:], b[1:])
	if a[0] != b[0] {
		changed++
	}
	fewest := min(changed, recursive(a[1:], b)+1, recursive(a, b[1:])+1)
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		fewest = min(fewest, recursive(a[2:], b[2:])+1)
	}
	return fewest
}

func TestSlips(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 0, 6, -1)
		a, b := letters.Draw(t, "a"), letters.Draw(t, "b")
		if got, want := slips(a, b), recursive(a, b); got != want {
			t.Fatalf("%q and %q: got %d, want %d", a, b, got, want)
		}
	})
}
