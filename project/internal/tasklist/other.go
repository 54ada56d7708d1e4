package tasklist

import (
	"bytes"

	"github.com/bouldermgr/manager/internal/text"
)

// setting matches a line of a file such as .env, also commented out.
var setting = text.Regexp(`^#?\s*(?:export\s+)?[A-Za-z_][A-Za-z0-9_.]*\s?=\s?\S*`)

// otherThan recognizes what is neither a list nor a text about work, and what may hold secrets: that is sent to no model.
func otherThan(data []byte) *Unknown {
	if bytes.Contains(data, []byte("-----BEGIN ")) && bytes.Contains(data, []byte("PRIVATE KEY-----")) {
		return &Unknown{Looks: "looks like a private key", Secret: true}
	}
	if bytes.HasPrefix(data, []byte("#!")) {
		return &Unknown{Looks: "looks like a script"}
	}
	settings, others := 0, 0
	for line := range bytes.Lines(data) {
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0:
		case setting().Match(line):
			settings++
		case line[0] != '#' && line[0] != '[' && line[0] != ';':
			others++
		}
	}
	if settings > others {
		return &Unknown{Looks: "looks like settings, as a .env file has", Secret: true}
	}
	return nil
}
