package opencode

import (
	"fmt"
	"log/slog"
	"testing"

	"pgregory.net/rapid"
)

// Whatever comes and however slowly it is read: what waits is bounded, and a reader gets
// every event in order, or learns that some are missing.
func TestSubscriptionIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHub(nil, slog.New(slog.DiscardHandler))
		h.started, h.live = true, true
		s := h.subscribe(Filter{})
		var next int // the event that is due
		gap := true
		read := func() {
			e := <-s.events
			switch p := e.Payload.(type) {
			case Resync:
				gap = true
			case FileEdited:
				var n int
				if _, err := fmt.Sscan(p.File, &n); err != nil || n < next || n > next && !gap {
					t.Fatalf("event %d came, %d was due, gap announced: %t", n, next, gap)
				}
				next, gap = n+1, false
			}
		}
		published := 0
		for range rapid.IntRange(0, 40).Draw(t, "rounds") {
			for range rapid.SampledFrom([]int{0, 1, 3, 600}).Draw(t, "events") {
				h.publish(Event{Payload: FileEdited{fmt.Sprint(published)}})
				published++
			}
			for range rapid.IntRange(0, len(s.events)).Draw(t, "read") {
				read()
			}
		}
		for len(s.events) > 0 {
			read()
		}
		if next != published && published > 0 {
			t.Fatalf("the last event of %d did not come", published)
		}
		s.Close()
		h.close()
	})
}
