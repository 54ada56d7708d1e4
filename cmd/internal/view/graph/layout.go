package graph

import (
	"cmp"
	"math"
	"slices"
)

// layout is a layered layout after Sugiyama. An edge that passes levels gets a lane through each; the order within a
// level minimizes crossings, then the coordinates make edges short and lanes straight. "Across" is the direction of a
// level, be it horizontal or vertical on the page.
type layout struct {
	levels [][]*item // each in order
	nodes  []*item   // by node
	width  int       // total, across
}

// item is a node, or a lane in which all long edges of a node pass a level.
type item struct {
	node  int // -1: a lane
	level int
	rank  int     // index in its level
	size  int     // across
	at    float64 // preferred position, across
	left  int     // start, across
	up    []*item // sources of its edges
	down  []*item // targets of its edges
}

func (it *item) lane() bool { return it.node < 0 }

func (it *item) middle() float64 { return float64(it.left) + float64(it.size)/2 }

const (
	maxLanes = 5_000 // bounds the cost: beyond it, long edges go straight to their end
	sweeps   = 8     // over all levels, down and up; more changed no drawing (observed)
)

// newLayout lays out the graph. size gives the size of a node across.
func newLayout(g *Graph, size func(node int) int) *layout {
	l := &layout{levels: make([][]*item, len(g.levels)), nodes: make([]*item, len(g.nodes))}
	for n, level := range g.levels {
		for _, i := range level {
			l.nodes[i] = l.add(&item{node: i, level: n, size: size(i)})
		}
	}
	l.connect(g)
	l.order()
	l.coordinates()
	return l
}

func (l *layout) add(it *item) *item {
	it.rank = len(l.levels[it.level])
	l.levels[it.level] = append(l.levels[it.level], it)
	return it
}

func (l *layout) connect(g *Graph) {
	after := make([][]*item, len(g.nodes))
	lanes := 0
	for i, before := range g.before {
		for _, from := range before {
			if it, levels := l.nodes[i], l.nodes[i].level-l.nodes[from].level; levels > 0 { // else a cycle
				after[from] = append(after[from], it)
				lanes += levels - 1
			}
		}
	}
	for i, targets := range after {
		slices.SortStableFunc(targets, func(a, b *item) int { return cmp.Compare(a.level, b.level) })
		at := l.nodes[i] // the lanes of a longer edge continue those of a shorter one
		link := func(to *item) { at.down, to.up = append(at.down, to), append(to.up, at) }
		for _, to := range targets {
			for lanes <= maxLanes && at.level < to.level-1 {
				lane := l.add(&item{node: -1, level: at.level + 1, size: svgLane})
				link(lane)
				at = lane
			}
			link(to)
		}
	}
}

func above(it *item) []*item { return it.up }
func below(it *item) []*item { return it.down }

// order sorts each level by the positions of neighbours, down and up in turn.
func (l *layout) order() {
	for range sweeps {
		for _, level := range l.levels {
			sortLevel(level, above)
		}
		for _, level := range slices.Backward(l.levels) {
			sortLevel(level, below)
		}
	}
}

// sortLevel sorts items by the mean rank of their neighbours. An item without neighbours keeps its rank as the key.
func sortLevel(level []*item, near func(*item) []*item) {
	for _, it := range level {
		it.at = float64(it.rank)
		for k, o := range near(it) {
			it.at += (float64(o.rank) - it.at) / float64(k+1) // their mean so far
		}
	}
	slices.SortStableFunc(level, func(a, b *item) int { return cmp.Compare(a.at, b.at) })
	for rank, it := range level {
		it.rank = rank
	}
}

// coordinates positions the items across, each as near to its neighbours as order and gaps allow.
func (l *layout) coordinates() {
	for _, level := range l.levels {
		for n, at := range closest(level) {
			level[n].at = float64(at)
		}
	}
	for range 2 * sweeps {
		for _, level := range l.levels {
			pull(level)
		}
	}
	for _, level := range l.levels { // what depends on nothing, and on which nothing depends, goes beside its neighbour
		for n, it := range level {
			if n > 0 && len(it.up)+len(it.down) == 0 {
				it.at = level[n-1].at + float64(closest(level[n-1 : n+1])[1])
			}
		}
	}
	least := math.Inf(1)
	for _, it := range slices.Concat(l.levels...) {
		least = min(least, it.at)
	}
	for _, it := range slices.Concat(l.levels...) {
		it.left = int(math.Round(it.at - least))
		l.width = max(l.width, it.left+it.size)
	}
}

// closest returns the starts of a level's items with minimal gaps.
func closest(level []*item) []int {
	places := make([]int, len(level))
	for n := 1; n < len(level); n++ {
		gap := svgGap
		if level[n-1].lane() || level[n].lane() {
			gap = svgPass
		}
		places[n] = places[n-1] + level[n-1].size + gap
	}
	return places
}

// straightLane is the weight of an edge between two lanes; one between two nodes has 1. 8 is from Graphviz.
const straightLane = 8

// pull moves a level's items towards their neighbours. It minimizes the sum of squared distances under the order and
// the gaps (isotonic regression by pooling adjacent violators).
func pull(level []*item) {
	type pool struct {
		sum, weight float64
		items       []*item
	}
	var pools []pool
	places := closest(level)
	for n, it := range level {
		p := pool{0.01 * it.at, 0.01, level[n : n+1]} // without neighbours: its place, with little weight
		for k, o := range slices.Concat(it.up, it.down) {
			w := 1.0
			if it.lane() && o.lane() {
				w = straightLane
			}
			if k == 0 {
				p.sum, p.weight = 0, 0
			}
			p.sum += w * (o.at + float64(o.size-it.size)/2)
			p.weight += w
		}
		p.sum -= float64(places[n]) * p.weight
		for k := len(pools) - 1; k >= 0 && pools[k].sum*p.weight > p.sum*pools[k].weight; k-- {
			p.sum, p.weight, p.items = p.sum+pools[k].sum, p.weight+pools[k].weight, level[n+1-len(p.items)-len(pools[k].items):n+1]
			pools = pools[:k]
		}
		pools = append(pools, p)
	}
	for _, p := range pools {
		for _, it := range p.items {
			it.at = p.sum/p.weight + float64(places[it.rank])
		}
	}
}
