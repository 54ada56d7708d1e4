package graph

import (
	"cmp"
	"strings"
)

// look is how a status is drawn. Colours never stand alone: with each goes its sign, and the word.
type look struct {
	status string
	word   string
	sign   string // one column of a terminal
	class  string // of the colours, in Mermaid and SVG
	light  colours
	dark   colours
	dashed bool
}

// colours of a box, as #rrggbb.
type colours struct{ fill, line string }

// looks are in the order of a legend. The lines keep a contrast of 3:1 and more with their fill and with the
// background.
var looks = []look{
	{
		status: "completed", word: "completed", sign: "✓", class: "completed",
		light: colours{"#e6f6ec", "#1a7f37"}, dark: colours{"#12281a", "#3fb950"},
	}, {
		status: "in_progress", word: "in progress", sign: "●", class: "active",
		light: colours{"#e3f0fe", "#0969da"}, dark: colours{"#0f243d", "#58a6ff"},
	}, {
		status: "pending", word: "pending", sign: "○", class: "pending",
		light: colours{"#f6f8fa", "#57606a"}, dark: colours{"#1c2128", "#8b949e"},
	}, {
		status: "blocked", word: "blocked", sign: "!", class: "blocked",
		light: colours{"#fff5d6", "#9a6700"}, dark: colours{"#2d2409", "#d29922"},
	}, {
		status: "failed", word: "failed", sign: "✗", class: "failed",
		light: colours{"#ffebe9", "#cf222e"}, dark: colours{"#341418", "#ff7b72"},
	}, {
		status: "skipped", word: "skipped", sign: "-", class: "dropped", dashed: true,
		light: colours{"#ffffff", "#57606a"}, dark: colours{"#0d1117", "#8b949e"},
	}, {
		status: "cancelled", word: "cancelled", sign: "-", class: "dropped", dashed: true,
		light: colours{"#ffffff", "#57606a"}, dark: colours{"#0d1117", "#8b949e"},
	}, {
		status: "superseded", word: "superseded", sign: "-", class: "dropped", dashed: true,
		light: colours{"#ffffff", "#57606a"}, dark: colours{"#0d1117", "#8b949e"},
	},
}

// plain is the look of a node of which no status is known.
var plain = look{
	class: "plain", light: colours{"#f6f8fa", "#57606a"}, dark: colours{"#1c2128", "#8b949e"},
}

// lookOf gives the look of a status. A word that is not known is drawn as it is, without a colour.
func lookOf(status string) look {
	for _, l := range looks {
		if l.status == status {
			return l
		}
	}
	l := plain
	l.status, l.word = status, strings.ReplaceAll(status, "_", " ")
	if status != "" {
		l.sign = "?"
	}
	return l
}

// Known reports whether a status has a sign and a colour of its own.
func Known(status string) bool { return status != "" && lookOf(status).sign != "?" }

// classes gives one look for each class of colours.
func classes() []look {
	all := []look{plain}
	for _, l := range looks {
		if l.class != all[len(all)-1].class {
			all = append(all, l)
		}
	}
	return all
}

// tally is a line of a legend.
type tally struct {
	look
	count int
}

// legend lists the statuses that the graph has, known ones first; it is empty when no status is known.
func (g *Graph) legend() []tally {
	counts := map[string]int{}
	var others []string
	for _, n := range g.nodes {
		if n.Status != "" && counts[n.Status] == 0 && !Known(n.Status) {
			others = append(others, n.Status)
		}
		counts[n.Status]++
	}
	var all []tally
	for _, l := range looks {
		if counts[l.status] > 0 {
			all = append(all, tally{l, counts[l.status]})
		}
	}
	for _, status := range others {
		all = append(all, tally{lookOf(status), counts[status]})
	}
	return all
}

// state is the word for a node's status with its note: "in progress, attempt 2 of 3".
func (n Node) state() string {
	word := lookOf(n.Status).word
	if word != "" && n.Note != "" {
		return word + ", " + n.Note
	}
	return cmp.Or(word, n.Note)
}
