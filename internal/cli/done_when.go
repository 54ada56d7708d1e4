package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bouldermgr/manager/boulder"
)

// doneFlag is --done-when: `todos,tests`; repeatable.
type doneFlag []string

var _ pflag.Value = (*doneFlag)(nil)

func (f *doneFlag) String() string { return "" }

// Type is what the flag's help calls a value.
func (f *doneFlag) Type() string { return "CRITERIA" }

// Set takes one value of the flag.
func (f *doneFlag) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if !boulder.IsDoneWord(word) {
			return fmt.Errorf("there is no criterion %q: use %s", word, strings.Join(boulder.DoneWords(), ", "))
		}
		if !slices.Contains(*f, word) {
			*f = append(*f, word)
		}
	}
	return nil
}

// doneUsage is the flag's help, up to what counts without it.
const doneUsage = "`CRITERIA` by which a sub-task that names none is done: todos, diagnostics, tests, promise, judge"
