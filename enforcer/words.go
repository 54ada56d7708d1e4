package enforcer

import (
	"regexp"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Claims reports whether a text says that the work is done: it has a completion word that is not negated, and no work
// word (seed 000), outside of code and quotations. English only. A claim only brings the check of the evidence forward.
func Claims(text string) bool {
	words := prose(text)
	if workWords().MatchString(words) {
		return false
	}
	for _, s := range sentences(words) {
		for _, at := range doneWords().FindAllStringIndex(s, -1) {
			if !notYet().MatchString(s[max(0, at[0]-negationReach):at[0]]) {
				return true
			}
		}
	}
	return false
}

// negationReach is how far before a completion word to look for its negation, in bytes: three words seldom take more.
// Unbounded, a text of only completion words would take minutes.
const negationReach = 120

var (
	doneWords = text.Regexp(`(?i)\b(?:done|finished|completed?|all set|good to go|wrapped up|` +
		`nothing (?:more|else|left) to do|ready for review)\b`)
	workWords = text.Regexp(`(?i)\b(?:implement|implementing|working on|in progress|next,? (?:i|we)(?:['’]ll)?\b|` +
		`(?:i|we)(?:['’]ll| will| am going to| are going to) (?:now|then|next|continue|proceed|start|begin)|let me|` +
		`now (?:i|we)(?:['’]ll)?\b|(?:i|we) (?:still )?(?:need|have) to|still (?:need|to do|missing)|` +
		`continuing (?:with|to)|remaining (?:steps?|tasks?|items?|work))\b`)
	// notYet matches what negates a completion word that follows after at most three words.
	notYet = text.Regexp(`(?i)(?:\b(?:not|never|cannot|almost|nearly|half|partly|partially|once|when|until|till|if|` +
		`unless|to|will|would|should|must|can|could|before|be|get|far from|how|what)|n['’]t|['’]ll)` +
		`(?:[\s,]+[\w'’-]+){0,3}[\s,]+$`)
)

// Promised reports whether a text gives the promise ([boulder.Promise]). Code, quotations and talk of it do not count.
func Promised(text string) bool { return states(text, promise()) }

// Marked reports whether a text of the assistant has the marker, by the rules of [Promised]. No text has an empty one.
func Marked(text, marker string) bool {
	return marker != "" && states(text, regexp.MustCompile(regexp.QuoteMeta(marker)))
}

func states(text string, word *regexp.Regexp) bool {
	const given = "\x00" // the word itself may end a sentence or look like talk about it
	text = prose(word.ReplaceAllString(strings.ReplaceAll(text, given, " "), given))
	return slices.ContainsFunc(sentences(text), func(s string) bool {
		return strings.Contains(s, given) && !aboutPromise().MatchString(strings.ReplaceAll(s, given, " "))
	})
}

var (
	promise      = text.Regexp(`(?i)` + strings.Replace(boulder.Promise, "DONE", `\s*DONE\s*`, 1))
	aboutPromise = text.Regexp(`(?i)\b(?:will|would|shall|should|must|can|cannot|when|once|until|till|if|unless|not|` +
		`yet|later|after|before|write|say|give|print|output|emit|add|tag)\b|n['’]t\b|['’]ll\b`)
)

// canonicalText maps texts that say the same to one text. It ignores case, white space, times, ids and other numbers.
func canonicalText(text string) string {
	text = ids().ReplaceAllStringFunc(Normalize(text), func(word string) string {
		if strings.ContainsAny(word, "0123456789") {
			return "<id>"
		}
		return word
	})
	return folded(digits().ReplaceAllString(text, "<n>"))
}

// ids matches OpenCode's ids (ses_4f…), commit hashes and ULIDs.
var ids = text.Regexp(`\b(?:[a-z]{2,5}_[0-9A-Za-z]{6,}|[0-9a-f]{7,64}|[0-9A-HJKMNP-TV-Z]{26}|` +
	`[0-9a-hjkmnp-tv-z]{26})\b`)

// SaysStop reports whether a message of the user says nothing but stop.
func SaysStop(text string) bool { return stopWords().MatchString(strings.TrimSpace(text)) }

var stopWords = text.Regexp(`(?i)^(?:please[\s,]+)?/?(?:stop|halt|pause|cancel|abort|wait|enough|that['’]?s enough)` +
	`(?:[\s,]+(?:it|now|here|please|this|that|everything|working|right now))*[\s.!]*$`)

var (
	fence = text.Regexp("(?ms)^[ \t]*(?:```|~~~).*?(?:^[ \t]*(?:```|~~~)[ \t]*$|\\z)")
	code  = text.Regexp("``[^\n]*?``|`[^`\n]*`")
	cited = text.Regexp(`(?m)^[ \t]*>.*$`)
	quote = text.Regexp(`"[^"\n]*"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»`)
	stops = text.Regexp(`[.!?:;](?:\s|$)|\n+`)
)

// prose returns a text without code and quotations.
func prose(text string) string {
	for _, shown := range []func() *regexp.Regexp{fence, code, cited, quote} {
		text = shown().ReplaceAllString(text, " … ")
	}
	return text
}

func sentences(text string) []string { return stops().Split(text, -1) }
