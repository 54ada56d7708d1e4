package cli

import (
	"strings"
	"testing"
	"time"
)

// A time of day is the next one, whatever the length of the day between; a duration counts from now.
func TestParseStart(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	const form = "2006-01-02 15:04 MST"
	for _, tc := range []struct{ now, said, want string }{
		{"2026-11-30 22:10 CET", "01:00", "2026-12-01 01:00 CET"},
		{"2026-11-30 22:10 CET", "22:11", "2026-11-30 22:11 CET"},
		{"2026-11-30 22:10 CET", "22:10", "2026-12-01 22:10 CET"},
		{"2026-12-31 23:00 CET", "7:30", "2027-01-01 07:30 CET"},
		{"2026-11-30 22:10 CET", "90m", "2026-11-30 23:40 CET"},
		{"2026-03-28 22:00 CET", "04:00", "2026-03-29 04:00 CEST"}, // a day of 23 hours
		{"2026-03-29 01:30 CET", "90m", "2026-03-29 04:00 CEST"},   // 02:00 does not exist
		{"2026-10-24 22:00 CEST", "04:00", "2026-10-25 04:00 CET"}, // a day of 25 hours
		{"2026-10-25 01:30 CEST", "120m", "2026-10-25 02:30 CET"},  // the second one
	} {
		now, err := time.ParseInLocation(form, tc.now, berlin)
		if err != nil {
			t.Fatal(err)
		}
		if at, err := parseStart(tc.said, now); err != nil || at.Format(form) != tc.want {
			t.Errorf("%s at %s: %s, %v", tc.said, tc.now, at.Format(form), err)
		}
	}
	for _, said := range []string{"soon", "25:00", "-5m", "1", "01:00:00", "01:60"} {
		if at, err := parseStart(said, time.Now()); err == nil || !strings.Contains(err.Error(), "--at "+said) {
			t.Errorf("%s: %s, %v", said, at, err)
		}
	}
	// A time that the day lacks is still one of that night.
	now, _ := time.ParseInLocation(form, "2026-03-28 22:00 CET", berlin)
	if at, err := parseStart("02:30", now); err != nil || at.Sub(now) < 3*time.Hour || at.Sub(now) > 6*time.Hour {
		t.Errorf("%s, %v", at, err)
	}
}
