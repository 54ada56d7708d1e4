package text

import (
	"regexp"
	"sync"
)

// Regexp compiles an expression when it is first used, and panics then if it is invalid. Packages have dozens, and
// compiling them took a fifth of the time of a command that uses none, such as `manager status`.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
