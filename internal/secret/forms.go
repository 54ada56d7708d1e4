package secret

import "strings"

// class is a set of bytes.
type class [256]bool

func classOf(chars string) *class {
	c := new(class)
	for _, b := range []byte(chars) {
		c[b] = true
	}
	return c
}

const (
	lowers = "abcdefghijklmnopqrstuvwxyz"
	uppers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
)

var (
	letters     = classOf(lowers + uppers)
	alnum       = classOf(lowers + uppers + digits)
	upperAlnum  = classOf(uppers + digits)
	word        = classOf(lowers + uppers + digits + "_")
	base64url   = classOf(lowers + uppers + digits + "_-")
	base64std   = classOf(lowers + uppers + digits + "+/=")
	dotted      = classOf(lowers + uppers + digits + "_-.")
	slashed     = classOf(lowers + uppers + digits + "/")
	credential  = classOf(lowers + uppers + digits + "._~+/=*-") // of an Authorization header (RFC 9110), and stars
	pemBody     = classOf(lowers + uppers + digits + "+/=:,.- \t\r\n\\")
	plainSecret = classOf(lowers + uppers + digits + "._~+/=@:!%^?-") // of an unquoted value
)

// token is a form that begins with a prefix of its maker's: what follows is of some bytes and of some length.
type token struct {
	kind     string
	prefixes string // one or more, with blanks between them
	chars    *class
	min, max int               // of what follows the prefix; max 0: any
	ok       func(string) bool // of what follows, at most lookMost of it; nil: all
}

// lookMost bounds what is looked at before a form is taken for one, so that text that is full of prefixes costs little.
const lookMost = 256

// tokens are the forms that vendors document or that their keys have; lengths are lower bounds, since vendors lengthen
// keys. Google's, GitHub's, GitLab's, Slack's and AWS' are as published by them for secret scanning.
var tokens = []token{
	{kind: "a model provider's key (sk-…)", prefixes: "sk-", chars: base64url, min: 20, ok: keyLike},
	{kind: "a Stripe key", prefixes: "sk_live_ sk_test_ rk_live_", chars: alnum, min: 16},
	{kind: "an xAI key", prefixes: "xai-", chars: base64url, min: 20, ok: keyLike},
	{kind: "a Groq key", prefixes: "gsk_", chars: alnum, min: 20, ok: hasDigit},
	{kind: "a Google API key", prefixes: "AIza", chars: base64url, min: 30},
	{kind: "a Google OAuth secret", prefixes: "GOCSPX-", chars: base64url, min: 20},
	{kind: "a Google OAuth token", prefixes: "ya29.", chars: base64url, min: 30},
	{kind: "a GitHub token", prefixes: "ghp_ gho_ ghu_ ghr_", chars: alnum, min: 30},
	{kind: "a GitHub token", prefixes: "ghs_", chars: dotted, min: 30, ok: hasDigit},
	{kind: "a GitHub token", prefixes: "github_pat_", chars: word, min: 30},
	{kind: "a GitLab token", prefixes: "glpat-", chars: dotted, min: 20},
	{kind: "an AWS access key id", prefixes: "AKIA ASIA", chars: upperAlnum, min: 16, max: 16},
	{
		kind: "a Slack token", prefixes: "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxc-", chars: base64url, min: 10,
		ok: hasDigit,
	},
	{kind: "a Slack token", prefixes: "xoxd-", chars: credential, min: 10, ok: hasDigit},
	{kind: "a Slack token", prefixes: "xapp-", chars: base64url, min: 20, ok: hasDigit},
	{kind: "a Slack webhook", prefixes: "hooks.slack.com/services/", chars: slashed, min: 30},
	{kind: "an npm token", prefixes: "npm_", chars: alnum, min: 36},
	{kind: "a Hugging Face token", prefixes: "hf_", chars: letters, min: 30},
	{kind: "a PyPI token", prefixes: "pypi-AgEI", chars: base64url, min: 30},
	{kind: "a SendGrid key", prefixes: "SG.", chars: dotted, min: 60},
	{kind: "a DigitalOcean token", prefixes: "dop_v1_", chars: alnum, min: 60},
	{kind: "an age key", prefixes: "AGE-SECRET-KEY-1", chars: upperAlnum, min: 50},
}

// formNeedles are the needles of all forms.
func formNeedles() []needle {
	needles := []needle{
		{text: "-----BEGIN ", kind: "a private key", rank: byForm, find: findPEM},
		{text: "eyJ", kind: "a JSON web token", rank: byForm, find: findJWT},
		{text: "authorization", fold: true, kind: "an Authorization header", rank: byForm, find: findAuthorization},
		{text: "bearer ", fold: true, kind: "a bearer token", rank: byForm, find: findBearer},
		{text: "://", kind: "a password in an address", rank: byForm, find: findUserinfo},
	}
	for _, t := range tokens {
		for prefix := range strings.FieldsSeq(t.prefixes) {
			needles = append(needles, needle{text: prefix, kind: t.kind, rank: byForm, find: t.after(len(prefix))})
		}
	}
	for _, last := range []string{"key", "token", "secret", "password", "passwd", "passphrase", "credentials"} {
		needles = append(needles, needle{
			text: last, fold: true, kind: "a value that is called " + last, rank: byName, find: findNamed,
		})
	}
	return needles
}

// after finds the form by its prefix, which has that many bytes.
func (t token) after(prefix int) func(s string, at int) (from, to int) {
	return func(s string, at int) (from, to int) {
		start := at + prefix
		if !begins(s, at) {
			return 0, 0
		}
		n := t.chars.run(s, start, max(lookMost, t.max+1))
		if n < t.min || t.max > 0 && n > t.max || t.ok != nil && !t.ok(s[start:start+n]) {
			return 0, 0
		}
		return at, start + t.chars.run(s, start, len(s))
	}
}

// run is how many bytes of the class follow, at most limit.
func (c *class) run(s string, at, limit int) int {
	n := 0
	for at+n < len(s) && n < limit && c[s[at+n]] {
		n++
	}
	return n
}

// begins reports whether a word can begin at s[at:]: "task-" is no "sk-". The letter of an escape like \n is no part
// of a word, so that text inside of JSON reads as it does outside.
func begins(s string, at int) bool {
	if at == 0 || !word[s[at-1]] {
		return true
	}
	return at >= 2 && s[at-2] == '\\' && strings.IndexByte("nrtbf", s[at-1]) >= 0
}

func hasDigit(s string) bool { return strings.ContainsAny(s, digits) }

// keyLike wants a long piece of letters and digits: sk-learn-compatible-v2 is a name.
func keyLike(s string) bool {
	for piece := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '-' || r == '_' }) {
		if len(piece) >= 12 && hasDigit(piece) {
			return true
		}
	}
	return false
}

// findPEM takes the whole block, or what there is of it if its end was cut off.
func findPEM(s string, at int) (from, to int) {
	const begin, dashes, end = "-----BEGIN ", "-----", "-----END "
	label, _, ok := strings.Cut(s[at+len(begin):min(len(s), at+len(begin)+64)], dashes)
	if !ok || !strings.HasSuffix(label, "PRIVATE KEY") && label != "PGP PRIVATE KEY BLOCK" {
		return 0, 0
	}
	body := at + len(begin) + len(label) + len(dashes)
	to, base64 := body, 0
	for to < len(s) && pemBody[s[to]] && !strings.HasPrefix(s[to:], end) {
		if base64std[s[to]] {
			base64++
		}
		to++
	}
	if base64 < 32 {
		return 0, 0 // text about keys
	}
	if strings.HasPrefix(s[to:], end) {
		rest := s[to+len(end) : min(len(s), to+len(end)+64)]
		if label, _, ok := strings.Cut(rest, dashes); ok {
			to += len(end) + len(label) + len(dashes)
		}
	}
	return at, to
}

// findJWT takes three dotted parts, of which the first two are JSON objects.
func findJWT(s string, at int) (from, to int) {
	const object = "eyJ"
	if !begins(s, at) {
		return 0, 0
	}
	header := base64url.run(s, at, lookMost*4)
	claims := at + header + 1
	if header < 12 || claims > len(s) || s[claims-1] != '.' || !strings.HasPrefix(s[claims:], object) {
		return 0, 0
	}
	signature := claims + base64url.run(s, claims, len(s)) + 1
	if signature > len(s) || s[signature-1] != '.' {
		return 0, 0
	}
	n := base64url.run(s, signature, len(s))
	if n < 16 {
		return 0, 0
	}
	return at, signature + n
}

// findAuthorization takes the credentials of the header, however it is quoted.
func findAuthorization(s string, at int) (from, to int) {
	at = skip(s, at+len("authorization"), `"'\ `)
	if at >= len(s) || s[at] != ':' && s[at] != '=' {
		return 0, 0
	}
	at = skip(s, at+1, `"'\ `)
	least := 16
	for _, scheme := range []string{"bearer ", "basic ", "token "} {
		if len(s)-at >= len(scheme) && foldsTo(s[at:at+len(scheme)], scheme) {
			at, least = skip(s, at+len(scheme), " "), 6
			break
		}
	}
	n := credential.run(s, at, lookMost)
	if n < least || least > 6 && !hasDigit(s[at:at+n]) || placeholder(s[at:at+n]) {
		return 0, 0
	}
	return at, at + credential.run(s, at, len(s))
}

func findBearer(s string, at int) (from, to int) {
	if !begins(s, at) {
		return 0, 0
	}
	at = skip(s, at+len("bearer "), " ")
	n := credential.run(s, at, lookMost)
	if n < 16 || !hasDigit(s[at:at+n]) || placeholder(s[at:at+n]) {
		return 0, 0
	}
	return at, at + credential.run(s, at, len(s))
}

// skip passes over any of some bytes, a few at most.
func skip(s string, at int, over string) int {
	for end := min(len(s), at+8); at < end && strings.IndexByte(over, s[at]) >= 0; at++ {
	}
	return at
}

// notInUserinfo ends the part of an address before its host.
const notInUserinfo = "/?#@\"'`<>\\ \t\r\n"

// findUserinfo takes the password of scheme://user:password@host.
func findUserinfo(s string, at int) (from, to int) {
	rest := s[at+len("://") : min(len(s), at+len("://")+lookMost)]
	end := strings.IndexAny(rest, notInUserinfo)
	if end < 0 || rest[end] != '@' {
		return 0, 0
	}
	user, password, ok := strings.Cut(rest[:end], ":")
	if !ok || password == user || !strong(password) || placeholder(password) {
		return 0, 0
	}
	from = at + len("://") + len(user) + 1
	return from, from + len(password)
}
