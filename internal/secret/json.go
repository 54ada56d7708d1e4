package secret

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// JSON is [Redactor.Text] for the strings in a JSON text, the names of members included: what was valid is valid after
// it, has the same structure and decodes into the same types. Numbers are never touched. A value whose name says
// that it is secret is taken as a whole if it could be one. What is not JSON is treated as text. The result may be
// data itself.
func (r *Redactor) JSON(data []byte) []byte {
	if plain(data) && len(r.needles().find(string(data))) == 0 {
		return data
	}
	if !json.Valid(data) {
		return []byte(r.Text(string(data)))
	}
	var out bytes.Buffer
	last, name := 0, ""
	for at := 0; at < len(data); at++ {
		if data[at] != '"' {
			if data[at] == ',' || data[at] == '{' || data[at] == '}' {
				name = ""
			}
			continue
		}
		end := endOfString(data, at)
		s, changed := r.literal(data[at:end], name)
		if changed != nil {
			out.Write(data[last:at])
			out.Write(changed)
			last = end
		}
		if isName(data, end) {
			name = s
		}
		at = end - 1
	}
	if last == 0 {
		return data
	}
	out.Write(data[last:])
	return out.Bytes()
}

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

// endOfString is where the string that begins at data[at] ends, in valid JSON.
func endOfString(data []byte, at int) int {
	for at++; data[at] != '"'; at++ {
		if data[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// isName reports whether a colon follows.
func isName(data []byte, at int) bool {
	for ; at < len(data); at++ {
		switch data[at] {
		case ' ', '\t', '\r', '\n':
		default:
			return data[at] == ':'
		}
	}
	return false
}
