package flow

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// TestPage: every page fits into a payload, whatever the size of its events, and all pages make up the log.
func TestPage(t *testing.T) {
	t.Parallel()
	f := &flow{}
	for i := range 100 {
		e := boulder.TurnEnded{Evidence: boulder.Evidence{FinalMessage: strings.Repeat("<", i*200)}} // 6 bytes each
		if i == 50 {
			e.Evidence.FinalMessage = strings.Repeat("x", Largest-1_000)
		}
		f.log = append(f.log, boulder.Event{Seq: uint64(i + 1), Body: e})
	}
	var got []boulder.Event
	for more, pages := true, 0; more; pages++ {
		p, err := f.page(uint64(len(got)))
		if err == nil {
			err = Fits("the page", p)
		}
		if err != nil || len(p.Events) == 0 || pages > 20 {
			t.Fatalf("page %d: %d events, %v", pages, len(p.Events), err)
		}
		got, more = append(got, p.Events...), p.More
	}
	for i, e := range got {
		if e.Seq != uint64(i+1) {
			t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
	}
	if len(got) != 100 {
		t.Errorf("%d events", len(got))
	}
	if p, err := f.page(100); err != nil || len(p.Events) > 0 || p.More {
		t.Errorf("after the end: %+v, %v", p, err)
	}
}

// TestTooLarge: an oversized payload fails before it reaches the server, which would make the workflow retry for ever.
// The results of many sub-tasks fit where only their other fields are read.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	err := (&flow{}).Integrate(t.Context(), boulder.Integration{Turn: boulder.Turn{Prompt: strings.Repeat("x", Largest)}}, nil)
	if !errors.Is(err, boulder.ErrFatal) || !strings.Contains(err.Error(), "integrate needs to know has 2.0 MB") {
		t.Errorf("%v", err)
	}
	many := make([]boulder.SubTask, 100)
	for i := range many {
		many[i] = boulder.SubTask{ID: "t", Gates: []string{"true"}, Output: strings.Repeat("<", 60_000), UpdatedAt: time.Now()}
	}
	if err := Fits("a verification", boulder.Verification{SubTasks: withoutTexts(many)}); err != nil || many[99].Gates == nil {
		t.Error(err)
	}
}
