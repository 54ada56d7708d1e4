package graph

import (
	"math"
	"slices"
)

// coordinates gives each item its place across: each level in turn comes as near to the middle of its neighbours as its
// order and the gaps allow.
func (l *layout) coordinates(s spacing) {
	for _, level := range l.levels {
		at := 0
		for n, i := range level {
			if n > 0 {
				at += l.between(s, level[n-1], i)
			}
			l.items[i].at = float64(at)
			at += l.items[i].size
		}
	}
	both := func(it *item) []int { return slices.Concat(it.up, it.down) }
	for range sweeps {
		for i := range l.levels {
			l.pull(i, s, func(it *item) []int { return it.up })
		}
		for i := range l.levels {
			l.pull(len(l.levels)-1-i, s, func(it *item) []int { return it.down })
		}
	}
	for range sweeps {
		for i := range l.levels {
			l.pull(i, s, both)
		}
	}
	for i := range l.items {
		l.items[i].left = whole(l.items[i].at)
	}
	l.straighten(s)
	l.shift()
}

// whole rounds a place. Sizes and gaps are whole numbers, so what had room before has it afterwards. Halves are common;
// the small part more keeps those on one side that are none by an error of the last digit only.
func whole(at float64) int { return int(math.Floor(at + 0.5 + 1e-6)) }

// between is the room between two neighbours.
func (l *layout) between(s spacing, a, b int) int {
	if l.items[a].lane || l.items[b].lane {
		return s.pass
	}
	return s.gap
}

// straightLane is how much more a piece of an edge between two lanes wants to be straight than one between two nodes;
// Graphviz takes 8 too.
const straightLane = 8

// pull moves a level's items towards their neighbours: of all places that keep the order and the gaps, those with the
// least sum of squared distances (isotonic regression, by pooling adjacent violators).
func (l *layout) pull(level int, s spacing, next func(*item) []int) {
	type pool struct {
		sum, weight float64
		n           int
	}
	var pools []pool
	offset, offsets := 0, make([]int, len(l.levels[level])) // of the items if all stood as close as they may
	for n, i := range l.levels[level] {
		it := &l.items[i]
		if n > 0 {
			before := l.levels[level][n-1]
			offset += l.items[before].size + l.between(s, before, i)
		}
		offsets[n] = offset
		want, weight := l.wish(it, next(it))
		pools = append(pools, pool{(want - float64(offset)) * weight, weight, 1})
		for k := len(pools) - 1; k > 0 && pools[k-1].sum*pools[k].weight > pools[k].sum*pools[k-1].weight; k-- {
			pools[k-1].sum += pools[k].sum
			pools[k-1].weight += pools[k].weight
			pools[k-1].n += pools[k].n
			pools = pools[:k]
		}
	}
	n := 0
	for _, p := range pools {
		for range p.n {
			l.items[l.levels[level][n]].at = p.sum/p.weight + float64(offsets[n])
			n++
		}
	}
}

// wish is where an item would begin if it could, and how much it wants that.
func (l *layout) wish(it *item, near []int) (left, weight float64) {
	for _, i := range near {
		w := 1.0
		if it.lane && l.items[i].lane {
			w = straightLane
		}
		left += w * (l.items[i].at + float64(l.items[i].size)/2)
		weight += w
	}
	if weight == 0 {
		return it.at, 0.01 // where it is, but it gives way
	}
	return left/weight - float64(it.size)/2, weight
}

// straighten takes the small steps out of edges that rounding has left, where there is room.
func (l *layout) straighten(s spacing) {
	for _, level := range l.levels {
		for rank, i := range level {
			it := &l.items[i]
			if len(it.up) != 1 {
				continue
			}
			above := &l.items[it.up[0]]
			if !it.lane && (len(above.down) > 1 || math.Abs(it.middle()-above.middle()) > 2) {
				continue
			}
			want := above.left + (above.size-it.size)/2
			if rank > 0 {
				before := &l.items[level[rank-1]]
				want = max(want, before.left+before.size+l.between(s, level[rank-1], i))
			}
			if rank+1 < len(level) {
				want = min(want, l.items[level[rank+1]].left-it.size-l.between(s, i, level[rank+1]))
			}
			if it.lane == above.lane {
				it.left = want
			}
		}
	}
}

// shift lets the layout begin at 0, and measures it.
func (l *layout) shift() {
	least, most := math.MaxInt, 0
	for i := range l.items {
		least = min(least, l.items[i].left)
	}
	for i := range l.items {
		l.items[i].left -= least
		most = max(most, l.items[i].left+l.items[i].size)
	}
	l.width = most
}
