package secret

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// rank says how much it is worth to know a secret by a finding: of several that overlap, the lowest names it.
type rank int

const (
	byValue rank = iota
	byForm
	byName // of what holds it
)

// span is a secret in a text.
type span struct {
	from, to int
	kind     string
	rank     rank
}

// form is a kind of secret that is known by how it is written.
type form struct {
	kind    string
	rank    rank
	needle  string                // in lower case: pattern is tried wherever it stands, in whatever case
	word    bool                  // the needle begins a word: "task-" is no "sk-"
	pattern func() *regexp.Regexp // from the needle on; the last group is the secret
	// ok looks at a match, and at the text before it; nil: all are secrets.
	ok   func(before string, groups []string) bool
	look int // defaults to lookMost
}

// lookMost bounds what a pattern is tried on first, so that text that is full of needles costs little.
const lookMost = 512

const (
	lowers = "abcdefghijklmnopqrstuvwxyz"
	uppers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"

	credential = `[\w.~+/=*-]` // of an Authorization header (RFC 9110), and stars
	pemBody    = `[A-Za-z0-9+/=:,.\- \t\r\n\\]`
)

// tokens begin with a prefix of their maker's. They are those that vendors document or that their keys have; lengths are
// lower bounds, since vendors lengthen keys. Google's, GitHub's, GitLab's, Slack's and AWS' are as published by them for
// secret scanning.
var tokens = []struct {
	kind, prefixes, rest string
	ok                   func(before string, groups []string) bool
}{
	{"a model provider's key (sk-…)", "sk-", `[\w-]{20,}`, keyLike},
	{"a Stripe key", "sk_live_ sk_test_ rk_live_", `[A-Za-z0-9]{16,}`, nil},
	{"an xAI key", "xai-", `[\w-]{20,}`, keyLike},
	{"a Groq key", "gsk_", `[A-Za-z0-9]{20,}`, hasDigit},
	{"a Google API key", "AIza", `[\w-]{30,}`, nil},
	{"a Google OAuth secret", "GOCSPX-", `[\w-]{20,}`, nil},
	{"a Google OAuth token", "ya29.", `[\w-]{30,}`, nil},
	{"a GitHub token", "ghp_ gho_ ghu_ ghr_", `[A-Za-z0-9]{30,}`, nil},
	{"a GitHub token", "ghs_", `[\w.-]{30,}`, hasDigit},
	{"a GitHub token", "github_pat_", `\w{30,}`, nil},
	{"a GitLab token", "glpat-", `[\w.-]{20,}`, nil},
	{"an AWS access key id", "AKIA ASIA", `[A-Z0-9]{16}\b`, nil},
	{"a Slack token", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxc-", `[\w-]{10,}`, hasDigit},
	{"a Slack token", "xoxd-", credential + `{10,}`, hasDigit},
	{"a Slack token", "xapp-", `[\w-]{20,}`, hasDigit},
	{"a Slack webhook", "hooks.slack.com/services/", `[A-Za-z0-9/]{30,}`, nil},
	{"an npm token", "npm_", `[A-Za-z0-9]{36,}`, nil},
	{"a Hugging Face token", "hf_", `[A-Za-z]{30,}`, nil},
	{"a PyPI token", "pypi-AgEI", `[\w-]{30,}`, nil},
	{"a SendGrid key", "SG.", `[\w.-]{60,}`, nil},
	{"a DigitalOcean token", "dop_v1_", `[A-Za-z0-9]{60,}`, nil},
	{"an age key", "AGE-SECRET-KEY-1", `[A-Z0-9]{50,}`, nil},
}

// userinfo is the password of scheme://user:password@host.
var userinfo = form{
	kind: "a password in an address", rank: byForm, needle: "://",
	pattern: text.Regexp("^://([^/?#@\"'`<>\\\\\\s:]*):([^/?#@\"'`<>\\\\\\s]+)@"),
	ok: func(_ string, groups []string) bool {
		user, password := groups[0], groups[1]
		return password != user && strong(password) && !placeholder(password)
	},
}

var forms = allForms()

func allForms() []form {
	const header = `^(?i)authorization["'\\ ]{0,8}[:=]["'\\ ]{0,8}`
	all := []form{userinfo, {
		kind: "a JSON web token", rank: byForm, needle: "eyj", word: true, look: 1 << 14, // claims are long
		pattern: text.Regexp(`^(eyJ[\w-]{9,1000}\.eyJ[\w-]*\.[\w-]{16,})`),
	}, {
		// The whole block, or what there is of it if its end was cut off.
		kind: "a private key", rank: byForm, needle: "-----begin ", ok: keyBlock, pattern: text.Regexp(
			`^(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:` + pemBody + `*?-----END [^-]{0,60}-----|` + pemBody + `*))`),
	}, {
		kind: "an Authorization header", rank: byForm, needle: "authorization", ok: notPlaceholder,
		pattern: text.Regexp(header + `(?:bearer|basic|token) {1,8}(` + credential + `{6,})`),
	}, {
		kind: "an Authorization header", rank: byForm, needle: "authorization", ok: opaque,
		pattern: text.Regexp(header + `(` + credential + `{16,})`),
	}, {
		kind: "a bearer token", rank: byForm, needle: "bearer ", word: true, ok: opaque,
		pattern: text.Regexp(`^(?i)bearer {1,8}(` + credential + `{16,})`),
	}}
	for _, t := range tokens {
		for prefix := range strings.FieldsSeq(t.prefixes) {
			all = append(all, form{
				kind: t.kind, rank: byForm, needle: strings.ToLower(prefix), word: true, ok: t.ok,
				pattern: text.Regexp(`^(` + regexp.QuoteMeta(prefix) + t.rest + `)`),
			})
		}
	}
	value := text.Regexp(`^([\w-]{1,64})(["'\\]{0,8}) {0,8}([:=])( {0,8}["'\\]{0,8})([\w.~+/=@:!%^?-]{8,})`)
	for _, word := range []string{"key", "token", "secret", "password", "passwd", "passphrase", "credentials"} {
		all = append(all, form{kind: "a value that is called " + word, rank: byName, needle: word, ok: named, pattern: value})
	}
	return all
}

// find appends the secrets of the form in s; lower is s with its ASCII letters in lower case.
func (f *form) find(spans []span, s, lower string) []span {
	look := cmp.Or(f.look, lookMost)
	for at := 0; ; {
		next := strings.Index(lower[at:], f.needle)
		if next < 0 {
			return spans
		}
		at += next
		groups, to := f.match(s, at, at+look)
		switch {
		case groups == nil:
			at += len(f.needle)
		case f.ok == nil || f.ok(s[:at], groups):
			if to == at+look {
				groups, to = f.match(s, at, len(s))
			}
			at = to
			spans = append(spans, span{to - len(groups[len(groups)-1]), to, f.kind, f.rank})
		case f.rank == byName:
			at += len(f.needle) // a value that is none may be the name of one
		default:
			at = to
		}
	}
}

// match tries the pattern on s[at:end] and gives its groups, and where the last one ends.
func (f *form) match(s string, at, end int) (groups []string, to int) {
	if f.word && !wordBegins(s, at) {
		return nil, 0
	}
	match := f.pattern().FindStringSubmatchIndex(s[at:min(end, len(s))])
	if match == nil {
		return nil, 0
	}
	for i := 2; i < len(match); i += 2 {
		groups = append(groups, s[at+match[i]:at+match[i+1]])
	}
	return groups, at + match[len(match)-1]
}

// wordBegins reports whether a word can begin at s[at:]. The letter of an escape like \n is no part of a word, so that
// text inside of JSON reads as it does outside.
func wordBegins(s string, at int) bool {
	return at == 0 || !isWord(s[at-1]) || endsInEscape(s[:at])
}

func isWord(b byte) bool { return b == '_' || strings.IndexByte(lowers+uppers+digits, b) >= 0 }

func endsInEscape(s string) bool {
	return len(s) > 1 && s[len(s)-2] == '\\' && strings.IndexByte("nrtbf", s[len(s)-1]) >= 0
}

// merge puts secrets in order, and takes those that overlap for one: no end of one may be left beside the mark that
// replaces the other.
func merge(spans []span) []span {
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	merged := spans[:0]
	for _, sp := range spans {
		if n := len(merged); n > 0 && sp.from < merged[n-1].to {
			last := &merged[n-1]
			last.to = max(last.to, sp.to)
			if sp.rank < last.rank {
				last.kind, last.rank = sp.kind, sp.rank
			}
			continue
		}
		merged = append(merged, sp)
	}
	return merged
}

var notBase64 = text.Regexp(`[^A-Za-z0-9+/=]`)

// keyBlock tells a block from text about keys.
func keyBlock(_ string, groups []string) bool {
	return len(notBase64().ReplaceAllString(strings.SplitN(groups[0], "-----", 3)[2], "")) >= 32
}

func notPlaceholder(_ string, groups []string) bool { return !placeholder(groups[0]) }

func opaque(_ string, groups []string) bool {
	return strings.ContainsAny(groups[0], digits) && !placeholder(groups[0])
}

func hasDigit(_ string, groups []string) bool { return strings.ContainsAny(groups[0], digits) }

// keyLike wants a long piece of letters and digits: sk-learn-compatible-v2 is a name.
func keyLike(_ string, groups []string) bool {
	for piece := range strings.FieldsFuncSeq(groups[0], func(r rune) bool { return r == '-' || r == '_' }) {
		if len(piece) >= 12 && strings.ContainsAny(piece, digits) {
			return true
		}
	}
	return false
}
