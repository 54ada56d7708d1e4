package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

func checkHarmless(t interface{ Fatalf(string, ...any) }, s, allowed string) {
	if !utf8.ValidString(s) {
		t.Fatalf("invalid UTF-8: %q", s)
	}
	for _, r := range s {
		if (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) && !strings.ContainsRune(allowed, r) {
			t.Fatalf("%q holds %q", s, r)
		}
	}
}
