package boulder_test

import (
	"math"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// A sum that wraps would be negative, and so below every budget.
func TestUsageSaturates(t *testing.T) {
	t.Parallel()
	most := boulder.Usage{Input: math.MaxInt64, Output: math.MaxInt64}
	if sum := most.Add(most); sum.Input != math.MaxInt64 || sum.Tokens() != math.MaxInt64 {
		t.Errorf("%+v", sum)
	}
	odd := boulder.Usage{Input: -1, CacheRead: math.MinInt64, Output: math.MaxInt64, Reasoning: 7, Cost: math.NaN()}
	if sane := odd.Sane(); sane != (boulder.Usage{Reasoning: 7, Unpriced: 1}) {
		t.Errorf("%+v", sane)
	}
}
