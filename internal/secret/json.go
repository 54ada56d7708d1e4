package secret

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/bouldermgr/manager/internal/text"
)

// JSON is [Redactor.Text] for the strings in a JSON text, the names of members included: what was valid is valid after
// it, has the same structure and decodes into the same types. Numbers are never touched. A value whose name says
// that it is secret is taken as a whole if it could be one. What is not JSON is treated as text. The result may be
// data itself.
func (r *Redactor) JSON(data []byte) []byte {
	if plain(data) && len(r.find(string(data))) == 0 {
		return data
	}
	if !json.Valid(data) {
		return []byte(r.Text(string(data)))
	}
	name := ""
	return literal().ReplaceAllFunc(data, func(m []byte) []byte {
		if m[0] != '"' {
			name = ""
			return m
		}
		end := bytes.LastIndexByte(m, '"') + 1
		s, changed := r.literal(m[:end], name)
		if end < len(m) {
			name = s
		}
		if changed == nil {
			return m
		}
		return append(changed, m[end:]...)
	})
}

// literal is a string in valid JSON, with the colon behind it if it is a name, or what ends the value of a name.
var literal = text.Regexp(`"(?:[^"\\]|\\.)*"(?:\s*:)?|[,{}]`)

// plain reports whether a look at the text as it is finds what its strings hold: escapes of what needs none hide it,
// and what is not UTF-8 decodes into something else.
func plain(data []byte) bool {
	return !bytes.Contains(data, []byte(`\u`)) && !bytes.Contains(data, []byte(`\/`)) && utf8.Valid(data)
}

// literal gives the string that is written in JSON and, if there is a secret in it, how it is written without.
func (r *Redactor) literal(quoted []byte, name string) (s string, changed []byte) {
	if json.Unmarshal(quoted, &s) != nil {
		return "", nil
	}
	clean := r.Text(s)
	if clean == s && name != "" && secretName(name) && random(s) && !placeholder(s) {
		clean = Redacted
	}
	if clean == s {
		return s, nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(clean) != nil {
		return s, []byte(`"` + Redacted + `"`)
	}
	return s, bytes.TrimSpace(out.Bytes())
}
