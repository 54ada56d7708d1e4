package orchestrator

import (
	"context"
	"fmt"
	"iter"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
)

// Rejudged is a turn of a log on which a judge ruled again.
type Rejudged struct {
	boulder.AttemptRef
	Turn    int
	Gates   []boulder.Gate // that ran after the turn
	Was, Is boulder.Verdict
	Usage   boulder.Usage
}

// Rejudge asks judge again about each judged turn of a log, with the evidence and state of then. Nothing follows from
// the new verdicts. The sequence ends at the first error of the judge or the log.
func Rejudge(ctx context.Context, events []boulder.Event, judge Judge) iter.Seq2[Rejudged, error] {
	return func(yield func(Rejudged, error) bool) {
		s := boulder.NewState()
		for _, e := range events {
			if b, ok := e.Body.(boulder.Judged); ok {
				o := s.Open(b.SubTaskID)
				if o == nil || o.Turn == nil || o.Turn.Evidence == nil {
					yield(Rejudged{}, fmt.Errorf("event %d (judged): there is no evidence of that turn", e.Seq))
					return
				}
				again := Rejudged{AttemptRef: b.AttemptRef, Turn: b.Turn, Gates: o.Turn.Evidence.Gates, Was: b.Verdict}
				var err error
				if again.Is, again.Usage, err = judge.Judge(ctx, judgeRequest(s, o)); err == nil {
					again.Is = schedule.Overrule(o.SubTask, o.Turn.Evidence, again.Is)
				}
				if !yield(again, err) || err != nil {
					return
				}
			}
			if err := s.Replay(e); err != nil {
				yield(Rejudged{}, fmt.Errorf("event %d (%s): %w", e.Seq, boulder.TypeOf(e.Body), err))
				return
			}
		}
	}
}
