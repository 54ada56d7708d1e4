package text_test

import (
	"testing"

	"github.com/bouldermgr/manager/internal/text"
)

func TestPlural(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{-1: "-1 turns", 0: "0 turns", 1: "1 turn", 2: "2 turns", 11: "11 turns"} {
		if got := text.Plural(n, "turn"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
