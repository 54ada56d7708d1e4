package simulate

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// dice is randomness for one purpose. It depends on the seed and the purpose, not on when or how often it is used: two
// runs of one world agree in it even if their processes crash at different moments.
type dice struct{ *rand.Rand }

func throw(seed uint64, purpose ...any) dice {
	h := fnv.New64a()
	fmt.Fprintln(h, purpose...)
	return dice{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// is returns true with probability p.
func (d dice) is(p float64) bool { return d.Float64() < p }

// from returns a number in [low, high].
func (d dice) from(low, high int) int { return low + d.IntN(high-low+1) }

// span returns a duration in [low, high], its order of magnitude about equally distributed.
func (d dice) span(low, high time.Duration) time.Duration {
	t := low
	for t < high/10 && d.is(0.6) {
		t *= 10
	}
	return t + time.Duration(d.Int64N(int64(min(9*t, high-t))+1))
}

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }
