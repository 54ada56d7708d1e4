package providers_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/providers"
)

func TestUsageCostUnknownIsNotZero(t *testing.T) {
	t.Parallel()
	known := providers.Usage{Input: 1, Cost: new(0.25)}
	unknown := providers.Usage{Input: 1}
	if sum := known.Add(unknown); sum.Cost != nil || sum.Input != 2 {
		t.Errorf("known + unknown = %v", sum)
	}
	if sum := known.Add(known); sum.Cost == nil || *sum.Cost != 0.5 {
		t.Errorf("known + known = %v", sum)
	}
	if *known.Cost != 0.25 {
		t.Error("Add changed its operand")
	}
	// A failed call that cost nothing must not make the sum unknown.
	if sum := known.Add(providers.Usage{}); sum.Cost == nil {
		t.Error("the zero usage made the cost unknown")
	}
}

func TestUsageAddIsASum(t *testing.T) {
	t.Parallel()
	one := rapid.Custom(func(t *rapid.T) providers.Usage {
		n := rapid.Int64Range(0, 1000)
		u := providers.Usage{Input: n.Draw(t, "in"), Output: n.Draw(t, "out"), Reasoning: n.Draw(t, "reasoning"),
			CachedInput: n.Draw(t, "cached"), CacheWrite: n.Draw(t, "write")}
		if rapid.Bool().Draw(t, "priced") {
			u.Cost = new(float64(n.Draw(t, "cents")))
		}
		return u
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := one.Draw(t, "a"), one.Draw(t, "b"), one.Draw(t, "c")
		if diff := cmp.Diff(a.Add(b).Add(c), a.Add(b.Add(c))); diff != "" {
			t.Fatalf("the order of adding matters:\n%s", diff)
		}
		if diff := cmp.Diff(a.Add(b), b.Add(a)); diff != "" {
			t.Fatalf("a+b is not b+a:\n%s", diff)
		}
		if got := a.Add(b).Total(); got != a.Total()+b.Total() {
			t.Fatalf("total %d", got)
		}
	})
}
