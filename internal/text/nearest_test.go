package text

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"description", "depends_on", "api", "page", "patterns"}
	for word, want := range map[string]string{
		"desciption":            "description",
		"DEPENDSON":             "depends_on",
		"apj":                   "api",
		"pagee":                 "page",
		"pgae":                  "page", // a swap counts once
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
