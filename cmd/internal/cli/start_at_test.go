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
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Skip(err)
	}
	const form = "2006-01-02 15:04 MST"
	for _, tc := range []struct {
		now, said, want string
		zone            *time.Location
	}{
		{"2026-11-30 22:10 CET", "01:00", "2026-12-01 01:00 CET", berlin},
		{"2026-11-30 22:10 CET", "22:11", "2026-11-30 22:11 CET", berlin},
		{"2026-11-30 22:10 CET", "22:10", "2026-12-01 22:10 CET", berlin},
		{"2026-12-31 23:00 CET", "7:30", "2027-01-01 07:30 CET", berlin},
		{"2026-11-30 22:10 CET", "90m", "2026-11-30 23:40 CET", berlin},
		{"2026-03-28 22:00 CET", "04:00", "2026-03-29 04:00 CEST", berlin}, // a day of 23 hours
		{"2026-03-29 01:30 CET", "90m", "2026-03-29 04:00 CEST", berlin},   // 02:00 does not exist
		{"2026-10-24 22:00 CEST", "04:00", "2026-10-25 04:00 CET", berlin}, // a day of 25 hours
		{"2026-10-25 01:30 CEST", "120m", "2026-10-25 02:30 CET", berlin},  // the second one
		{"2026-03-28 22:00 CET", "02:30", "2026-03-29 03:00 CEST", berlin}, // what the clock skips has come when it has been skipped
		{"2026-03-08 01:45 EST", "02:30", "2026-03-08 03:00 EDT", newYork},
		{"2026-03-08 01:45 EST", "03:00", "2026-03-08 03:00 EDT", newYork},
		{"2026-11-01 01:20 EDT", "01:30", "2026-11-01 01:30 EDT", newYork},
		{"2026-11-01 01:45 EDT", "01:30", "2026-11-01 01:30 EST", newYork}, // said twice, and the second one is still to come
		{"2026-11-01 01:45 EST", "01:30", "2026-11-02 01:30 EST", newYork},
	} {
		now, err := time.ParseInLocation(form, tc.now, tc.zone)
		if err != nil {
			t.Fatal(err)
		}
		if at, err := parseStart(tc.said, now); err != nil || at.Format(form) != tc.want {
			t.Errorf("%s at %s: %s, %v", tc.said, tc.now, at.Format(form), err)
		}
	}
	for _, said := range []string{"soon", "25:00", "-5m", "999999h", "1", "01:00:00", "01:60"} {
		if at, err := parseStart(said, time.Now()); err == nil || !strings.Contains(err.Error(), "--at "+said) {
			t.Errorf("%s: %s, %v", said, at, err)
		}
	}
}
