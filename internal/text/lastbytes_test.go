package text_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/internal/text"
)

func TestLastBytesKeepsTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kept := text.LastBytes{Limit: 100}
		want := ""
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 300), 0, 5).Draw(t, "sizes") {
			chunk := strings.Repeat("abcdefg", n)[:n]
			if written, err := kept.Write([]byte(chunk)); written != n || err != nil {
				t.Fatalf("wrote %d of %d: %v", written, n, err)
			}
			want += chunk
		}
		want = want[max(0, len(want)-100):]
		if got := kept.String(); got != want {
			t.Fatalf("kept %q, want %q", got, want)
		}
	})
}
