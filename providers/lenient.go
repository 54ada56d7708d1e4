package providers

import (
	"bytes"
	"fmt"

	"github.com/bouldermgr/manager/internal/text"
)

var (
	slip = text.Regexp(`(?s)` + stringOrComment + `|\b(?:True|TRUE|False|FALSE|None|NULL)\b|[：，、]|[` + blank + `]+`)
	// inString is what stands in a string for itself, and the escapes that JSON or Python know.
	inString = text.Regexp(`\\u[0-9A-Fa-f]{4}|\\["\\/bfnrt']|\\|"|[\x00-\x1f]`)
	// commas are the last ones before a closing bracket, and those before which something is missing: these stay.
	commas = text.Regexp(`(?s)"(?:[^"\\]|\\.)*"|[[{,:]\s*,|,\s*[]}]`)
)

// lenient rewrites a balanced value so that slips which have exactly one reading become JSON: trailing commas,
// comments, other languages' words for true, false and null, single-quoted strings, raw line breaks and tabs inside of
// strings, escapes that JSON does not know, typographic blanks and full-width colons and commas outside of strings.
// Everything else is left as it is, for the decoder to refuse. Valid JSON keeps its meaning.
func lenient(src []byte) []byte {
	value := slip().ReplaceAllFunc(src, func(found []byte) []byte {
		switch string(found) {
		case "True", "TRUE", "False", "FALSE":
			return bytes.ToLower(found)
		case "None", "NULL":
			return []byte("null")
		case "：":
			return []byte(":")
		case "，", "、":
			return []byte(",")
		}
		if quote := found[0]; quote != '"' && quote != '\'' { // a blank or a comment
			return []byte(" ")
		}
		return fmt.Appendf(nil, `"%s"`, inString().ReplaceAllFunc(found[1:len(found)-1], mendInString))
	})
	return commas().ReplaceAllFunc(value, func(found []byte) []byte {
		if last := found[len(found)-1]; last == ']' || last == '}' {
			return []byte{last}
		}
		return found
	})
}

func mendInString(found []byte) []byte {
	switch {
	case found[0] < ' ':
		return fmt.Appendf(nil, `\u%04x`, found[0])
	case string(found) == `"`: // only possible inside of single quotes
		return []byte(`\"`)
	case string(found) == `\`: // \d, \_ or C:\Users: nothing but a literal backslash can be meant
		return []byte(`\\`)
	case string(found) == `\'`: // an escape in Python only
		return []byte(`'`)
	}
	return found
}
