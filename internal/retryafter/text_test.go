package retryafter_test

import (
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/retryafter"
)

// Texts as users of coding agents quote them. It is 18:00 in Berlin.
func TestText(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 26, 18, 0, 0, 0, berlin)
	const day = 24 * time.Hour
	for said, want := range map[string]time.Duration{
		// Claude
		"usage limit reached, resets at 7:30pm (UTC)":                                                          2*time.Hour + 30*time.Minute,
		"Claude usage limit reached. Your limit will reset at 3pm (America/Santiago).":                         time.Hour,
		"You've hit your limit · resets 10pm (America/New_York)":                                               10 * time.Hour,
		"You've hit your session limit · resets 1:30am (Asia/Dhaka)":                                           2*time.Hour + 30*time.Minute,
		"Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).":                                time.Hour,
		"Claude usage limit reached. Your limit will reset at Nov 30, 10am.":                                   3*day + 16*time.Hour,
		"Opus weekly limit reached ∙ resets Jan 1, 5pm":                                                        35*day + 23*time.Hour,
		"You've hit your limit for Claude messages. Limits will reset at 9:30 PM. View your usage":             3*time.Hour + 30*time.Minute,
		"Claude AI usage limit reached|1795728600":                                                             4*time.Hour + 30*time.Minute,
		"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.": 4*day + 7*time.Hour,
		// OpenAI and Codex
		"Rate limit reached for gpt-4.1 on tokens per min (TPM): Limit 30000, Used 18928. Please try again in 174ms. Visit https://platform.openai.com": 174 * time.Millisecond,
		"Rate limit reached for gpt-4o on requests per day (RPD): Limit 200. Please try again in 7m12s.":                                                7*time.Minute + 12*time.Second,
		"You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 5 days 22 hours 11\nminutes.":                 5*day + 22*time.Hour + 11*time.Minute,
		"You've hit your usage limit. Upgrade your plan to continue, or try again at Dec 10th, 2026 11:52 AM.":                                          13*day + 17*time.Hour + 52*time.Minute,
		`{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_at":1795728600,"resets_in_seconds":16200}}`:        4*time.Hour + 30*time.Minute,
		`Too Many Requests: {\"type\":\"usage_limit_reached\",\"resets_in_seconds\":13872}`:                                                             13872 * time.Second,
		// Groq, Google, OpenCode Go, others
		"tokens per day (TPD): Limit 100000, Used 97050, Requested 3619. Please try again in 9m38.016s. Need more tokens%3F": 9*time.Minute + 38016*time.Millisecond,
		"Quota exceeded for metric: generate_content_free_tier_requests, limit: 5\nPlease retry in 41.9s.":                   41900 * time.Millisecond,
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}`:                                            37 * time.Second,
		"5 hour usage limit reached. It will reset in 2 hours 5 minutes. To continue using this model now, enable usage":     2*time.Hour + 5*time.Minute,
		"Subscription quota exceeded. Retry in 45 minutes.":                                                                  45 * time.Minute,
		"Usage limit exceeded. Refreshes in 6 days and 18 hours":                                                             6*day + 18*time.Hour,
		"Usage limit reached for 5 hour. Your limit will reset at 2026-11-26 20:30:45":                                       2*time.Hour + 30*time.Minute,
		"try again in 3 hours":                 3 * time.Hour,
		"Too many requests, wait 30 seconds":   30 * time.Second,
		"resets at 2026-11-26T17:30:00Z":       30 * time.Minute,
		"retry 3 times, or try again in 1 min": time.Minute,
		// Not credible
		"This request would exceed your account's rate limit. Please try again later.": 0,
		"or wait for limits to reset (every 5h and every week.)":                       0,
		"Your limit will reset at 5:30pm (Europe/Berlin).":                             0, // half an hour ago
		"You will regain access on 2025-07-01 at 00:00 UTC.":                           0,
		"resets 10pm (Atlantis/Capital)":                                               0,
		"resets at 25:00":                                                              0,
		"try again at 10 of them":                                                      0,
		"retry 3 times":                                                                0,
		"limit reached|12":                                                             0,
		"Your limit will reset at Foo 6, 10am.":                                        0,
		"":                                                                             0,
	} {
		if got, _ := retryafter.Text(said, now); got != want {
			t.Errorf("%q: %s, want %s", said, got, want)
		}
	}
}

// Only a time with a zone, or a duration, is sure.
func TestTextIsSureOnlyWithAZone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC)
	for said, want := range map[string]struct {
		wait time.Duration
		sure bool
	}{
		"Your limit will reset at 2026-11-26 20:30:45": {150 * time.Minute, false},
		"resets 7:30pm": {90 * time.Minute, false},
		"您的限额将在 2026-11-26 20:30:45 重置。":                            {150 * time.Minute, false},
		"resets 7:30pm (UTC)":                                       {90 * time.Minute, true},
		"It will reset at 2026-11-27 04:00:35 +0800 CST":            {2 * time.Hour, true},
		"resets at 2026-11-26T20:00:00.123-07:00":                   {9 * time.Hour, true},
		"resets at 2026-11-26 20:00 UTC+1":                          {time.Hour, true},
		"请在 30 秒后重试":                                                {30 * time.Second, true},
		"try again in 3 hours":                                      {3 * time.Hour, true},
		`{"resets_at":1764000000,"message":"try again at 7:00 PM"}`: {time.Hour, false}, // the field is in the past
	} {
		if wait, sure := retryafter.Text(said, now); wait != want.wait || sure != want.sure {
			t.Errorf("%q: %s, sure %t; want %s, %t", said, wait, sure, want.wait, want.sure)
		}
	}
}

// The text comes from an agent or a provider. Whatever it says, the wait is not negative.
func FuzzText(f *testing.F) {
	f.Add("try again in 99999999999999999999 weeks")
	f.Add("resets Feb 31, 2026 5pm (Etc/GMT+5)")
	f.Add("resets_at: 1e309, retry-after: NaN")
	now := time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, said string) {
		if wait, _ := retryafter.Text(said, now); wait < 0 {
			t.Errorf("%q: %s", said, wait)
		}
	})
}
