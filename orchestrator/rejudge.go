package orchestrator

import (
	"context"
	"fmt"
	"iter"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// Rejudged is a turn of a log that a judge was asked about again.
type Rejudged struct {
	boulder.AttemptRef
	Turn    int
	Gates   []boulder.Gate // that ran after it
	Was, Is boulder.Verdict
	Usage   boulder.Usage
}

// Rejudge asks a judge about each judged turn of a log, with the evidence and the state of then. Nothing follows from its
// verdicts: the next turn is the one of the log. The sequence ends with an error that the judge or the log gives.
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
