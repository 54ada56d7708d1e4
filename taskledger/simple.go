package taskledger

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// simpleChars is the length up to which a task counts as short, in characters: about what people put into the first
// line of a commit message. Longer ones are shown to the model, which may still find that they need no plan.
const simpleChars = 80

// IsSimple reports whether a task is so small that planning it would cost more than it saves: at most limit characters
// (0: 80), one sentence, no list, and no word that says that something comes after something else.
func IsSimple(task string, limit int) bool {
	if limit == 0 {
		limit = simpleChars
	}
	task = strings.TrimSpace(task)
	return task != "" && utf8.RuneCountInString(task) <= limit && !severalSteps.MatchString(task)
}

// severalSteps matches what speaks for more than one step: another line; an end of a sentence with something behind it;
// a semicolon; a numbered or bulleted entry; an enumeration of three and more ("a, b and c"); a word of order.
var severalSteps = regexp.MustCompile(`(?i)\n|[.!?]["')\]]*\s+\S|[。！？]\S|;|(^|\s)(\d+[.)]|[-*•])\s` +
	`|,[^,]+,|,[^,]+\s(and|or)\s|\b(then|after that|afterwards|finally|step \d)\b`)
