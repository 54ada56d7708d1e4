package web

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A patch of git is shown by file, with the numbers of its lines. A name with unusual characters, a binary file, a file that ends
// without a new line and a patch that was cut are shown as what they are.
func TestPatch(t *testing.T) {
	t.Parallel()
	const of = `diff --git a/gone.txt b/gone.txt
deleted file mode 100644
index 5626abf..0000000
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
--- one
diff --git a/dir b/new.txt b/dir b/new.txt
new file mode 100644
--- /dev/null
+++ b/dir b/new.txt
@@ -0,0 +1,2 @@
+one
+++ two
\ No newline at end of file
diff --git "a/\303\244.go" "b/\303\244.go"
index 1..2 100644
--- "a/\303\244.go"
+++ "b/\303\244.go"
@@ -10,3 +10,3 @@ func main() {
 same
-old
+new
diff --git a/logo.png b/logo.png
Binary files a/logo.png and b/logo.png differ
[cut: 2 of 9 files]
`
	p, got := parsePatch(of), ""
	for _, f := range p.Files {
		got += fmt.Sprintf("%s (%s) +%d -%d %q\n", f.Path, f.How, f.Added, f.Removed, f.Note)
		for _, l := range f.Lines {
			got += fmt.Sprintf("  %s %d %d %s\n", l.Class, l.Old, l.New, l.Text)
		}
	}
	const want = `gone.txt (deleted) +0 -1 ""
  hunk 0 0 from line 1
  del 1 0 -- one
dir b/new.txt (new) +2 -0 "No newline at end of file"
  hunk 0 0 from line 1
  add 0 1 one
  add 0 2 ++ two
ä.go () +1 -1 ""
  hunk 0 0 from line 10 · func main() {
   10 10 same
  del 11 0 old
  add 0 11 new
logo.png (binary) +0 -0 "a binary file"
`
	if got != want || p.Count != 4 || p.Added != 3 || p.Removed != 2 {
		t.Errorf("%d files, +%d -%d:\n%s", p.Count, p.Added, p.Removed, got)
	}
	long := parsePatch("diff --git a/x b/x\n@@ -0,0 +1,9999 @@\n" + strings.Repeat("+x\n", 9999))
	if f := long.Files[0]; len(f.Lines) != fileLines || f.Added != 9999 || f.Note == "" || long.Cut == "" || f.Open {
		t.Errorf("%d lines of %d, %q", len(f.Lines), f.Added, f.Note)
	}
}

// No text breaks it.
func TestPatchOfAnyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"diff --git a/x b/x", "diff --git ", "@@ ", "@@ -1 +1 @@", "@@@", "+", "-", "+++ b/", "--- a/x", `\`, "",
		}))).Draw(t, "lines")
		p := parsePatch(strings.Join(lines, "\n"))
		if p.Count != len(p.Files) || (p.None == "") != (p.Count > 0) {
			t.Fatalf("%+v", p)
		}
	})
}
