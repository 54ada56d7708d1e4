package session_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

func answer(text string, tools ...string) opencode.Message {
	m := opencode.Message{Parts: []opencode.Part{{Type: opencode.PartText, Text: text}}}
	for _, title := range tools {
		m.Parts = append(m.Parts, opencode.Part{Type: opencode.PartTool, Tool: &opencode.ToolCall{Tool: "bash", Title: title}})
	}
	return m
}

// All texts are kept in order, with a line for the calls between two of them; one text alone is the final message.
func TestWords(t *testing.T) {
	t.Parallel()
	summary := answer("A summary.")
	summary.Info.Compacted = true
	for name, tc := range map[string]struct {
		said []opencode.Message
		want string
	}{
		"nothing":      {},
		"one":          {[]opencode.Message{answer("", "Look"), answer("Done.")}, ""},
		"beside calls": {[]opencode.Message{answer("At nine.", "Look", "Look again"), answer("", "List"), answer("See above.")}, "At nine.\n\n[3 tool calls: bash Look; bash Look again; bash List]\n\nSee above."},
		"no calls":     {[]opencode.Message{answer("At nine."), answer("See above.")}, "At nine.\n\nSee above."},
		"compaction":   {[]opencode.Message{answer("At nine."), summary, answer("See above.")}, "At nine.\n\nSee above."},
	} {
		var w session.Words
		for _, m := range tc.said {
			w.Add(m)
		}
		if got := w.Text(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// However much is said and called, the oldest and the newest stay, and the cut is visible.
func TestLongWords(t *testing.T) {
	t.Parallel()
	var w session.Words
	w.Add(answer("At nine.", strings.Repeat("long ", 1000)))
	for range 500 {
		w.Add(answer(strings.Repeat("界", 100), strings.Repeat("long ", 100)))
	}
	w.Add(answer("See above."))
	got := w.Text()
	if n := utf8.RuneCountInString(got); n > session.MaxWords || !strings.HasPrefix(got, "At nine.") ||
		!strings.HasSuffix(got, "See above.") || !strings.Contains(got, "[cut: ") {
		t.Errorf("%d characters: %s", n, got)
	}
}
