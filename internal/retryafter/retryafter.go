// Package retryafter reads how long the answer of an HTTP server asks to wait.
package retryafter

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// Of reads the three forms in use: Retry-After in seconds (fractions are seen in the wild) or as a date, and
// Retry-After-Ms; the longest counts. A date is compared with the answer's own Date, so that a wrong clock here does not
// matter, and without one with now.
func Of(header http.Header, now time.Time) time.Duration {
	ms, _ := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64)
	value := header.Get("Retry-After")
	s, err := strconv.ParseFloat(value, 64)
	if at, dateErr := http.ParseTime(value); err != nil && dateErr == nil {
		if sent, err := http.ParseTime(header.Get("Date")); err == nil {
			now = sent
		}
		s = at.Sub(now).Seconds()
	}
	return max(seconds(ms/1000), seconds(s))
}

// seconds converts without overflow; negative and absurd values come from broken proxies.
func seconds(s float64) time.Duration {
	const year = 365 * 24 * time.Hour
	if math.IsNaN(s) || s <= 0 {
		return 0
	}
	return time.Duration(min(s, year.Seconds()) * float64(time.Second))
}
