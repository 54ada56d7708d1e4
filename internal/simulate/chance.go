package simulate

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// dice is randomness for one purpose. It depends on the seed and on what it is for, never on when or how often it is
// asked for: two runs of one world agree in it although their processes crash at different moments.
type dice struct{ *rand.Rand }

func throw(seed uint64, purpose ...any) dice {
	h := fnv.New64a()
	fmt.Fprintln(h, purpose...)
	return dice{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// is reports true with the probability p.
func (d dice) is(p float64) bool { return d.Float64() < p }

// from gives a number of the closed range.
func (d dice) from(low, high int) int { return low + d.IntN(high-low+1) }

// span gives a duration of the closed range, short ones as often as ones that are ten times as long.
func (d dice) span(low, high time.Duration) time.Duration {
	t := low
	for t < high/10 && d.is(0.6) {
		t *= 10
	}
	return t + time.Duration(d.Int64N(int64(min(9*t, high-t))+1))
}

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }
