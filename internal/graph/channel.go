package graph

import (
	"cmp"
	"slices"
	"strings"
)

// net is a bundle of edges between two levels whose lines join: each item that it leaves leads to each that it enters.
type net struct {
	to      []*item
	exits   []int // columns above
	entries []int // columns below
	low     int   // of all columns
	high    int
	track   int // the row in which its horizontal line is; -1: it is a straight line down
}

// turnsAbove reports whether the net has to turn above the other one, because that enters where this one leaves.
func (n *net) turnsAbove(other *net) bool {
	return slices.ContainsFunc(other.entries, func(column int) bool { return slices.Contains(n.exits, column) })
}

const (
	up = 1 << iota
	down
	left
	right
	arrow
)

// strokes are the lines to each set of sides, and the arrow.
var strokes = []rune(" │││─┘┐┤─└┌├─┴┬┼▼")

// writeChannel draws the lines between a level and the next. It reports whether they found their way.
func writeChannel(b *strings.Builder, upper, lower []*item, width int) bool {
	nets := netsOf(upper)
	if !enter(nets, lower) {
		return false
	}
	tracks, ok := route(nets)
	if !ok {
		return false
	}
	rows := make([][]int, tracks+1) // to which sides lines leave
	for i := range rows {
		rows[i] = make([]int, width)
	}
	for _, n := range nets { // the horizontal lines first: vertical ones cross them, and a crossing is not taken for a joint
		if n.low == n.high {
			continue
		}
		row := rows[n.track]
		for column := n.low; column < n.high; column++ {
			row[column] |= right
			row[column+1] |= left
		}
		for _, column := range n.exits {
			row[column] |= up
		}
		for _, column := range n.entries {
			row[column] |= down
		}
	}
	for _, n := range nets {
		for row := range tracks + 1 {
			for _, column := range n.exits {
				if row < n.track {
					rows[row][column] = up | down
				}
			}
			for _, column := range n.entries {
				if row > n.track {
					rows[row][column] = up | down
				}
			}
		}
	}
	for _, it := range lower {
		for column := it.left; !it.lane && column < it.left+it.size; column++ {
			if rows[tracks][column] != 0 {
				rows[tracks][column] = arrow
			}
		}
	}
	for _, row := range rows {
		line := ""
		for _, sides := range row {
			line += string(strokes[sides])
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return true
}

// netsOf gathers the edges below a level into nets. Items with the same targets share one: their lines join.
func netsOf(upper []*item) []*net {
	var nets []*net
	for _, it := range upper {
		if len(it.down) == 0 {
			continue
		}
		slices.SortFunc(it.down, func(a, b *item) int { return cmp.Compare(a.rank, b.rank) })
		at := slices.IndexFunc(nets, func(n *net) bool { return slices.Equal(n.to, it.down) })
		if at < 0 {
			at, nets = len(nets), append(nets, &net{to: it.down, track: -1})
		}
		nets[at].exits = append(nets[at].exits, it.left+it.size/2)
	}
	return nets
}

// enter chooses the columns at which the nets come to the items of the level below: in a lane it is given; in a box
// straight below where the net comes from if it can, else evenly along it, and in any case a column of its own.
func enter(nets []*net, lower []*item) bool {
	taken := map[int]*net{}
	for _, n := range nets {
		for _, column := range n.exits {
			taken[column] = n
		}
	}
	entered := map[int]bool{}
	for _, it := range lower {
		var in []*net
		for _, n := range nets {
			if slices.Contains(n.to, it) {
				in = append(in, n)
			}
		}
		slices.SortStableFunc(in, func(a, b *net) int {
			return cmp.Compare(slices.Min(a.exits)+slices.Max(a.exits), slices.Min(b.exits)+slices.Max(b.exits))
		})
		for k, n := range in {
			column := it.left + (k+1)*it.size/(len(in)+1)
			if first, last := it.left+1, it.left+it.size-2; !it.lane {
				if len(in) == 1 && len(n.exits) == 1 && n.exits[0] > first && n.exits[0] < last {
					column = n.exits[0]
				}
				free := func(c int) bool {
					return c >= first && c <= last && !entered[c] && (taken[c] == nil || taken[c] == n)
				}
				off := 0
				for ; off < it.size && !free(column+off) && !free(column-off); off++ {
				}
				switch {
				case off == it.size:
					return false
				case free(column + off):
					column += off
				default:
					column -= off
				}
			}
			entered[column] = true
			n.entries = append(n.entries, column)
		}
	}
	return true
}

// route gives each net that is not straight a track on which it overlaps no other. It reports how many tracks there
// are, and fails if lines would have to lie on each other: a net that leaves in the column in which another one enters
// has to turn above that, and a cycle of such pairs cannot.
func route(nets []*net) (tracks int, ok bool) {
	var open, done []*net
	for _, n := range nets {
		all := slices.Concat(n.exits, n.entries)
		if n.low, n.high = slices.Min(all), slices.Max(all); n.low < n.high {
			open = append(open, n)
		}
	}
	slices.SortStableFunc(open, func(a, b *net) int { return cmp.Compare(a.low, b.low) })
	for len(open) > 0 {
		i := slices.IndexFunc(open, func(n *net) bool {
			return !slices.ContainsFunc(open, func(o *net) bool { return o != n && o.turnsAbove(n) })
		})
		if i < 0 {
			return 0, false
		}
		n := open[i]
		open = slices.Delete(open, i, i+1)
		n.track = 0
		for _, o := range done {
			if o.turnsAbove(n) {
				n.track = max(n.track, o.track+1)
			}
		}
		for slices.ContainsFunc(done, func(o *net) bool {
			return o.track == n.track && o.low <= n.high+1 && n.low <= o.high+1
		}) {
			n.track++
		}
		done = append(done, n)
		tracks = max(tracks, n.track+1)
	}
	return tracks, true
}
