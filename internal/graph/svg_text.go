package graph

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// What fonts a viewer has is not known, so texts are measured by a rough table that leans to the wide side (DejaVu
// Sans, the widest of the usual ones), in parts of the font's size.
const (
	narrow  = 0.38 // i, l, dots
	usual   = 0.66
	capital = 0.78
	broad   = 1.02 // m, w, Chinese characters, emojis
)

// clusterWidth is the width of one character as people see it.
func clusterWidth(cluster string, columns int) float64 {
	var r rune
	for _, r = range cluster {
		break
	}
	switch {
	case columns == 0:
		return 0
	case columns > 1, strings.ContainsRune("mwMW@%—", r), r > 0x2FF && !unicode.IsLetter(r):
		return broad
	case strings.ContainsRune("iljtfrI.,:;'|!()[] ", r):
		return narrow
	case unicode.IsUpper(r):
		return capital
	}
	return usual
}

// textWidth measures a text in parts of its font's size.
func textWidth(s string) float64 {
	width := 0.0
	for c := range clusters(s) {
		width += c.width
	}
	return width
}

type cluster struct {
	text  string
	width float64
	wide  bool // lines may break before and after it
}

func clusters(s string) func(yield func(cluster) bool) {
	return func(yield func(cluster) bool) {
		for s != "" {
			text, columns := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
			if text == "" || !yield(cluster{text, clusterWidth(text, columns), columns > 1}) {
				return
			}
			s = s[len(text):]
		}
	}
}

// breakLines breaks a text into at most so many lines of a width, between words where it can, and cuts it visibly.
func breakLines(s string, width float64, most int) []string {
	var lines []string
	var line, word strings.Builder
	var lineWidth, wordWidth float64
	put := func() { // the word onto the line, or onto a new one
		if line.Len() > 0 && lineWidth+wordWidth > width {
			lines = append(lines, strings.TrimSpace(line.String()))
			line.Reset()
			lineWidth = 0
		}
		line.WriteString(word.String())
		lineWidth += wordWidth
		word.Reset()
		wordWidth = 0
	}
	for c := range clusters(s) {
		if word.Len() > 0 && (c.wide || wordWidth+c.width > width) {
			put()
		}
		word.WriteString(c.text)
		wordWidth += c.width
		if c.wide || c.text == " " || c.text == "-" || c.text == "/" {
			put()
		}
	}
	put()
	if rest := strings.TrimSpace(line.String()); rest != "" {
		lines = append(lines, rest)
	}
	if len(lines) > most {
		last := lines[most-1] + " " + lines[most]
		lines = append(lines[:most-1], cutTo(last, width))
	}
	return lines
}

// cutTo cuts a text visibly to a width.
func cutTo(s string, width float64) string {
	if textWidth(s) <= width {
		return s
	}
	var b strings.Builder
	left := width - broad // for the dots
	for c := range clusters(s) {
		if left -= c.width; left < 0 {
			break
		}
		b.WriteString(c.text)
	}
	return strings.TrimSpace(b.String()) + "…"
}
