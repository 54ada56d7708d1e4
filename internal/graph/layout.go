package graph

import (
	"cmp"
	"math"
	"slices"
)

// layout gives each node a place in its level, after Sugiyama: an edge that passes levels gets a lane through each of
// them, the order within a level is chosen so that few edges cross, and then the coordinates so that edges are short
// and lanes straight. "Across" is the direction of a level, whatever that is on the page.
type layout struct {
	spacing
	levels [][]*item // in the order in which they stand
	nodes  []*item   // of each node
	pieces int       // of edges, each from one level to the next
	loose  []edge    // long edges for which there were no lanes left
	width  int       // of all, across
}

// item is a node, or the lane in which the long edges of a node pass a level. All long edges of a node share it.
type item struct {
	node  int // the node; for a lane the one that its edges come from
	lane  bool
	level int
	rank  int     // place in its level
	size  int     // across
	left  int     // where it begins, across
	at    float64 // left, before all is rounded
	up    []*item // of the level before, from which edges come
	down  []*item // of the next level, to which edges lead
}

func (it *item) middle() float64 { return float64(it.left) + float64(it.size)/2 }

// spacing is what a layout is made with, in any unit.
type spacing struct {
	size func(node int) int // of a node, across
	gap  int                // between nodes
	lane int                // size of a lane
	pass int                // between a lane and what stands beside it
}

const (
	maxLanes = 5_000 // beyond it, long edges are loose: the cost stays in proportion to what people look at
	maxExact = 4_000 // pieces of edges up to which crossings are counted: that looks at all pairs
	sweeps   = 8     // over all levels, down and up. More changed no drawing that was looked at
)

// newLayout lays the graph out.
func newLayout(g *Graph, s spacing) *layout {
	l := &layout{spacing: s, levels: make([][]*item, len(g.levels))}
	for i := range g.nodes {
		l.nodes = append(l.nodes, l.add(&item{node: i, level: g.level[i], size: s.size(i)}))
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

// connect links the items, with lanes where edges pass levels.
func (l *layout) connect(g *Graph) {
	link := func(from, to *item) {
		from.down, to.up = append(from.down, to), append(to.up, from)
		l.pieces++
	}
	edges := slices.Clone(g.edges)
	slices.SortStableFunc(edges, func(a, b edge) int { // the shortest of a node first: longer ones go on from its lanes
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(g.level[a.to], g.level[b.to]))
	})
	lanes := 0
	var at *item
	for i, e := range edges {
		if i == 0 || edges[i-1].from != e.from {
			at = l.nodes[e.from]
		}
		to := l.nodes[e.to]
		if to.level <= g.level[e.from] { // in a cycle
			continue
		}
		if lanes += to.level - 1 - at.level; lanes > maxLanes {
			lanes -= to.level - 1 - at.level
			l.loose = append(l.loose, e)
			continue
		}
		for at.level < to.level-1 {
			lane := l.add(&item{node: e.from, lane: true, level: at.level + 1, size: l.lane})
			link(at, lane)
			at = lane
		}
		link(at, to)
	}
}

func above(it *item) []*item { return it.up }
func below(it *item) []*item { return it.down }
func both(it *item) []*item  { return slices.Concat(it.up, it.down) }

// order sorts each level by where the neighbours of its items stand, down and up in turn, and keeps the best.
func (l *layout) order() {
	exact := l.pieces <= maxExact
	var best [][]*item
	fewest := math.MaxInt
	for n := range 2 * sweeps {
		if exact {
			if c := l.crossings(); c < fewest {
				fewest, best = c, nil
				for _, level := range l.levels {
					best = append(best, slices.Clone(level))
				}
			}
			if fewest == 0 {
				break
			}
		}
		for i := range l.levels {
			if n%2 == 0 {
				sortLevel(l.levels[i], above)
			} else {
				sortLevel(l.levels[len(l.levels)-1-i], below)
			}
		}
	}
	for i := range best {
		l.levels[i] = best[i]
		setRanks(best[i])
	}
}

func setRanks(level []*item) {
	for rank, it := range level {
		it.rank = rank
	}
}

// sortLevel puts each item at the mean place of its neighbours; one without any stays where it is.
func sortLevel(level []*item, near func(*item) []*item) {
	for _, it := range level {
		sum, n := 0, 0
		for _, o := range near(it) {
			sum, n = sum+o.rank, n+1
		}
		it.at = float64(it.rank)
		if n > 0 {
			it.at = float64(sum) / float64(n)
		}
	}
	slices.SortStableFunc(level, func(a, b *item) int { return cmp.Compare(a.at, b.at) })
	setRanks(level)
}

// crossed counts the crossings between the edges of one item and those of one to its right.
func crossed(left, right []*item) int {
	n := 0
	for _, a := range left {
		for _, b := range right {
			if a.rank > b.rank {
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
		for i, a := range level {
			for _, b := range level[i+1:] {
				n += crossed(a.down, b.down)
			}
		}
	}
	return n
}

// coordinates gives each item its place across: each level in turn comes as near to the middle of its neighbours as its
// order and the gaps allow.
func (l *layout) coordinates() {
	for _, level := range l.levels {
		for n, at := range l.closest(level) {
			level[n].at = float64(at)
		}
	}
	for range sweeps {
		for _, level := range l.levels {
			l.pull(level, above)
		}
		for _, level := range slices.Backward(l.levels) {
			l.pull(level, below)
		}
	}
	for range sweeps {
		for _, level := range l.levels {
			l.pull(level, both)
		}
	}
	least := math.MaxInt
	for _, level := range l.levels {
		for n, it := range level {
			it.left = whole(it.at)
			if len(it.up) == 1 && (it.lane && it.up[0].lane || math.Abs(it.middle()-it.up[0].middle()) <= 2) {
				it.left = it.up[0].left + (it.up[0].size-it.size)/2 // straight, where there is room
				if n > 0 {
					it.left = max(it.left, level[n-1].left+l.closest(level[n-1 : n+1])[1])
				}
				if n+1 < len(level) {
					it.left = min(it.left, whole(level[n+1].at)-l.closest(level[n : n+2])[1])
				}
			}
			least = min(least, it.left)
		}
	}
	for _, level := range l.levels {
		for _, it := range level {
			it.left -= least
			l.width = max(l.width, it.left+it.size)
		}
	}
}

// whole rounds a place. Sizes and gaps are whole numbers, so what had room before has it afterwards. Halves are common;
// the small part more keeps those on one side that are none by an error of the last digit only.
func whole(at float64) int { return int(math.Floor(at + 0.5 + 1e-6)) }

// closest gives the places of a level's items if they stand as close as they may.
func (l *layout) closest(level []*item) []int {
	places := make([]int, len(level))
	for n := 1; n < len(level); n++ {
		gap := l.gap
		if level[n-1].lane || level[n].lane {
			gap = l.pass
		}
		places[n] = places[n-1] + level[n-1].size + gap
	}
	return places
}

// straightLane is how much more a piece of an edge between two lanes wants to be straight than one between two nodes;
// Graphviz takes 8 too.
const straightLane = 8

// pull moves a level's items towards their neighbours: of all places that keep the order and the gaps, those with the
// least sum of squared distances (isotonic regression, by pooling adjacent violators).
func (l *layout) pull(level []*item, near func(*item) []*item) {
	type pool struct {
		sum, weight float64
		n           int
	}
	var pools []pool
	places := l.closest(level)
	for n, it := range level {
		p := pool{0.01 * it.at, 0.01, 1} // without neighbours: where it is, but it gives way
		if around := near(it); len(around) > 0 {
			p = pool{n: 1}
			for _, o := range around {
				w := 1.0
				if it.lane && o.lane {
					w = straightLane
				}
				p.sum += w * (o.at + float64(o.size-it.size)/2)
				p.weight += w
			}
		}
		p.sum -= float64(places[n]) * p.weight
		for k := len(pools) - 1; k >= 0 && pools[k].sum*p.weight > p.sum*pools[k].weight; k-- {
			p.sum, p.weight, p.n = p.sum+pools[k].sum, p.weight+pools[k].weight, p.n+pools[k].n
			pools = pools[:k]
		}
		pools = append(pools, p)
	}
	n := 0
	for _, p := range pools {
		for range p.n {
			level[n].at = p.sum/p.weight + float64(places[n])
			n++
		}
	}
}
