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
		if !strings.Contains(value, "://") && !pathLike(value) && strong(value) && secretVariable(name) {
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

const secretWords = `(PASSWORD|PASSWD|PASSPHRASE|TOKEN|SECRET|APIKEY)$`

var (
	secretVariables = text.Regexp(`\w_(KEY|CREDENTIALS?|PAT|PASS)$|_ACCESS_KEY_ID$|^_MYSQL_PWD$|` + secretWords)
	publicNames     = text.Regexp(`_(PUBLIC|PUBLISHABLE)_`)
	secretNames     = text.Regexp(`_(API|ACCESS|SECRET|PRIVATE|AUTH|ENCRYPTION|SIGNING|MASTER)_KEY$|` + secretWords)
	separators      = text.Regexp(`[_.-]+`)
	humps           = text.Regexp(`([a-z])([A-Z])`)
	lastNumbers     = text.Regexp(`(_\d+)+$`)
)

// secretVariable reports whether the name of an environment variable says that its value is secret: its last part is
// KEY, TOKEN, SECRET, PASSWORD or the like. Trailing numbers do not count. What is public by its name is none.
func secretVariable(name string) bool {
	parts := partsOf(name)
	return secretVariables().MatchString(parts) && !publicNames().MatchString(parts+"_")
}

// secretName is secretVariable for names in programs and documents, where a key is most often a word to look
// something up by.
func secretName(name string) bool { return secretNames().MatchString(partsOf(name)) }

// partsOf writes apiKey-2 as _API_KEY.
func partsOf(name string) string {
	name = humps().ReplaceAllString(name, "${1}_$2")
	name = strings.Trim(separators().ReplaceAllString(name, "_"), "_")
	return "_" + strings.ToUpper(lastNumbers().ReplaceAllString(name, ""))
}

// minValue is the least length of a value that is replaced wherever it stands, in bytes.
const minValue = 8

// strong reports whether a value can be told from ordinary text. Words, short numbers, and switches such as "true" are
// no secrets worth the name, and replacing "postgres" everywhere would only mangle what people read.
func strong(v string) bool {
	if len(v) < minValue || strings.HasPrefix(v, "$") || strings.HasPrefix(v, Redacted) ||
		v == strings.Repeat(v[:1], len(v)) {
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

// printed gives the texts in which a program may print a value.
func printed(value string) []string {
	if !utf8.ValidString(value) {
		return nil // a part of a character would be left of what it is cut out of
	}
	var all []string
	for _, line := range lines(value) {
		all = append(all, encodings(line)...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return len(s) < minValue })
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
