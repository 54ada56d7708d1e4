package graph

import (
	"cmp"
	"slices"
)

// net is a bundle of edges between two levels whose lines join: each item that it leaves leads to each that it enters.
type net struct {
	name    int   // unique in a drawing
	to      []int // items, sorted
	exits   []int // columns above
	entries []port
	track   int // the row in which its horizontal line is; -1: it is a straight line down
}

type port struct{ item, column int }

func (n *net) low() int {
	low := slices.Min(n.exits)
	for _, p := range n.entries {
		low = min(low, p.column)
	}
	return low
}

func (n *net) high() int {
	high := slices.Max(n.exits)
	for _, p := range n.entries {
		high = max(high, p.column)
	}
	return high
}

func (n *net) center() int { return (slices.Min(n.exits) + slices.Max(n.exits)) / 2 }

// port chooses where the k-th of so many nets enters a box: straight below where it comes from if it can, else evenly
// along the box, and in any case in a column that is free.
func (n *net) port(it *item, k, of int, free func(column int) bool) (column int, ok bool) {
	want := it.left + (k+1)*it.size/(of+1)
	if of == 1 && len(n.exits) == 1 && n.exits[0] > it.left+1 && n.exits[0] < it.left+it.size-2 {
		want = n.exits[0]
	}
	for off := range it.size {
		for _, column := range []int{want + off, want - off} {
			if column > it.left && column < it.left+it.size-1 && free(column) {
				return column, true
			}
		}
	}
	return 0, false
}

// sides says to which sides the net's horizontal line and what joins it there leave a column.
func (n *net) sides(column int) uint8 {
	var sides uint8
	if column > n.low() {
		sides |= left
	}
	if column < n.high() {
		sides |= right
	}
	if slices.Contains(n.exits, column) {
		sides |= up
	}
	if slices.ContainsFunc(n.entries, func(p port) bool { return p.column == column }) {
		sides |= down
	}
	return sides
}

// route gives each net that is not straight a track on which it overlaps no other. It reports how many tracks there
// are, and fails if lines would have to lie on each other: a net that leaves in the column in which another one enters
// has to turn above that, and a circle of such pairs cannot.
func route(nets []*net) (tracks int, ok bool) {
	var open []*net
	for _, n := range nets {
		if n.low() < n.high() {
			open = append(open, n)
		}
	}
	slices.SortStableFunc(open, func(a, b *net) int { return cmp.Compare(a.low(), b.low()) })
	placed := map[*net]bool{}
	for len(open) > 0 {
		i := slices.IndexFunc(open, func(n *net) bool {
			return !slices.ContainsFunc(open, func(o *net) bool { return o != n && o.above(n) })
		})
		if i < 0 {
			return 0, false
		}
		n := open[i]
		open = slices.Delete(open, i, i+1)
		for o := range placed {
			if o.above(n) {
				n.track = max(n.track, o.track)
			}
		}
		for n.track++; n.collides(placed); n.track++ {
		}
		placed[n] = true
		tracks = max(tracks, n.track+1)
	}
	return tracks, true
}

// above reports whether the net has to turn above the other one.
func (n *net) above(other *net) bool {
	return slices.ContainsFunc(other.entries, func(p port) bool { return slices.Contains(n.exits, p.column) })
}

func (n *net) collides(placed map[*net]bool) bool {
	for o := range placed {
		if o.track == n.track && o.low() <= n.high()+1 && n.low() <= o.high()+1 {
			return true
		}
	}
	return false
}
