package secret

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/internal/text"
)

// New returns a Redactor that knows the secrets of an environment, NAME=value each: the values of variables with secret
// names (listed in docs/security.md), values with such names inside variables that hold JSON, and passwords in
// addresses. Values that could be words, switches, numbers or paths are left out.
func New(environ []string) *Redactor {
	r := &Redactor{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		value = strings.TrimSpace(value)
		if secretVariable(name) && guarded(value) {
			r.learn("the value of "+name, value)
		}
		var object map[string]any // a service account, an OpenCode configuration
		if strings.HasPrefix(value, "{") && json.Unmarshal([]byte(value), &object) == nil {
			for _, v := range inJSON("", object) {
				r.learn("a secret of "+name, v)
			}
		}
		for _, address := range userinfo.find(value, value) {
			r.learn("the password of "+name, value[address.from:address.to])
		}
	}
	return r
}

// guarded reports whether a value that is called a secret can be one: addresses and paths cannot.
func guarded(v string) bool { return strong(v) && !strings.Contains(v, "://") && !pathLike(v) }

func inJSON(name string, v any) (found []string) {
	switch v := v.(type) {
	case string:
		if secretName(name) && guarded(v) {
			found = append(found, v)
		}
	case []any:
		for _, x := range v {
			found = append(found, inJSON(name, x)...)
		}
	case map[string]any:
		for k, x := range v {
			found = append(found, inJSON(k, x)...)
		}
	}
	return found
}

const secretWords = " PASSWORD PASSWD PASSPHRASE TOKEN SECRET APIKEY"

// secretVariable reports whether the name of an environment variable says that its value is secret: it ends in KEY,
// TOKEN, SECRET, PASSWORD or the like, ignoring trailing numbers. Names that say public are not secret.
func secretVariable(name string) bool {
	parts := partsOf(name)
	return !containsAny(parts+"_", "_PUBLIC_ _PUBLISHABLE_") && (parts == "_MYSQL_PWD" ||
		endsInAny(parts, "_ACCESS_KEY_ID"+secretWords) ||
		endsInAny(parts[1:], "_KEY _CREDENTIAL _CREDENTIALS _PAT _PASS")) // only after another part
}

// secretName is secretVariable for programs and documents, where a key is mostly a word for lookups.
func secretName(name string) bool {
	return endsInAny(partsOf(name), "_API_KEY _ACCESS_KEY _SECRET_KEY _PRIVATE_KEY _AUTH_KEY _ENCRYPTION_KEY _SIGNING_KEY"+
		" _MASTER_KEY"+secretWords)
}

func endsInAny(s, words string) bool {
	for w := range strings.FieldsSeq(words) {
		if strings.HasSuffix(s, w) {
			return true
		}
	}
	return false
}

// partsOf turns apiKey-2 into _API_KEY.
func partsOf(name string) string {
	if strings.ContainsAny(name, lowers) { // a fast path: every command checks all variables, mostly upper case
		name = humps().ReplaceAllString(name, "${1}_$2")
	}
	parts := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("_.-", r) })
	for last := len(parts) - 1; last > 0 && strings.Trim(parts[last], digits) == ""; last-- {
		parts = parts[:last]
	}
	return "_" + strings.ToUpper(strings.Join(parts, "_"))
}

var humps = text.Regexp(`([a-z])([A-Z])`)

// minValue is the minimum length of a value that is replaced wherever it occurs, in bytes.
const minValue = 8

// strong reports whether a value can be told from ordinary text. Words, short numbers and switches such as "true"
// cannot, and replacing "postgres" everywhere would only mangle text.
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

// printed returns the texts in which a program may print a value, before escapes, and its long lines: tools indent and
// number them.
func printed(value string) []string {
	if !utf8.ValidString(value) {
		return nil // cutting it out would split characters
	}
	all := encodings(value)
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= 16 && !strings.HasPrefix(line, "-----") {
			all = append(all, encodings(line)...)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return len(s) < minValue })
}

// encodings returns a value in itself and in base64. Escapes are taken off when it is searched, see [plain].
func encodings(v string) []string {
	all := []string{v}
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 { // inside a longer text, at each alignment, without the characters that its neighbours affect
			encoded := alphabet.EncodeToString([]byte(strings.Repeat("\x00", shift) + v))
			all = append(all, encoded[(shift*8+5)/6:(shift+len(v))*8/6])
		}
	}
	return all
}

func jsonEscaped(v string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	_ = enc.Encode(v) // strings always encode
	quoted := strings.TrimSpace(b.String())
	return quoted[1 : len(quoted)-1]
}
