package cli

import (
	"testing"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	played, misbehaved := newSample(t), newSample(t)
	played.Play()
	misbehaved.Misbehave()
	good, bad := played.store(), misbehaved.store()
	for name, test := range map[string]struct {
		project string
		args    []string
	}{
		"why_completed.txt": {good, []string{"show", sampleID, "--why", "toggle"}},
		"why_failed.txt":    {good, []string{"show", "--why", "icons"}}, // of the newest
		"why_running.txt":   {good, []string{"show", "--why", "theme"}},
		"why_blocked.txt":   {good, []string{"show", "--why", "site"}},
		"why_pending.txt":   {good, []string{"show", "--why", "docs"}},
		"why_bad.txt":       {bad, []string{"show", "--why", "toggle"}},
		"why_dropped.txt":   {bad, []string{"show", "--why", "docs"}},
		"why_replaces.txt":  {bad, []string{"show", "--why", "page"}},
	} {
		stdout, stderr, code := command(test.project, test.args...)
		if code != exitOK || stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", name, code, stderr)
		}
		golden(t, name, stdout)
		checkHarmless(t, stdout, "\n")
	}
	stdout, _, _ := command(bad, "show", "--why", "toggle", "--json")
	golden(t, "why.json", pretty(t, []byte(stdout)))
}

func TestWhyRefuses(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.Play()
	checkRefusals(t, s.store(), []refusedLine{
		{[]string{"show", "--why", "nosuch"}, `has no sub-task "nosuch": it has toggle, theme, icons`},
		{[]string{"show", "--why", ""}, `has no sub-task ""`},
		{[]string{"show", "nosuch", "--why", "toggle"}, `no such boulder: "nosuch"`},
	})
}
