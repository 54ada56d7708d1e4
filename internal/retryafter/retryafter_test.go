package retryafter_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/retryafter"
)

func TestOf(t *testing.T) {
	t.Parallel()
	const sent, until = "Sat, 21 Nov 2026 12:11:03 GMT", "Sat, 21 Nov 2026 12:12:33 GMT"
	now := time.Date(2026, 11, 21, 12, 12, 3, 0, time.UTC)
	for name, test := range map[string]struct {
		ms, wait, date string
		want           time.Duration
	}{
		"nothing":           {date: sent},
		"seconds":           {wait: "37", want: 37 * time.Second},
		"fraction":          {wait: "1.5", want: 1500 * time.Millisecond},
		"zero":              {wait: "0"},
		"negative":          {wait: "-3"},
		"no number":         {wait: "NaN"},
		"words":             {wait: "soon"},
		"absurd":            {wait: "1e300", want: 365 * 24 * time.Hour},
		"milliseconds":      {ms: "1500", want: 1500 * time.Millisecond},
		"the longer":        {ms: "1500", wait: "2", want: 2 * time.Second},
		"words and seconds": {ms: "soon", wait: "2", want: 2 * time.Second},
		"date":              {wait: until, date: sent, want: 90 * time.Second},
		"date gone by":      {wait: sent, date: until},
		"date by our clock": {wait: until, want: 30 * time.Second},
	} {
		header := http.Header{"Retry-After-Ms": {test.ms}, "Retry-After": {test.wait}, "Date": {test.date}}
		if got := retryafter.Of(header, now); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
