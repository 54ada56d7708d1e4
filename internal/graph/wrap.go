package graph

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// wrap breaks a text into at most so many lines, between words where it can, and cuts it visibly. Room is in the unit
// of width: columns of a terminal, or parts of a font.
func wrap(s string, room, most int, width func(string) int) []string {
	var lines []string
	for s != "" {
		end, gap := fitting(s, room, width)
		switch {
		case end == len(s):
			gap = end
		case gap == 0:
			gap = end
		}
		if gap == 0 || len(lines) == most-1 {
			return append(lines, cut(s, room, width))
		}
		lines = append(lines, strings.TrimSpace(s[:gap]))
		s = strings.TrimSpace(s[gap:])
	}
	return lines
}

// cut shortens a text visibly.
func cut(s string, room int, width func(string) int) string {
	end, _ := fitting(s, room, width)
	if end == len(s) {
		return s
	}
	end, _ = fitting(s, room-width("…"), width)
	return strings.TrimSpace(s[:end]) + "…"
}

// fitting measures how many bytes of a text have room, and how many up to the last place where a line may break.
func fitting(s string, room int, width func(string) int) (end, gap int) {
	for end < len(s) {
		part, columns := ansi.FirstGraphemeCluster(s[end:], ansi.GraphemeWidth)
		if columns > 1 {
			gap = end
		}
		if width(strings.TrimRight(s[:end+len(part)], " ")) > room {
			return end, gap
		}
		end += len(part)
		if columns > 1 || part == " " || part == "-" || part == "/" {
			gap = end
		}
	}
	return end, gap
}
