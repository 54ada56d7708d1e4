package graph

import (
	"cmp"
	"slices"
)

// layout gives each node a place in its level, after Sugiyama: an edge that passes levels gets a lane through each of
// them, the order within a level is chosen so that few edges cross, and then the coordinates so that edges are short
// and lanes straight. "Across" is the direction of a level, whatever that is on the page.
type layout struct {
	items  []item
	levels [][]int // places in items, in the order in which they stand
	node   []int   // place in items of each node
	width  int     // of all, across
	pieces int     // of edges, each from one level to the next
	loose  []edge  // long edges for which there were no lanes left
}

// item is a node, or the lane in which the long edges of a node pass a level. All long edges of a node share it.
type item struct {
	node  int // the node; for a lane the one that its edges come from
	lane  bool
	level int
	size  int     // across
	left  int     // where it begins, across
	at    float64 // left, before all is rounded
	up    []int   // the items of the level before that edges come from
	down  []int   // the items of the next level that edges lead to
	rank  int     // place in its level
}

func (it *item) middle() float64 { return float64(it.left) + float64(it.size)/2 }

// spacing is what a layout is made with, in any unit.
type spacing struct {
	size func(node int) int // of a node, across
	gap  int                // between nodes
	lane int                // size of a lane
	pass int                // between a lane and what stands beside it
}

// maxLanes bounds the lanes of a layout, so that its cost stays in proportion to what people look at. Beyond it, long
// edges are loose.
const maxLanes = 20_000

// newLayout lays the graph out.
func newLayout(g *Graph, s spacing) *layout {
	l := &layout{levels: make([][]int, g.deep), node: make([]int, len(g.nodes))}
	for i := range g.nodes {
		l.node[i] = l.add(item{node: i, level: g.level[i], size: s.size(i)})
	}
	l.connect(g, s)
	l.order()
	l.coordinates(s)
	return l
}

func (l *layout) add(it item) int {
	it.rank = len(l.levels[it.level])
	l.items = append(l.items, it)
	l.levels[it.level] = append(l.levels[it.level], len(l.items)-1)
	return len(l.items) - 1
}

func (l *layout) link(from, to int) {
	l.items[from].down = append(l.items[from].down, to)
	l.items[to].up = append(l.items[to].up, from)
	l.pieces++
}

// connect draws the edges, with lanes where they pass levels.
func (l *layout) connect(g *Graph, s spacing) {
	targets := make([][]int, len(g.nodes))
	for _, e := range g.edges {
		if g.level[e.from] < g.level[e.to] {
			targets[e.from] = append(targets[e.from], e.to)
		}
	}
	lanes := 0
	for from, to := range targets {
		slices.SortStableFunc(to, func(a, b int) int { return cmp.Compare(g.level[a], g.level[b]) })
		at := l.node[from]
		for _, target := range to {
			needed := g.level[target] - 1 - l.items[at].level
			if lanes+needed > maxLanes {
				l.loose = append(l.loose, edge{from, target})
				continue
			}
			lanes += needed
			for l.items[at].level < g.level[target]-1 {
				lane := l.add(item{node: from, lane: true, level: l.items[at].level + 1, size: s.lane})
				l.link(at, lane)
				at = lane
			}
			l.link(at, l.node[target])
		}
	}
}

// sweeps is how often the order and the coordinates go down and up over all levels. More changed no drawing that was
// looked at.
const sweeps = 8

// order sorts each level by where the neighbours of its items stand, down and up in turn, and keeps the best.
func (l *layout) order() {
	best, fewest := l.snapshot(), l.crossings()
	for n := 0; n < 2*sweeps && fewest > 0; n++ {
		for i := range l.levels {
			level, next := i, func(it *item) []int { return it.up }
			if n%2 == 1 {
				level, next = len(l.levels)-1-i, func(it *item) []int { return it.down }
			}
			l.sortLevel(level, next)
		}
		l.transpose()
		if c := l.crossings(); c < fewest {
			best, fewest = l.snapshot(), c
		}
	}
	for i, level := range best {
		l.setLevel(i, level)
	}
}

func (l *layout) snapshot() [][]int {
	all := make([][]int, len(l.levels))
	for i, level := range l.levels {
		all[i] = slices.Clone(level)
	}
	return all
}

func (l *layout) setLevel(i int, level []int) {
	l.levels[i] = level
	for rank, it := range level {
		l.items[it].rank = rank
	}
}

// sortLevel puts each item at the mean place of its neighbours; one without any stays where it is.
func (l *layout) sortLevel(level int, next func(*item) []int) {
	wish := make(map[int]float64, len(l.levels[level]))
	for _, i := range l.levels[level] {
		it := &l.items[i]
		wish[i] = float64(it.rank)
		if near := next(it); len(near) > 0 {
			sum := 0
			for _, n := range near {
				sum += l.items[n].rank
			}
			wish[i] = float64(sum) / float64(len(near))
		}
	}
	slices.SortStableFunc(l.levels[level], func(a, b int) int { return cmp.Compare(wish[a], wish[b]) })
	l.setLevel(level, l.levels[level])
}

// transposable bounds the pieces of edges of a layout in which neighbours are tried the other way round: that looks at
// all pairs of their ends.
const transposable = 4_000

// transpose swaps neighbours where that takes crossings away.
func (l *layout) transpose() {
	if l.pieces > transposable {
		return
	}
	for _, level := range l.levels {
		for i := 0; i+1 < len(level); i++ {
			a, b := &l.items[level[i]], &l.items[level[i+1]]
			before := l.pair(a.up, b.up) + l.pair(a.down, b.down)
			after := l.pair(b.up, a.up) + l.pair(b.down, a.down)
			if after < before {
				level[i], level[i+1] = level[i+1], level[i]
				a.rank, b.rank = b.rank, a.rank
			}
		}
	}
}

// pair counts the crossings between the edges of one item and those of one to its right.
func (l *layout) pair(left, right []int) int {
	n := 0
	for _, a := range left {
		for _, b := range right {
			if l.items[a].rank > l.items[b].rank {
				n++
			}
		}
	}
	return n
}

// crossings counts how often edges cross.
func (l *layout) crossings() int {
	n := 0
	for _, level := range l.levels {
		var ends []int // ranks of the edges' lower ends, in the order of their upper ends
		for _, i := range level {
			from := len(ends)
			for _, d := range l.items[i].down {
				ends = append(ends, l.items[d].rank)
			}
			slices.Sort(ends[from:])
		}
		n += inversions(ends, make([]int, len(ends)))
	}
	return n
}

// inversions counts the pairs that stand in the wrong order, and sorts.
func inversions(a, scratch []int) int {
	if len(a) < 2 {
		return 0
	}
	half := len(a) / 2
	left, right := a[:half], a[half:]
	n := inversions(left, scratch[:half]) + inversions(right, scratch[half:])
	merged := scratch[:0]
	for len(left) > 0 && len(right) > 0 {
		if left[0] <= right[0] {
			merged, left = append(merged, left[0]), left[1:]
		} else {
			n += len(left)
			merged, right = append(merged, right[0]), right[1:]
		}
	}
	merged = append(append(merged, left...), right...)
	copy(a, merged)
	return n
}
