package workspace_test

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// Equal hashes are equal changes: of text, of binary files, of what is past the cut, and of nobody else's files.
func TestHash(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	long := strings.Repeat("a line of some length\n", 2000)
	r.write("text", "one\n")
	r.write("long", long)
	r.commit()
	w := r.open("")
	from := snapshot(t, w)
	diff := func(own func(string) bool, change func()) boulder.Diff {
		t.Helper()
		change()
		d, err := w.Diff(t.Context(), from, snapshot(t, w), own)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	seen := map[string]string{}
	for _, test := range []struct{ name, path, content string }{
		{"text", "text", "two\n"},
		{"other text", "text", "three\n"},
		{"binary", "bin", "\x00\x01"},
		{"other binary of the same size", "bin", "\x00\x02"},
		{"long", "long", strings.ReplaceAll(long, "a", "b") + "end"},
		{"long, and different past the cut", "long", strings.ReplaceAll(long, "a", "b") + "END"},
	} {
		d := diff(nil, func() { r.write(test.path, test.content) })
		if before, ok := seen[d.Hash]; ok || len(d.Hash) != 64 {
			t.Errorf("%s has the hash %q, like %q", test.name, d.Hash, before)
		}
		seen[d.Hash] = test.name
	}
	again := diff(nil, func() {})
	if seen[again.Hash] != "long, and different past the cut" {
		t.Errorf("the same change has another hash: %q", again.Hash)
	}
	notBin := func(path string) bool { return path != "bin" }
	mine := diff(notBin, func() {})
	if theirs := diff(notBin, func() { r.write("bin", "\x00\x03") }); mine.Hash != theirs.Hash || mine.Hash == again.Hash {
		t.Errorf("somebody else's file counts: %q, %q, all: %q", mine.Hash, theirs.Hash, again.Hash)
	}
	if none := diff(func(string) bool { return false }, func() {}); none.Hash != "" || len(none.Files) == 0 {
		t.Errorf("nothing is its own, but the hash is %q of %v", none.Hash, none.Files)
	}
}
