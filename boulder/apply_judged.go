package boulder

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// countStall is SEMANTICS §4: one more when there was no progress, when the agent goes in circles, when a stuck rule
// fired, or when it would be told the same again; one less on progress; none after completion. A turn that was truncated,
// or that could not be judged, says nothing about progress.
func (s *State) countStall(o *Open) {
	v, ended, t := o.Turn.Verdict, o.Turn.Evidence.Ended, o.SubTask
	stuck := ended.Rule != "" && ended.Rule != RuleBudget
	asked := v.ContinuationPrompt != "" && hashOf(v.ContinuationPrompt) == o.Attempt.Asked
	switch {
	case v.Completed:
		t.Stalls = 0
	case v.JudgeUnavailable, ended.Truncated != "" && !stuck:
	case stuck || v.IsInLoop || asked:
		t.Stalls++
	case v.IsProgress:
		t.Stalls = max(0, t.Stalls-1)
	default:
		t.Stalls++
	}
}

// maxNewFacts bounds [Boulder.NewFacts]; the oldest go first.
const maxNewFacts = 30

func (s *State) learn(facts []string) {
	known := slices.Clone(s.Boulder.NewFacts)
	for _, f := range facts {
		if !slices.Contains(known, f) {
			known = append(known, f)
		}
	}
	s.Boulder.NewFacts = known[max(0, len(known)-maxNewFacts):]
}

// resultOf names the diff and the failing gates of a turn; empty if no gate failed, or if nobody could take the diff: what
// is not known is not the same.
func resultOf(e *Evidence) string {
	red := e.Red()
	if len(red) == 0 || e.Diff.Unavailable != "" {
		return ""
	}
	parts := []string{e.Diff.Hash}
	for _, g := range red {
		parts = append(parts, g.Command)
		parts = append(parts, g.Failing...)
	}
	return hashOf(strings.Join(parts, "\x00"))
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
