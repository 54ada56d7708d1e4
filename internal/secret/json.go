package secret

import (
	"bytes"
	"encoding/json"

	"github.com/bouldermgr/manager/internal/text"
)

// JSON is [Redactor.Text] for the strings in a JSON text, the names of members included: what was valid is valid after
// it, has the same structure and decodes into the same types. Numbers are never touched. A value whose name says
// that it is secret is taken as a whole if it could be one. What is not JSON is treated as text. The result may be
// data itself.
func (r *Redactor) JSON(data []byte) []byte {
	if !json.Valid(data) {
		return []byte(r.Text(string(data)))
	}
	name := ""
	return literal().ReplaceAllFunc(data, func(m []byte) []byte {
		end := bytes.LastIndexByte(m, '"') + 1
		var s string
		if end == 0 || json.Unmarshal(m[:end], &s) != nil {
			name = ""
			return m
		}
		clean := r.Text(s)
		if clean == s && name != "" && secretName(name) && random(s) && !pathLike(s) && !placeholder(s) {
			clean = Redacted
		}
		if end < len(m) {
			name = s
		}
		if clean == s {
			return m
		}
		return append([]byte(`"`+jsonEscaped(clean, false)+`"`), m[end:]...)
	})
}

// literal is a string in valid JSON, with the colon behind it if it is a name, or what ends the value of a name.
var literal = text.Regexp(`"(?:[^"\\]|\\.)*"(?:\s*:)?|[,{}]`)
