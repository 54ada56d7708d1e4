package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each feature of the status has a state that is explained, and all tests that it names exist.
func TestStatusNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("status.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`)
	err = filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".txtar"):
			tests["TestScripts/"+strings.TrimSuffix(d.Name(), ".txtar")] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				tests[m[1]] = true
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	intro, table, _ := strings.Cut(string(page), "\n|---|---|---|---|\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) < 3 || !strings.Contains(intro, "- **"+cells[1]+"**:") {
			t.Errorf("no state that is explained: %s", row)
			continue
		}
		named := regexp.MustCompile("`((?:Test|Example)[\\w/]*)`").FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(named) == 0 && cells[1] != "untried" {
			t.Errorf("nothing shows it: %s", row)
		}
		for _, m := range named {
			if !tests[m[1]] {
				t.Errorf("there is no %s, which %s names", m[1], cells[0])
			}
		}
	}
	if len(rows) < 20 {
		t.Errorf("there are %d features", len(rows))
	}
}
