package boulder

import (
	"testing"

	"pgregory.net/rapid"
)

// TestUsageSub: Sub undoes Add, and no count goes below zero.
func TestUsageSub(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<40)
		usage := func(name string) Usage {
			d := func(what string) int64 { return n.Draw(t, name+" "+what) }
			return Usage{
				Input: d("input"), CacheRead: d("cache read"), CacheWrite: d("cache write"), Output: d("output"),
				Reasoning: d("reasoning"), Cost: float64(d("cost")), Calls: d("calls"), Unpriced: d("unpriced"),
			}
		}
		booked, since := usage("booked"), usage("since")
		if got := booked.Add(since).Sub(booked); got != since {
			t.Fatalf("got %+v", got)
		}
		if got := booked.Sub(booked.Add(since)); got != (Usage{}) {
			t.Fatalf("something is below zero: %+v", got)
		}
	})
}
