package text

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode"
)

// Keep says which part of a text an excerpt shows.
type Keep int

// Start keeps the beginning, End the end. Ends keeps both; the beginning gets a third.
const (
	Start Keep = iota
	End
	Ends
)

// Head returns the first n characters of a text.
func Head(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// Cut cuts a text to at most n characters. A cut text ends with an ellipsis.
func Cut(s string, n int) string {
	if Head(s, n) == s {
		return s
	}
	return Head(s, n-1) + "…"
}

// Fold returns a text on one line, as valid UTF-8, with runs of white space folded.
func Fold(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}

// Short is [Fold], then [Cut].
func Short(s string, n int) string { return Cut(Fold(s), n) }

const quoteMark = "> "

// breaks matches all that a reader may take for the end of a line.
var breaks = Regexp("\r\n|[\n\r\v\f\u0085\u2028\u2029]")

// Quote marks every line of what agents, commands, files and tools wrote, for a prompt: none can then pass for a heading,
// an item or a result of the manager. Blank lines around the text are dropped.
func Quote(s string) string {
	s = strings.TrimRight(strings.TrimLeft(strings.ToValidUTF8(s, "\uFFFD"), "\r\n"), " \t\r\n")
	if s == "" {
		return ""
	}
	return quoteMark + breaks().ReplaceAllString(s, "\n"+quoteMark)
}

// Tagged keeps what an agent is to show, between the tags <output> and </output>, from closing them.
func Tagged(s string) string { return strings.ReplaceAll(s, "</output", "< /output") }

// Name returns a file's name for a prompt: on one line, between quotes if it has characters that cannot be seen.
func Name(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Excerpt cuts a text to at most limit characters, as valid UTF-8, with a notice in place of the cut. A smaller limit
// than the notice does not shorten it. A line of [Quote] stays marked if it is cut.
func Excerpt(s string, limit int, keep Keep) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	all := []rune(s)
	total := len(all)
	notice := func(missing int) string { return fmt.Sprintf("\n[cut: %d of %d characters]\n", missing, total) }
	if total <= max(limit, len(notice(total))) {
		return s
	}
	kept := max(0, limit-len(notice(total)))
	front := map[Keep]int{Start: kept, End: 0, Ends: kept / 3}[keep]
	from := total - kept + front
	line := from
	for line > 0 && all[line-1] != '\n' {
		line--
	}
	end := string(all[from:])
	if line < from && string(all[line:min(line+len(quoteMark), total)]) == quoteMark {
		end = quoteMark + string(all[min(from+len(quoteMark), total):])
	}
	return strings.TrimSpace(string(all[:front]) + notice(total-kept) + end)
}

// Level returns the greatest length to which all longer parts must be cut so that the parts together fit into room.
func Level(lengths []int, room int) int {
	return sort.Search(room, func(level int) bool {
		sum := 0
		for _, n := range lengths {
			sum += min(n, level+1)
		}
		return sum > room
	})
}
