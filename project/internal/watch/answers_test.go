package watch

import (
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// The next prompt tells the user's answer, once, unless the session has it: see TestEndOfAWait of package session.
func TestAnswersThatAreStillToBeTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b    boulder.Blocker
		told bool
	}{
		"no ask":       {boulder.Blocker{Status: boulder.BlockerAnswered}, true},
		"skipped":      {boulder.Blocker{Status: boulder.BlockerSkipped}, true},
		"an ask":       {boulder.Blocker{Status: boulder.BlockerAnswered, Ask: &boulder.Ask{}}, true},
		"of one gone":  {boulder.Blocker{Status: boulder.BlockerAnswered, Ask: &boulder.Ask{}, Gone: true}, true},
		"replied":      {boulder.Blocker{Status: boulder.BlockerAnswered, Ask: &boulder.Ask{}, Replied: true}, false},
		"not answered": {boulder.Blocker{Status: boulder.BlockerPending}, false},
	} {
		c.b.ID, c.b.Question = "W1", "Which?"
		if c.b.Status == boulder.BlockerAnswered {
			c.b.Answer = "yes"
		}
		s := watched{blockers: []boulder.Blocker{c.b}}
		if texts, _ := s.answers(); len(texts) > 0 != c.told {
			t.Errorf("%s: told %q", name, texts)
		}
		s.rec.Answered = []string{"W1"}
		if texts, _ := s.answers(); len(texts) > 0 {
			t.Errorf("%s: told twice: %q", name, texts)
		}
	}
}
