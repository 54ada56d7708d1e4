package secret

import (
	"math"
	"strings"
)

// named judges the value of what is called a secret: API_KEY=…, "password": "…", token = '…'. Names and values of
// programs look alike, so the value has to look random; in a line of an environment, NAME=value without spaces, it
// has only to be no word.
func named(before string, groups []string) bool {
	name, quote, sep, open, value := groups[0], groups[1], groups[2], groups[3], groups[4]
	begin := len(before)
	for begin > 0 && len(before)-begin < 64 && (isWord(before[begin-1]) || before[begin-1] == '-') && !endsInEscape(before[:begin]) {
		begin--
	}
	name = before[begin:] + name
	spaced := strings.HasPrefix(open, " ")
	opened := strings.Trim(open, " ") != ""
	tight := sep == "=" && quote == "" && !spaced && name == strings.ToUpper(name)
	switch {
	case placeholder(value), strings.Contains(value, "://"):
		return false
	case tight && secretVariable(name) && strong(value) && !pathLike(value):
		return true
	}
	return secretName(name) && (opened || quote != "" || !strings.ContainsAny(value, ".:")) && random(value)
}

// random reports whether a value looks made by a machine.
func random(v string) bool {
	return len(v) >= 16 && strings.ContainsAny(v, digits) && strings.ContainsAny(v, lowers+uppers) && !pathLike(v) && entropy(v) >= 3.3
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
