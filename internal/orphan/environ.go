package orphan

import "bytes"

// others stands for the mark of a process that is another user's: it is nobody's to end. No real mark looks like it.
const others = "-"

// markOf finds the value of a variable in an environment as the kernel keeps it: "NAME=value" entries that end with
// a zero byte. The first entry of a name counts, as for getenv(3).
func markOf(environ []byte, name string) string {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}
