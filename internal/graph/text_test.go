package graph_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/internal/graph"
)

// plans draws acyclic graphs, each node with its id as title.
func plans(t *rapid.T) *shape {
	s := &shape{}
	n := rapid.IntRange(1, 12).Draw(t, "nodes")
	for i := range n {
		s.nodes = append(s.nodes, graph.Node{ID: name(i)})
		from := rapid.SliceOfNDistinct(rapid.IntRange(0, max(i-1, 0)), 0, min(i, 4), rapid.ID[int]).Draw(t, "from")
		for _, j := range from {
			s.edges = append(s.edges, graph.Edge{From: name(j), To: name(i)})
		}
	}
	return s
}

// A person who follows the lines down from a box comes to exactly the boxes that wait for it.
func TestLinesLeadToWhatWaits(t *testing.T) {
	t.Parallel()
	drawn := 0
	rapid.Check(t, func(t *rapid.T) {
		s := plans(t)
		text := s.graph().Text(400, plain)
		if !strings.Contains(text, "┌") { // a list, because lines would have had to lie on each other
			return
		}
		drawn++
		sheet := parseSheet(text)
		for _, n := range s.nodes {
			var want []string
			for _, e := range s.edges {
				if e.From == n.ID {
					want = append(want, e.To)
				}
			}
			slices.Sort(want)
			if got := sheet.follow(n.ID); !slices.Equal(got, want) {
				t.Fatalf("from %s the lines lead to %v, want %v:\n%s", n.ID, got, want, text)
			}
		}
	})
	if drawn < 50 {
		t.Errorf("only %d drawings had boxes: nothing was tested", drawn)
	}
}

// sheet is a drawing as a reader sees it.
type sheet struct {
	rows [][]rune
	tops map[string][2]int // row and column of the corner of each box
}

func parseSheet(text string) *sheet {
	s := &sheet{tops: map[string][2]int{}}
	for line := range strings.SplitSeq(text, "\n") {
		s.rows = append(s.rows, []rune(line))
	}
	for r := 1; r < len(s.rows); r++ {
		for c := range s.rows[r] {
			if s.at(r, c) == '│' && s.at(r-1, c) == '┌' && s.at(r, c+1) == ' ' && s.at(r, c+2) == 'n' {
				id := strings.TrimSpace(string(s.rows[r][c+2 : c+2+min(4, len(s.rows[r])-c-2)]))
				s.tops[id] = [2]int{r - 1, c}
			}
		}
	}
	return s
}

func (s *sheet) at(row, column int) rune {
	if row < 0 || row >= len(s.rows) || column < 0 || column >= len(s.rows[row]) {
		return ' '
	}
	return s.rows[row][column]
}

// follow gives the boxes that the lines from a box lead to, sorted.
func (s *sheet) follow(id string) []string {
	top := s.tops[id]
	row := top[0]
	for s.at(row, top[1]) != '└' {
		row++
	}
	reached, seen := map[string]bool{}, map[string]bool{}
	for c := top[1]; c == top[1] || s.at(row, c) != '┘'; c++ {
		if s.at(row, c) == '┬' {
			s.walk(row+1, c, 'd', reached, seen)
		}
	}
	var ids []string
	for id := range reached {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// walk goes on in a direction: d, l or r. Nobody follows a line up: time flows down.
func (s *sheet) walk(row, column int, direction rune, reached, seen map[string]bool) {
	key := fmt.Sprint(row, column, direction)
	if seen[key] {
		return
	}
	seen[key] = true
	glyph := s.at(row, column)
	if glyph == '▼' {
		for id, top := range s.tops {
			if top[0] == row+1 && top[1] < column && s.inside(row+1, top[1], column) {
				reached[id] = true
			}
		}
		return
	}
	turns := map[rune]string{
		'│': "d", '─': "lr", '┌': "dr", '┐': "dl", '└': "r", '┘': "l",
		'├': "dr", '┤': "dl", '┬': "dlr", '┴': "lr", '┼': "dlr",
	}[glyph]
	if glyph == '│' && direction != 'd' { // a crossing
		turns = string(direction)
	}
	for _, turn := range turns {
		switch {
		case turn == 'd':
			s.walk(row+1, column, 'd', reached, seen)
		case turn == 'l' && direction != 'r':
			s.walk(row, column-1, 'l', reached, seen)
		case turn == 'r' && direction != 'l':
			s.walk(row, column+1, 'r', reached, seen)
		}
	}
}

// inside reports whether a column belongs to the box that begins in another one.
func (s *sheet) inside(row, from, column int) bool {
	return !strings.ContainsRune(string(s.rows[row][from:column+1]), '┐')
}
