package secret

import (
	"math"
	"strings"
)

// findNamed takes the value of what is called a secret: API_KEY=…, "password": "…", token = '…'. Names and values of
// programs look alike, so the value has to look random; in a line of an environment, NAME=value without spaces, it
// has only to be no word.
func findNamed(s string, at int) (from, to int) {
	name, end := nameAround(s, at)
	sep := skip(s, end, `"'\`)
	quotedName := sep > end
	sep = skip(s, sep, " ")
	if sep >= len(s) || s[sep] != '=' && s[sep] != ':' {
		return 0, 0
	}
	tight := s[sep] == '=' && sep == end && name == strings.ToUpper(name)
	from = skip(s, sep+1, " ")
	if from > sep+1 {
		tight = false
	}
	unquoted := from
	from = skip(s, from, `"'\`)
	n := plainSecret.run(s, from, lookMost)
	value := s[from : from+n]
	switch {
	case n < 8, placeholder(value), strings.Contains(value, "://"):
		return 0, 0
	case tight && secretVariable(name) && strong(value) && !pathLike(value):
	case secretName(name) && (from > unquoted || quotedName || !strings.ContainsAny(value, ".:")) && random(value):
	default:
		return 0, 0
	}
	return from, from + plainSecret.run(s, from, len(s))
}

// nameAround is the name of which s[at:] is a part, and where it ends. An escape before it, as in \nKEY, is none of it.
func nameAround(s string, at int) (name string, end int) {
	begin := at
	for begin > 0 && at-begin < 64 && (word[s[begin-1]] || s[begin-1] == '-') {
		if begin >= 2 && s[begin-2] == '\\' && strings.IndexByte("nrtbf", s[begin-1]) >= 0 {
			break
		}
		begin--
	}
	end = at + base64url.run(s, at, 64)
	return s[begin:end], end
}

// random reports whether a value looks made by a machine.
func random(v string) bool {
	return len(v) >= 16 && hasDigit(v) && strings.ContainsAny(v, lowers+uppers) && !pathLike(v) && entropy(v) >= 3.3
}

// entropy is Shannon's, in bits per byte: English words have less than 3.3 mostly, 20 random letters and digits have
// about 4. At most 64 bytes are looked at.
func entropy(v string) float64 {
	v = v[:min(len(v), 64)]
	var count [256]int
	for i := range len(v) {
		count[v[i]]++
	}
	sum := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(v))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}

// placeholder reports whether somebody wrote a value that stands for a secret.
func placeholder(v string) bool {
	lower := strings.ToLower(v)
	for _, sign := range []string{
		"your", "example", "changeme", "placeholder", "redacted", "dummy", "xxxx", "****", "...",
	} {
		if strings.Contains(lower, sign) {
			return true
		}
	}
	return false
}

// pathLike reports whether a value is the path of a file.
func pathLike(v string) bool {
	for _, prefix := range []string{"./", "../", "~/"} {
		if strings.HasPrefix(v, prefix) {
			return true
		}
	}
	return strings.HasPrefix(v, "/") && strings.Count(v, "/") > 1
}
