package retryafter

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

const cue = `(?i)\b(?:try(?: it)? again|retry|retrying|wait|resets?|refreshes|regain access|available again)`

var (
	inWords = text.Regexp(cue + ` (?:in |after |for )?((?:\d[\d.]* ?[a-z]+[, ]*(?:and )?)+)`)
	part    = text.Regexp(`(\d[\d.]*) ?([a-z]+)`)
	field   = text.Regexp(`(?i)(?:resets?_?(?:at|time)|resets?_?(?:in|after)_?seconds|retry_?(?:after|delay)(?:_?seconds)?)` +
		`\\?"? ?[:=] ?\\?"?([^\\",}\s]+)`)
	stamp = text.Regexp(`(?i)limit reached\|(\d{10,13})\b`)
	clock = text.Regexp(cue + `(?: at| on)?(?: (\d{4}-\d\d-\d\d|[a-z]{3,9} \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?)[,T]?(?: at)?)?` + ofDay)
	// Z.ai and others in Chinese: "will be reset at", and "in … seconds, minutes, hours".
	clockHan = text.Regexp(`(?i)将[在于]? ?(\d{4}-\d\d-\d\d)[T ]?` + ofDay + ` ?(?:重置|恢复)`)
	inHan    = text.Regexp(`(\d+) ?(秒|分钟|小时|天)(?:后|之后)`)
)

// ofDay matches a time of day, and a zone by its name or offset.
const ofDay = ` ?(\d{1,2})(?::(\d\d)(?::\d\d(?:\.\d+)?)?)? ?([ap]\.?m\b)?(?: ?\(?(UTC|GMT|Z\b|[a-z]+/[a-z/_+0-9-]+))?` +
	`(?: ?([+-]\d{1,2}(?::?\d\d)?)\b)?`

// Text reads how long a limit holds from the words of a provider. A time without a zone is in that of now; without a
// date it is the next such time. Zero means that they say nothing credible. sure is false for a time without a zone: providers
// mean their own as often as the user's.
func Text(said string, now time.Time) (wait time.Duration, sure bool) {
	said = strings.Join(strings.Fields(said), " ")
	for _, m := range inWords().FindAllStringSubmatch(said, -1) {
		if wait := sum(strings.ToLower(m[1])); wait > 0 {
			return wait, true
		}
	}
	if m := inHan().FindStringSubmatch(said); m != nil {
		return sum(m[1] + map[string]string{"秒": "s", "分钟": "m", "小时": "h", "天": "d"}[m[2]]), true
	}
	for _, number := range []func() *regexp.Regexp{field, stamp} {
		if m := number().FindStringSubmatch(said); m != nil {
			if wait := amount(m[1], now); wait > 0 {
				return wait, true
			}
		}
	}
	for _, m := range slices.Concat(clock().FindAllStringSubmatch(said, -1), clockHan().FindAllStringSubmatch(said, -1)) {
		if t := at(m, now); t.After(now) {
			return seconds(t.Sub(now).Seconds()), m[5]+m[6] != ""
		}
	}
	return 0, false
}

// sum reads "5 days 22 hours 11 minutes" or "9m38.016s"; zero if any part is not a duration.
func sum(words string) time.Duration {
	all := 0.0
	for _, m := range part().FindAllStringSubmatch(words, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		unit, known := map[string]time.Duration{
			"ms": time.Millisecond, "s": time.Second, "sec": time.Second, "second": time.Second, "m": time.Minute, "min": time.Minute,
			"minute": time.Minute, "h": time.Hour, "hr": time.Hour, "hour": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour,
			"week": 7 * 24 * time.Hour,
		}[strings.TrimSuffix(m[2], text.If(len(m[2]) > 2, "s"))]
		if err != nil || !known {
			return 0
		}
		all += n * unit.Seconds()
	}
	return seconds(all)
}

// at returns the time that clock matched, or zero if it is none.
func at(m []string, now time.Time) time.Time {
	zone, half := now.Location(), strings.ToLower(m[4])
	if m[5] != "" {
		name := m[5]
		if !strings.Contains(name, "/") {
			name = "UTC"
		}
		loaded, err := time.LoadLocation(name)
		if err != nil {
			return time.Time{}
		}
		zone = loaded
	}
	if m[6] != "" {
		zone = offset(m[6])
	}
	hour, _ := strconv.Atoi(m[2])
	minute, _ := strconv.Atoi(m[3])
	if half != "" {
		hour = hour%12 + map[byte]int{'p': 12}[half[0]]
	}
	if half == "" && m[3] == "" || hour > 23 || minute > 59 {
		return time.Time{} // a number with another meaning
	}
	now = now.In(zone)
	day, given := date(m[1], now)
	t := time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, zone)
	if !given && now.Sub(t) > time.Hour { // less than an hour ago: an old message, not tomorrow
		t = t.AddDate(0, 0, 1)
	}
	return t
}

// offset reads "+8", "+0800" or "-07:00".
func offset(said string) *time.Location {
	digits := strings.ReplaceAll(said[1:], ":", "")
	minutes := 0
	if len(digits) > 2 {
		minutes, _ = strconv.Atoi(digits[len(digits)-2:])
		digits = digits[:len(digits)-2]
	}
	hours, _ := strconv.Atoi(digits)
	east := (hours*60 + minutes) * 60
	if said[0] == '-' {
		east = -east
	}
	return time.FixedZone(said, east)
}

// date reads "2026-04-01", "Oct 6" or "Sep 24th, 2026", or else returns the date of now.
func date(said string, now time.Time) (day time.Time, given bool) {
	if t, err := time.Parse(time.DateOnly, said); err == nil {
		return t, true
	}
	words := strings.Fields(strings.ReplaceAll(said, ",", " "))
	if len(words) < 2 {
		return now, false
	}
	year := append(words[2:], strconv.Itoa(now.Year()))[0]
	t, err := time.Parse("Jan 2 2006", words[0][:3]+" "+strings.TrimRight(words[1], "stndrh")+" "+year)
	if len(words) == 2 && t.Before(now.AddDate(0, -6, 0)) {
		t = t.AddDate(1, 0, 0)
	}
	return t, err == nil
}
