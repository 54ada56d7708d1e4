package page_test

import (
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/cmd/internal/view/page"
)

// Every sign has a character of its own, one column wide, and a colour: a missing one would panic.
func TestSigns(t *testing.T) {
	t.Parallel()
	of := map[string]page.Sign{}
	for s := page.Good; s <= page.Unended; s++ {
		if other, taken := of[s.String()]; taken || ansi.StringWidthWc(s.String()) != 1 {
			t.Errorf("sign %d is %q, as %d", s, s, other)
		}
		of[s.String()] = s
		_ = page.Paint{}.Mark(s)
	}
}
