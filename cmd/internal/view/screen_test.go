package view

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/cmd/internal/view/page"
)

// The screen must send no queries: the terminal's answers would end up on the next command line.
func TestScreenAsksNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	questions := []string{
		"$p", "\x1b[?u", "\x1b[c", "\x1b[>c", "\x1b[6n", "\x1b]1", "\x1bP", "\x1b[?2004h", "\x1b[>4",
	}
	var out bytes.Buffer
	stays := []string{"a line that stays"}
	s := Console{Stderr: page.Out{File: &out}, TermType: "xterm-kitty"}.Screen(
		func(page.Size, int) string { return "at work" },
		func() []string {
			lines := stays
			stays = nil
			return lines
		},
	)
	s.Close()
	for _, question := range questions {
		if strings.Contains(out.String(), question) {
			t.Errorf("the program writes %q: %q", question, out.String())
		}
	}
	if !strings.Contains(out.String(), "a line that stays") {
		t.Errorf("the last line was not printed: %q", out.String())
	}
	if strings.Count(out.String(), ansi.HideCursor) > strings.Count(out.String(), ansi.ShowCursor) {
		t.Errorf("the cursor stays hidden: %q", out.String())
	}
}

// Permanent lines scroll away above the frame. A smaller frame leaves nothing of the old one behind, nor does the end.
func TestPictureOnATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var stay []string
	s := &Screen{stream: &out, flush: func() []string { return stay }}
	for _, test := range []struct {
		stay  []string
		frame string
		want  []string
	}{
		{nil, "head\nfirst\nsecond\nthird", []string{"head", "first", "second", "third"}},
		{[]string{"first is done", "second, too"}, "head\nthird", []string{"first is done", "second, too", "head", "third"}},
		{nil, "head\nlast of all\nand one", []string{"first is done", "second, too", "head", "last of all", "and one"}},
		{[]string{"all is done"}, "", []string{"first is done", "second, too", "all is done", ""}},
	} {
		stay = test.stay
		s.draw(80, test.frame)
		if diff := cmp.Diff(test.want, screenOf(t, out.String())); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", test.frame, diff)
		}
	}
}

// screenOf returns what a terminal shows after this output, up to the cursor's line.
func screenOf(t *testing.T, written string) []string {
	t.Helper()
	rows, y, x := []string{""}, 0, 0
	for state := byte(0); written != ""; {
		seq, width, n, newState := ansi.DecodeSequence(written, state, nil)
		written, state = written[n:], newState
		var up int
		switch {
		case width > 0:
			rows[y], x = rows[y][:min(x, len(rows[y]))]+seq+rows[y][min(x+1, len(rows[y])):], x+1
		case seq == "\r":
			x = 0
		case seq == "\n":
			if y++; y == len(rows) {
				rows = append(rows, "")
			}
		case seq == ansi.EraseLineRight:
			rows[y] = rows[y][:x]
		case seq == ansi.EraseScreenBelow:
			rows[y] = rows[y][:x]
			rows = slices.Clip(rows[:y+1])
		default:
			if _, err := fmt.Sscanf(seq, "\x1b[%dA", &up); err != nil && seq != "\x1b[A" {
				t.Fatalf("%q is not known here", seq)
			}
			y -= max(up, 1)
		}
	}
	return rows
}
