package text_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/internal/text"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{
		"1": 1, "1500": 1500, "200k": 200_000, "2K": 2000, "2M": 2_000_000, "2m": 2_000_000, "1.5k": 1500,
		"0.000001M": 1, ".5k": 500, "9223372036854775807": 1<<63 - 1,
	} {
		if got, ok := text.ParseCount(s); !ok || got != want {
			t.Errorf("%q: got %d, %v, want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{
		"", "k", "0", "0k", "-3", "+3", "many", "1e30", "1e3", "0x10", "1_000", "1/2", "Inf", "NaN", "1.5", "1.0005k",
		"1kk", "1 k", "9223372036854775808", "9999999999999999999M", strings.Repeat("1", 1_000_000),
	} {
		if got, ok := text.ParseCount(s); ok {
			t.Errorf("%.20q: got %d", s, got)
		}
	}
}

func TestUntil(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 23, 40, 0, 0, time.Local)
	for want, after := range map[string]time.Duration{
		"23:41:00": time.Minute, "23:55": 15 * time.Minute, "Mon 2 Mar 00:10": 30 * time.Minute,
	} {
		if got := text.Until(now.Add(after), now); got != want+now.Format(" MST") {
			t.Errorf("%q, want %q and the zone", got, want)
		}
	}
}

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
