package view

import (
	"bytes"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/internal/page"
)

// A program on the terminal that nobody types into must not ask the terminal anything: the answers would be typed on
// the next command line.
func TestScreenAsksNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	questions := []string{
		"$p", "\x1b[?u", "\x1b[c", "\x1b[>c", "\x1b[6n", "\x1b]1", "\x1bP", "\x1b[?2004h", "\x1b[>4",
	}
	for _, termType := range []string{
		"xterm-256color", "xterm-kitty", "xterm-ghostty", "alacritty", "tmux-256color", "linux",
	} {
		var out bytes.Buffer
		stays := []string{"a line that stays"}
		s := Console{Stderr: page.Out{File: &out}, TermType: termType}.Screen(Picture{
			Frame: func(page.Size, int) string { return "at work" },
			Flush: func() []string {
				lines := stays
				stays = nil
				return lines
			},
		})
		s.Close()
		for _, question := range questions {
			if strings.Contains(out.String(), question) {
				t.Errorf("on %s the program writes %q: %q", termType, question, out.String())
			}
		}
		if !strings.Contains(out.String(), "a line that stays") {
			t.Errorf("on %s the last line was not printed: %q", termType, out.String())
		}
		if strings.Count(out.String(), ansi.HideCursor) > strings.Count(out.String(), ansi.ShowCursor) {
			t.Errorf("on %s the cursor stays hidden: %q", termType, out.String())
		}
	}
}

// bubbletea garbles a picture that becomes smaller, so it must keep its height when there is less to show.
func TestPictureKeepsItsHeight(t *testing.T) {
	t.Parallel()
	lines := 9
	m := &model{Picture: Picture{Frame: func(page.Size, int) string { return strings.Repeat("x\n", lines) }}}
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	before := m.lines
	lines = 2
	m.Update(tickMsg{})
	if after := strings.Count(m.content, "\n") + 1; before != 10 || after != before {
		t.Errorf("the picture went from %d to %d lines:\n%s", before, after, m.content)
	}
}
