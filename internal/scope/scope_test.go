package scope

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOverlap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		one, other string
		want       bool
	}{
		{"src/a.go", "src/a.go", true}, {"src/a.go", "SRC/A.go", true}, {"src/a.go", "src/b.go", false},
		{"src/**", "src/theme/dark.css", true}, {"src/**", "docs/**", false}, {"**", "x.go", true},
		{"**/go.sum", "tools/go.sum", true}, {"**/go.sum", "go.sum", true}, {"**/*_test.go", "src/a.go", false},
		{"src/*.go", "src/theme/a.go", false}, {"src/*.go", "src/a*", true}, {"a*b", "*ba", false}, {"a?c", "abc", true},
		{"src/", "src/a.go", true}, {"src", "src/a.go", true}, {"./src/", "src/a.go", true}, {"Makefile", "Makefile", true},
		{"src/**/x.go", "**/theme/*.go", true}, {"src/**/x.go", "src/y.go", false}, {".", "a.go", true}, {"style.css", "style.css/x", false},
	} {
		for _, pair := range [][2]string{{c.one, c.other}, {c.other, c.one}} {
			a, _ := Overlap([]string{"none.x", pair[0]}, []string{pair[1]})
			if (a != "") != c.want {
				t.Errorf("%q and %q: %q", pair[0], pair[1], a)
			}
		}
	}
}

// Overlap never misses a file that both patterns match.
func TestOverlapIsConservative(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		file := rapid.SliceOfN(rapid.StringMatching(`[ab]{1,3}`), 1, 4).Draw(t, "file")
		pattern := func(label string) string {
			var names []string
			for _, name := range file {
				switch rapid.IntRange(0, 4).Draw(t, label) {
				case 0:
					names = append(names, "**")
				case 1:
					names = append(names, "**", name)
				case 2:
					i := rapid.IntRange(0, len(name)).Draw(t, label)
					names = append(names, name[:i]+"*"+name[rapid.IntRange(i, len(name)).Draw(t, label):])
				case 3:
					names = append(names, strings.Repeat("?", len(name)))
				default:
					names = append(names, strings.ToUpper(name))
				}
			}
			return path.Join(names...)
		}
		one, other := pattern("one"), pattern("other")
		if a, _ := Overlap([]string{one}, []string{other}); a == "" {
			t.Fatalf("%q and %q have %s", one, other, path.Join(file...))
		}
	})
}

func TestOutside(t *testing.T) {
	t.Parallel()
	files := []string{"src/a.go", "SRC/b.go", "docs/x/y.md", "Makefile"}
	for patterns, want := range map[string]string{
		"": "[]", "src/**": "[docs/x/y.md Makefile]", "src docs/*.md": "[docs/x/y.md Makefile]", "docs/ Makefile/z": "[src/a.go SRC/b.go Makefile]",
		"**": "[]",
	} {
		if got := fmt.Sprint(Outside(strings.Fields(patterns), files)); got != want {
			t.Errorf("%q: %s, want %s", patterns, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for pattern, good := range map[string]bool{
		"src/**": true, "src/": true, "a?.go": true, ".": true, "": false, " ": false, "/etc": false, "../x": false, "a/../b": false,
		"a{b,c}": false, `a\b`: false, "[ab]": false,
	} {
		if err := Check(pattern); (err == nil) != good {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	if !slices.Equal(names("./src/"), []string{"src", "**"}) {
		t.Error(names("./src/"))
	}
}
