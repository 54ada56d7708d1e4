package watch

import (
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// The next prompt tells the user's answer, unless it was the reply to the ask itself.
func TestAnswersThatAreStillToBeTold(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		ask     *boulder.Ask
		settled time.Duration // relative to Until
		allowed bool          // with a text
		told    bool
	}{
		"no ask":                    {told: true},
		"refused at once":           {ask: &boulder.Ask{Reply: boulder.ReplyDiverted}, settled: time.Hour, told: true},
		"in time":                   {ask: &boulder.Ask{Reply: boulder.ReplyAllowed}, settled: -time.Second},
		"in time, with a refusal":   {ask: &boulder.Ask{Reply: boulder.ReplyDiverted}, settled: -time.Second},
		"in time, with a text":      {ask: &boulder.Ask{Reply: boulder.ReplyAllowed}, settled: -time.Second, allowed: true, told: true},
		"too late":                  {ask: &boulder.Ask{Reply: boulder.ReplyDiverted}, settled: time.Second, told: true},
		"in time, and nobody waits": {ask: &boulder.Ask{Reply: boulder.ReplyWaiting}, settled: -time.Second, told: true},
		"in time, of an ask gone":   {ask: &boulder.Ask{Reply: boulder.ReplyGone}, settled: -time.Second, told: true},
	} {
		b := boulder.Blocker{
			ID: "B1", Ask: c.ask, Status: boulder.BlockerAnswered, Answer: "yes", Allowed: c.allowed,
			Until: at, SettledAt: at.Add(c.settled),
		}
		if c.ask == nil {
			b.Until = time.Time{}
		}
		s := watched{blockers: []boulder.Blocker{b}}
		if texts, _ := s.answers(); len(texts) > 0 != c.told {
			t.Errorf("%s: told %q", name, texts)
		}
		s.rec.Answered = []string{"B1"}
		if texts, _ := s.answers(); len(texts) > 0 {
			t.Errorf("%s: told twice: %q", name, texts)
		}
	}
}
