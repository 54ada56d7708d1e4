package secret_test

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/internal/secret"
)

// each returns an encoder that writes every character that the others would, or all, in one format.
func each(format string, only func(rune) bool) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for _, r := range s {
			if !only(r) {
				b.WriteRune(r)
				continue
			}
			fmt.Fprintf(&b, format, r)
		}
		return b.String()
	}
}

func eachByte(format string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, format, s[i])
		}
		return b.String()
	}
}

func utf16Escapes(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, `\u%04x`, u)
	}
	return b.String()
}

func everything(rune) bool { return true }
func special(r rune) bool  { return strings.ContainsRune(`+/=<>&'"\ $`, r) }

// encoders are what programs do to a value that they print, without the quotes around it.
var encoders = map[string]func(string) string{
	"none":              func(s string) string { return s },
	"Go, JSON":          quoted,
	"PHP, JSON":         strings.NewReplacer(`\`, `\\`, `"`, `\"`, "/", `\/`, "\n", `\n`).Replace,
	".NET, JSON":        each(`\u%04X`, special),
	"UTF-16":            utf16Escapes,
	"Go, quoted":        func(s string) string { q := strconv.QuoteToASCII(s); return q[1 : len(q)-1] },
	"Python, bytes":     eachByte(`\x%02x`),
	"C, octal":          eachByte(`\%03o`),
	"JavaScript, Rust":  each(`\u{%x}`, everything),
	"C, long":           each(`\U%08x`, special),
	"URL, query":        url.QueryEscape,
	"URL, path":         url.PathEscape,
	"URL, all":          eachByte("%%%02x"),
	"HTML":              html.EscapeString,
	"HTML, decimal":     each("&#%d;", special),
	"HTML, hexadecimal": each("&#x%X;", everything),
	"HTML, names":       strings.NewReplacer("&", "&amp;", "+", "&plus;", "/", "&sol;", "=", "&equals;", "\n", "&NewLine;").Replace,
	"shell, quotes":     func(s string) string { return strings.ReplaceAll(s, "'", `'\''`) },
	"shell, mixed":      func(s string) string { return strings.ReplaceAll(s, "'", `'"'"'`) },
	"shell, backslash":  each(`\%c`, special),
	"SQL, YAML":         func(s string) string { return strings.ReplaceAll(s, "'", "''") },
	"CSV":               func(s string) string { return strings.ReplaceAll(s, `"`, `""`) },
	"Java, properties":  strings.NewReplacer(`\`, `\\`, "=", `\=`, ":", `\:`).Replace,
	"folded":            func(s string) string { return s[:7] + "\n" + s[7:] },
	"base64, folded": func(s string) string {
		e := base64.StdEncoding.EncodeToString([]byte(s))
		return e[:9] + "\r\n" + e[9:]
	},
}

// A known value is found in every escaping, in every escaping of those, and with each character escaped in another way.
func TestEscapes(t *testing.T) {
	t.Parallel()
	values := []string{
		"Ab3+/Cd9=ef+GH/ij==", `p<ss&w/rd "ü" 9\n`, `it's 4 "secret"`, "50%25 & more/than+9", `C:\new\users\x41`, "täken-😀-9ü", "plain12345abc",
		"two lines of+it\nand/or 9 more",
	}
	for _, value := range values {
		r := secret.New([]string{"A_TOKEN=" + value})
		gone := func(how, shown string) {
			got := r.Text("<" + shown + ">")
			left := strings.Trim(strings.Replace(got, secret.Redacted, "", 1), `<>'"\n=`)
			if !strings.Contains(got, secret.Redacted) || len(left) > 5 { // base64 ends in bits of its neighbours
				t.Errorf("%s of %q, %q, became %q", how, value, shown, got)
			}
		}
		for name, encode := range encoders {
			if name == "folded" && !strings.HasPrefix(value, "A") {
				continue
			}
			gone(name, encode(value))
			for outer, again := range encoders {
				if !strings.Contains(name+outer, "folded") {
					gone(outer+" of "+name, again(encode(value)))
				}
			}
		}
	}
}

func TestEscapesMixed(t *testing.T) {
	t.Parallel()
	value := "Ab3+/Cd9=ef<G&H/ij'k l"
	r := secret.New([]string{"A_TOKEN=" + value})
	rapid.Check(t, func(t *rapid.T) {
		var shown strings.Builder
		for i := range len(value) {
			format := rapid.SampledFrom([]string{"%c", `\u%04X`, `\\u%04x`, "%%%02X", "%%25%02X", "&#%d;", `\x%02x`, `\%03o`, `\u{%x}`}).
				Draw(t, "format")
			fmt.Fprintf(&shown, format, value[i])
		}
		if got := r.Text("key=" + shown.String() + ";"); got != "key=[redacted];" {
			t.Fatalf("%q became %q", shown.String(), got)
		}
	})
}

// What only looks like a value without its escapes stays.
func TestEscapesOfOtherTexts(t *testing.T) {
	t.Parallel()
	r := secret.New([]string{`A_TOKEN=pass\word`, `B_TOKEN="quoted"9`, "C_TOKEN=Ab3+/Cd9=ef"})
	for _, text := range []string{
		"the password", "quoted9", `C:\path\to`, "100% of it & more; 50%2", `\u00`, `\`, `\\`, "&", "&;", "&#;", "%", "%4", `\x`, `\x4`, `\u{`, `\u{}`,
		`\u{110000000}`, `\ud83d`, `\ud83d\u0041`, `\U0011`, "\xff\\", `\08`, "+", "Ab3 Cd9 ef",
	} {
		if got := r.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := r.Text(`C:\dir\Ab3+/Cd9=ef`); got != `C:\dir\[redacted]` {
		t.Errorf("a plain value: %q", got)
	}
}
