// Package retryafter reads how long a server wants its clients to wait, from the headers or the words of its answer.
package retryafter

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Of reads Retry-After in seconds (fractions were observed) or as a date, and Retry-After-Ms; the longest counts. Dates
// are relative to the answer's own Date, so that a wrong local clock does not matter, or else to now. Without either,
// the reset times of exhausted rate limits count.
func Of(header http.Header, now time.Time) time.Duration {
	if sent, err := http.ParseTime(header.Get("Date")); err == nil {
		now = sent
	}
	ms, _ := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64)
	value := header.Get("Retry-After")
	s, err := strconv.ParseFloat(value, 64)
	if at, dateErr := http.ParseTime(value); err != nil && dateErr == nil {
		s = at.Sub(now).Seconds()
	}
	return cmp.Or(max(seconds(ms/1000), seconds(s)), resets(header, now))
}

// resets returns the longest wait for an exhausted rate limit: X-Ratelimit-Reset-Requests (OpenAI, Groq),
// Anthropic-Ratelimit-Tokens-Reset, X-Ratelimit-Reset (OpenRouter) and the like. They come with every answer.
func resets(header http.Header, now time.Time) (wait time.Duration) {
	for name, values := range header {
		rest, limit := strings.CutPrefix(strings.ToLower(name), "anthropic-")
		if !limit {
			rest = strings.TrimPrefix(rest, "x-")
		}
		if !strings.HasPrefix(rest, "ratelimit-") || !strings.Contains(rest, "reset") || len(values) == 0 {
			continue
		}
		remaining := header.Get(strings.Replace(strings.ToLower(name), "reset", "remaining", 1))
		rejected := header.Get(strings.Replace(strings.ToLower(name), "reset", "status", 1)) == "rejected"
		if left, err := strconv.ParseFloat(remaining, 64); rejected || err == nil && left <= 0 {
			wait = max(wait, amount(values[0], now))
		}
	}
	return wait
}

// Field reads a field of an error's body ("resets_in_seconds", "retryDelay"). named is true if its name is one of a
// limit's end, even if the value is in the past or not to be read.
func Field(name, value string, now time.Time) (wait time.Duration, named bool) {
	name = strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
	rest, found := "", false
	for _, prefix := range []string{"retryafter", "retrydelay", "retryin", "resetsat", "resetat", "resetsin", "resetin",
		"resetsafter", "resetafter", "resettime", "quotareset", "nextresettime"} {
		if after, ok := strings.CutPrefix(name, prefix); ok && !found {
			rest, found = after, true
		}
	}
	switch {
	case !found:
		return 0, false
	case strings.HasSuffix(rest, "ms"), strings.HasSuffix(rest, "millis"), strings.HasSuffix(rest, "milliseconds"):
		ms, _ := strconv.ParseFloat(value, 64)
		return seconds(ms / 1000), true
	}
	return amount(value, now), true
}

// amount reads a duration as "6m0s" or in seconds, or a time as seconds or milliseconds since 1970 or in RFC 3339.
func amount(value string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(value); err == nil {
		return seconds(d.Seconds())
	}
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return seconds(at.Sub(now).Seconds())
	}
	if at, err := http.ParseTime(value); err == nil {
		return seconds(at.Sub(now).Seconds())
	}
	const longAgo = 1e9 // seconds since 1970: the year 2001
	switch s, err := strconv.ParseFloat(value, 64); {
	case err != nil:
		return 0
	case s >= longAgo*1000:
		return seconds(s/1000 - float64(now.UnixMilli())/1000)
	case s >= longAgo:
		return seconds(s - float64(now.UnixMilli())/1000)
	default:
		return seconds(s)
	}
}

// seconds converts without overflow. Broken proxies send negative and absurd values.
func seconds(s float64) time.Duration {
	const year = 365 * 24 * time.Hour
	if math.IsNaN(s) || s <= 0 {
		return 0
	}
	return time.Duration(min(s, year.Seconds()) * float64(time.Second))
}
