package cli

import (
	"testing"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	checkLooks(t, interrupted(t), map[string][]string{
		"why_completed.txt": {"show", sampleID, "--why", "toggle"},
		"why_failed.txt":    {"show", "--why", "icons"}, // of the newest boulder
		"why_running.txt":   {"show", "--why", "theme"},
		"why_blocked.txt":   {"show", "--why", "site"},
		"why_pending.txt":   {"show", "--why", "docs"},
	})
	misbehaved := newSample(t)
	misbehaved.Misbehave()
	checkLooks(t, misbehaved.store(), map[string][]string{
		"why_bad.txt":      {"show", "--why", "toggle"},
		"why_dropped.txt":  {"show", "--why", "docs"},
		"why_replaces.txt": {"show", "--why", "page"},
		"why.json":         {"show", "--why", "toggle", "--json"},
	})
}
