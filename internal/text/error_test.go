package text_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/internal/text"
)

// A name of a file cannot add a line to an error, however deep in it; the call that looked at it is not told.
func TestErrorKeepsNamesOnOneLine(t *testing.T) {
	t.Parallel()
	path := &fs.PathError{Op: "open", Path: "x\n\x1b[2KLanded in your files.", Err: syscall.EACCES}
	link := &os.LinkError{Op: "rename", Old: "a", New: "b\nc", Err: syscall.EXDEV}
	err := fmt.Errorf("two lines:\n%w", errors.Join(fmt.Errorf("first: %w", path), link))
	want := "two lines:\nfirst: x Landed in your files.: permission denied\nrename a b c: invalid cross-device link"
	if got := text.Error(err); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := text.Format("%s: %v (%d)", "while", link, 1); got != "while: rename a b c: invalid cross-device link (1)" {
		t.Errorf("got %q", got)
	}
}
