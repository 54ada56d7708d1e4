package graph

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// canvas is a sheet of terminal columns on which boxes and lines are drawn.
type canvas struct {
	width int
	rows  [][]cell
}

type cell struct {
	text   string // what stands there; it may take this column and the next
	behind bool   // the second column of the one before
	lines  uint8  // to which sides lines leave, if no text stands there
	net    int    // whose lines they are
	status string // to be painted for
}

const (
	up uint8 = 1 << iota
	down
	left
	right
)

// strokes are the lines to each set of sides.
var strokes = map[uint8]string{
	up: "│", down: "│", up | down: "│", left: "─", right: "─", left | right: "─",
	down | right: "┌", down | left: "┐", up | right: "└", up | left: "┘",
	up | down | right: "├", up | down | left: "┤", down | left | right: "┬", up | left | right: "┴",
	up | down | left | right: "┼",
}

func (c *canvas) at(row, column int) *cell {
	for len(c.rows) <= row {
		c.rows = append(c.rows, make([]cell, c.width))
	}
	return &c.rows[row][column]
}

// line draws a piece of a net's line in a cell. Pieces of the same net join; of two nets that cross, the vertical one
// is seen, so that a crossing is not taken for a joint.
func (c *canvas) line(row, column, net int, sides uint8) {
	at := c.at(row, column)
	if at.lines != 0 && at.net != net {
		if sides&(up|down) == 0 {
			return
		}
		at.lines = 0
	}
	at.lines |= sides
	at.net = net
}

// text writes a text that is known to fit.
func (c *canvas) text(row, column int, s, status string) {
	for s != "" {
		part, _ := ansi.FirstGraphemeCluster(s, ansi.WcWidth)
		s = s[len(part):]
		w := ansi.StringWidthWc(part)
		if w == 0 && column > 0 { // belongs to the one before
			c.at(row, column-1).text += part
			continue
		}
		if column+w > c.width {
			return
		}
		*c.at(row, column) = cell{text: part, status: status}
		for i := 1; i < w; i++ {
			*c.at(row, column+i) = cell{behind: true, status: status}
		}
		column += w
	}
}

// string gives the rows without spaces at their ends.
func (c *canvas) string(paint func(status, text string) string) string {
	var b strings.Builder
	for _, row := range c.rows {
		var line strings.Builder
		for i := 0; i < len(row); {
			status, part := row[i].status, ""
			for ; i < len(row) && row[i].status == status; i++ {
				part += row[i].glyph()
			}
			if status != "" {
				part = paint(status, part)
			}
			line.WriteString(part)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

func (c cell) glyph() string {
	switch {
	case c.behind:
		return ""
	case c.text != "":
		return c.text
	case c.lines != 0:
		return strokes[c.lines]
	}
	return " "
}
