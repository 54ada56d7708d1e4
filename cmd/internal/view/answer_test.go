package view

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

// The cursor is at the column of the next character, and always in the visible part of the text.
func TestAnswerCursor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		before, after, content string
		x, y                   int
	}{
		{"", "", "B1> ", 4, 0},
		{"漢字", "x", "B1> 漢\n字x", 2, 1},
		{"one", "\ntwo", "B1> one\ntwo", 7, 0},
		{strings.Repeat("a\n", 20) + "b", "\nc", strings.Repeat("a\n", 11) + "b", 1, 11},
		{"a", strings.Repeat("\nb", 20), "B1> a" + strings.Repeat("\nb", 11), 5, 0},
	} {
		a := &Editor{prompt: "B1> ", width: 8, before: test.before, after: test.after}
		v := a.View()
		if v.Content != test.content || v.Cursor == nil || v.Cursor.Position != (tea.Position{X: test.x, Y: test.y}) {
			t.Errorf("%q and %q: got %q, %+v", test.before, test.after, v.Content, v.Cursor)
		}
	}
}
