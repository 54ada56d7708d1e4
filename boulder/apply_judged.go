package boulder

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// WasAsked reports whether the attempt's last continuation said this.
func (a *Attempt) WasAsked(prompt string) bool { return prompt != "" && hashOf(prompt) == a.Asked }

// maxNewFacts bounds [Boulder.NewFacts]; the oldest go first.
const maxNewFacts = 30

func (s *State) learn(facts []string) {
	addTo(&s.Boulder.NewFacts, facts...)
	s.Boulder.NewFacts = s.Boulder.NewFacts[max(0, len(s.Boulder.NewFacts)-maxNewFacts):]
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
