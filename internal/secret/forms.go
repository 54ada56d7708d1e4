package secret

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// form is a kind of secret that is recognized by its syntax.
type form struct {
	kind    string
	needles string                // lower case, separated by spaces; a text without any is not searched
	pattern func() *regexp.Regexp // its last group is the secret
	// ok checks the groups of a match; nil accepts all.
	ok func(groups []string) bool
}

const (
	lowers = "abcdefghijklmnopqrstuvwxyz"
	uppers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"

	credential = `[\w.~+/=*-]` // of an Authorization header (RFC 9110), and stars
	pemBody    = `[A-Za-z0-9+/=:,.\- \t\r\n\\]`
	header     = `(?i)authorization["'\\ ]{0,8}[:=]["'\\ ]{0,8}`
	// begin matches before a word, so that "task-" is not "sk-". The letter of an escape like \n does not belong to the
	// word, so that text inside JSON matches as outside.
	begin = `(?:^|\W|\\[nrtbf])`

	keyWords = "key token secret password passwd passphrase credentials"
)

// userinfo matches the password of scheme://user:password@host.
var userinfo = form{
	kind: "a password in an address", needles: ":// :\\",
	pattern: text.Regexp(`:\\{0,8}/\\{0,8}/` + "([^/?#@\"'`<>\\\\\\s:]*):([^/?#@\"'`<>\\\\\\s]+)@"),
	ok: func(groups []string) bool {
		user, password := groups[0], groups[1]
		return password != user && strong(password) && !placeholder(password)
	},
}

// forms are listed from the most certain. Prefixes come from vendors' documents or keys (Google, GitHub, GitLab, Slack,
// AWS: as published for secret scanning). Lengths are lower bounds, since vendors lengthen keys.
var forms = []form{
	userinfo,
	{"a JSON web token", "eyj", token(`eyJ[\w-]{9,}\.eyJ[\w-]*\.[\w-]{16,}`), nil},
	// The whole block, or what is there if its end was cut off.
	{"a private key", "-----begin ", text.Regexp(`(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:` +
		pemBody + `*?-----END [^-]{0,60}-----|` + pemBody + `*))`), keyBlock},
	{"an Authorization header", "authorization", text.Regexp(header + `(?:bearer|basic|token) {1,8}(` + credential + `{6,})`),
		func(groups []string) bool { return !placeholder(groups[0]) }},
	{"an Authorization header", "authorization", text.Regexp(header + `(` + credential + `{16,})`), opaque},
	{"a bearer token", "bearer ", text.Regexp(begin + `(?i:bearer) {1,8}(` + credential + `{16,})`), opaque},
	{"a model provider's key (sk-…)", "sk-", token(`sk-[\w-]{20,}`), keyLike},
	{"a Stripe key", "_live_ _test_", token(`(?:sk_live|sk_test|rk_live)_[A-Za-z0-9]{16,}`), nil},
	{"an xAI key", "xai-", token(`xai-[\w-]{20,}`), keyLike},
	{"a Groq key", "gsk_", token(`gsk_[A-Za-z0-9]{20,}`), hasDigit},
	{"a Google API key", "aiza", token(`AIza[\w-]{30,}`), nil},
	{"a Google OAuth secret", "gocspx-", token(`GOCSPX-[\w-]{20,}`), nil},
	{"a Google OAuth token", "ya29.", token(`ya29\.[\w-]{30,}`), nil},
	{"a GitHub token", "ghp_ gho_ ghu_ ghr_", token(`gh[pour]_[A-Za-z0-9]{30,}`), nil},
	{"a GitHub token", "ghs_", token(`ghs_[\w.-]{30,}`), hasDigit},
	{"a GitHub token", "github_pat_", token(`github_pat_\w{30,}`), nil},
	{"a GitLab token", "glpat-", token(`glpat-[\w.-]{20,}`), nil},
	{"an AWS access key id", "akia asia", token(`A[KS]IA[A-Z0-9]{16}\b`), nil},
	{"a Slack token", "xox", token(`xox(?:[bparsec]-[\w-]{10,}|d-` + credential + `{10,})`), hasDigit},
	{"a Slack token", "xapp-", token(`xapp-[\w-]{20,}`), hasDigit},
	{"a Slack webhook", "hooks.slack.com", token(`hooks\.slack\.com/services/[A-Za-z0-9/]{30,}`), nil},
	{"an npm token", "npm_", token(`npm_[A-Za-z0-9]{36,}`), nil},
	{"a Hugging Face token", "hf_", token(`hf_[A-Za-z]{30,}`), nil},
	{"a PyPI token", "pypi-agei", token(`pypi-AgEI[\w-]{30,}`), nil},
	{"a SendGrid key", "sg.", token(`SG\.[\w.-]{60,}`), nil},
	{"a DigitalOcean token", "dop_v1_", token(`dop_v1_[A-Za-z0-9]{60,}`), nil},
	{"an age key", "age-secret-key-1", token(`AGE-SECRET-KEY-1[A-Z0-9]{50,}`), nil},
}

func token(pattern string) func() *regexp.Regexp { return text.Regexp(begin + `(` + pattern + `)`) }

// find returns the secrets of the form in s; lower is s in lower case.
func (f *form) find(s, lower string) (spans []span) {
	if !containsAny(lower, f.needles) {
		return nil
	}
	for _, match := range f.pattern().FindAllStringSubmatchIndex(s, -1) {
		if f.ok == nil || f.ok(groupsOf(s, match)) {
			spans = append(spans, span{match[len(match)-2], match[len(match)-1], f.kind})
		}
	}
	return spans
}

func containsAny(s, words string) bool {
	for w := range strings.FieldsSeq(words) {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

func groupsOf(s string, match []int) (groups []string) {
	for i := 2; i < len(match); i += 2 {
		groups = append(groups, s[match[i]:match[i+1]])
	}
	return groups
}

// keyBlock distinguishes a key block from text about keys.
func keyBlock(groups []string) bool {
	return len(notBase64().ReplaceAllString(strings.SplitN(groups[0], "-----", 3)[2], "")) >= 32
}

var notBase64 = text.Regexp(`[^A-Za-z0-9+/=]`)

func opaque(groups []string) bool { return hasDigit(groups) && !placeholder(groups[0]) }

func hasDigit(groups []string) bool { return strings.ContainsAny(groups[0], digits) }

// keyLike requires a long part of letters and digits: sk-learn-compatible-v2 is a name.
func keyLike(groups []string) bool {
	pieces := strings.FieldsFunc(groups[0], func(r rune) bool { return r == '-' || r == '_' })
	return slices.ContainsFunc(pieces, func(p string) bool { return len(p) >= 12 && strings.ContainsAny(p, digits) })
}

// named matches what precedes a value that is called a secret: API_KEY=…, "password": "…", token = '…'. It excludes the
// value, which may be the name of another one; and one pattern for both would be slow.
var named = text.Regexp(`(?:\\[nrtbf])?([\w-]*(?i:(` + strings.ReplaceAll(keyWords, " ", "|") + `))[\w-]*)` +
	`(["'\\]{0,8}) {0,8}([:=])( {0,8}["'\\]{0,8})`)

// findNamed returns the values that are called a secret.
func findNamed(s, lower string) (spans []span) {
	if !containsAny(lower, keyWords) || !strings.ContainsAny(s, ":=") {
		return nil
	}
	for _, match := range named().FindAllStringSubmatchIndex(s, -1) {
		groups, from := groupsOf(s, match), match[1]
		if namedSecret(groups, valueOf(s[from:min(from+128, len(s))])) {
			spans = append(spans, span{from, from + len(valueOf(s[from:])), "a value that is called " + strings.ToLower(groups[1])})
		}
	}
	return spans
}

// valueOf returns the value at the beginning of s.
func valueOf(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, lowers+uppers+digits+"_.~+/=@:!%^?-"))]
}

// namedSecret judges a value by its name and the text between them. In programs, names and values look alike, so the
// value must look random; in NAME=value without spaces, as in an environment, it must only be no word.
func namedSecret(groups []string, value string) bool {
	name, quote, sep, open := groups[0], groups[2], groups[3], groups[4]
	tight := sep == "=" && quote == "" && !strings.HasPrefix(open, " ") && name == strings.ToUpper(name)
	quoted := strings.Trim(open, " ") != "" || quote != ""
	return guarded(value) && (tight && secretVariable(name) ||
		(quoted || !strings.ContainsAny(value, ".:")) && random(value) && secretName(name)) && !placeholder(value)
}

// random reports whether a value looks machine-generated. Its Shannon entropy in bits per byte must be at least 3.3:
// most English words have less, and 20 random letters and digits about 4.
func random(v string) bool {
	if len(v) < 16 || !strings.ContainsAny(v, digits) || !strings.ContainsAny(v, lowers+uppers) {
		return false
	}
	v = v[:min(len(v), 64)]
	entropy := 0.0
	for i := range len(v) { // each byte adds its share of the sum over distinct bytes
		entropy -= math.Log2(float64(strings.Count(v, v[i:i+1])) / float64(len(v)))
	}
	return entropy/float64(len(v)) >= 3.3
}

var (
	standIn  = text.Regexp(`(?i)your|example|changeme|placeholder|redacted|dummy|xxxx|\*{4}|\.\.\.`)
	filePath = text.Regexp(`^(?:\.\.?|~)/|^/.*/`)
)

// placeholder reports whether a value stands for a secret.
func placeholder(v string) bool { return standIn().MatchString(v) }

func pathLike(v string) bool { return filePath().MatchString(v) }
