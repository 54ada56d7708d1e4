package cli

import (
	"os"
	"strings"
	"testing"
)

// The README explains the words that help explains, and no others.
func TestWordsAreThoseOfTheReadme(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(data), "The words that you meet first")
	_, list, _ = strings.Cut(list, "\n\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var want []string
	for _, w := range words {
		want = append(want, "- **"+w[0]+"**: "+w[1])
	}
	if got := strings.Split(list, "\n"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("README.md has\n%s\nand help\n%s", list, strings.Join(want, "\n"))
	}
	stdout, _ := expect(t, t.TempDir(), exitOK, []string{"help", "words"})
	for _, w := range words {
		if !strings.Contains(stdout, w[0]) || !strings.Contains(stdout, w[1]) {
			t.Errorf("help words: %s", stdout)
		}
	}
}
