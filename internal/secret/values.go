package secret

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/internal/text"
)

// inEnviron finds the secrets of an environment.
func inEnviron(environ []string) []known {
	var found []known
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		value = strings.TrimSpace(value)
		kind := "the value of " + name
		if secretVariable(name) && !strings.Contains(value, "://") && !pathLike(value) && strong(value) {
			found = append(found, known{value, kind})
		}
		if strings.HasPrefix(value, "{") {
			for _, v := range inJSON(value) {
				found = append(found, known{v, "a secret of " + name})
			}
		}
		for _, address := range userinfo.find(nil, value, value) {
			found = append(found, known{value[address.from:address.to], "the password of " + name})
		}
	}
	return found
}

// inJSON finds the secrets in a variable that holds a JSON object: a service account, a configuration of OpenCode.
func inJSON(text string) []string {
	var found []string
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case string:
			if secretName(name) && strong(v) && !strings.Contains(v, "://") && !pathLike(v) {
				found = append(found, v)
			}
		case []any:
			for _, x := range v {
				walk(name, x)
			}
		case map[string]any:
			for k, x := range v {
				walk(k, x)
			}
		}
	}
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) == nil {
		walk("", object)
	}
	return found
}

// secretVariable reports whether the name of an environment variable says that its value is secret: its last part is
// KEY, TOKEN, SECRET, PASSWORD or the like. Trailing numbers do not count. What is public by its name is none.
func secretVariable(name string) bool {
	parts := partsOf(name)
	if len(parts) == 0 || slices.ContainsFunc(parts, func(p string) bool { return p == "PUBLIC" || p == "PUBLISHABLE" }) {
		return false
	}
	last := parts[len(parts)-1]
	switch last {
	case "KEY", "CREDENTIAL", "CREDENTIALS", "PAT", "PASS":
		return len(parts) > 1
	case "ID":
		return len(parts) > 2 && slices.Equal(parts[len(parts)-3:], []string{"ACCESS", "KEY", "ID"})
	}
	if strings.EqualFold(name, "MYSQL_PWD") {
		return true
	}
	return secretWord(last)
}

func secretWord(w string) bool {
	for _, suffix := range []string{"PASSWORD", "PASSWD", "PASSPHRASE", "TOKEN", "SECRET", "APIKEY"} {
		if strings.HasSuffix(w, suffix) {
			return true
		}
	}
	return false
}

// secretName is secretVariable for names in programs and documents, where a key is most often a word to look
// something up by.
func secretName(name string) bool {
	parts := partsOf(name)
	if len(parts) == 0 {
		return false
	}
	last := parts[len(parts)-1]
	if last != "KEY" {
		return secretWord(last)
	}
	if len(parts) < 2 {
		return false
	}
	switch parts[len(parts)-2] {
	case "API", "ACCESS", "SECRET", "PRIVATE", "AUTH", "ENCRYPTION", "SIGNING", "MASTER":
		return true
	}
	return false
}

// partsOf splits a name at _, -, . and where a capital letter follows a small one; the parts are in upper case, without
// numbers at the end.
func partsOf(name string) []string {
	var parts []string
	begin := 0
	cut := func(to int) {
		if to > begin {
			parts = append(parts, strings.ToUpper(name[begin:to]))
		}
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c == '_' || c == '-' || c == '.':
			cut(i)
			begin = i + 1
		case i > begin && 'A' <= c && c <= 'Z' && 'a' <= name[i-1] && name[i-1] <= 'z':
			cut(i)
			begin = i
		}
	}
	cut(len(name))
	for len(parts) > 1 && strings.Trim(parts[len(parts)-1], digits) == "" {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// minValue is the least length of a value that is replaced wherever it stands, in bytes.
const minValue = 8

// strong reports whether a value can be told from ordinary text. Words, short numbers, and switches such as "true" are
// no secrets worth the name, and replacing "postgres" everywhere would only mangle what people read.
func strong(v string) bool {
	if len(v) < minValue || strings.HasPrefix(v, "$") || v == strings.Repeat(v[:1], len(v)) {
		return false
	}
	if strings.HasPrefix(v, Redacted) {
		return false
	}
	switch {
	case strings.Trim(v, digits) == "":
		return len(v) >= 12
	case len(v) >= 20:
		return true
	}
	return strings.Trim(v, lowers+"-_. ") != "" && strings.Trim(v, uppers+"-_. ") != "" &&
		strings.Trim(v[1:], lowers+"-_. ") != "" // Capitalised
}

// values finds known values, in one pass: by their first bytes it tells whether any can begin at a place.
type values struct {
	begins [1 << 16]bool      // by the first two bytes
	texts  map[string][]known // by the first minValue bytes
}

// newValues looks for values in all the forms in which programs print them.
func newValues(all []known) *values {
	v := &values{texts: map[string][]known{}}
	seen := map[string]bool{}
	for _, k := range all {
		if !utf8.ValidString(k.value) {
			continue // a part of a character would be left of what it is cut out of
		}
		for _, line := range lines(k.value) {
			for _, text := range encodings(line) {
				if len(text) >= minValue && !seen[text] {
					seen[text] = true
					v.begins[uint16(text[0])<<8|uint16(text[1])] = true
					v.texts[text[:minValue]] = append(v.texts[text[:minValue]], known{text, k.kind})
				}
			}
		}
	}
	return v
}

func (v *values) find(s string) []span {
	if v == nil {
		return nil
	}
	var spans []span
	for i := 0; i+minValue <= len(s); i++ {
		if !v.begins[uint16(s[i])<<8|uint16(s[i+1])] {
			continue
		}
		for _, k := range v.texts[s[i:i+minValue]] {
			if strings.HasPrefix(s[i:], k.value) {
				spans = append(spans, span{i, i + len(k.value), k.kind, byValue})
			}
		}
	}
	return spans
}

// lines are a value and, of one with several lines, the long ones of them: tools indent, number and fold.
func lines(v string) []string {
	all := []string{v}
	if !strings.Contains(v, "\n") {
		return all
	}
	for line := range strings.Lines(v) {
		if line = strings.TrimSpace(line); len(line) >= 16 && !strings.HasPrefix(line, "-----") {
			all = append(all, line)
		}
	}
	return all
}

func encodings(v string) []string {
	all := []string{v}
	for _, html := range []bool{true, false} {
		escaped := jsonEscaped(v, html)
		all = append(all, escaped, jsonEscaped(escaped, false)) // also JSON in JSON
	}
	for _, escaped := range []string{url.QueryEscape(v), url.PathEscape(v)} {
		all = append(all, escaped, lowerHex(escaped))
	}
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			all = append(all, inBase64(alphabet, v, shift))
		}
	}
	return all
}

func jsonEscaped(v string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if enc.Encode(v) != nil {
		return v
	}
	quoted := strings.TrimSpace(b.String())
	return quoted[1 : len(quoted)-1]
}

// lowerHex writes %2F as %2f.
func lowerHex(escaped string) string {
	return hexEscape().ReplaceAllStringFunc(escaped, strings.ToLower)
}

var hexEscape = text.Regexp("%[0-9A-F]{2}")

// inBase64 is how a value looks in the encoding of a longer text in which it stands shift bytes after a multiple of
// three. Characters at both ends that its neighbours have a say in are left out.
func inBase64(alphabet *base64.Encoding, v string, shift int) string {
	encoded := alphabet.EncodeToString([]byte(strings.Repeat("\x00", shift) + v))
	begin := (shift*8 + 5) / 6
	return encoded[begin : (shift+len(v))*8/6]
}
