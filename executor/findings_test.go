package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

// TestFindings: places are checked, nothing outside of the project is looked at, and a question has only so many findings.
func TestFindings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.go": "one\ntwo\nthree", "empty": "", "src/b.go": "one\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]string{
		`{"statement":"x","file":"a.go","line":3}`:                        "x (a.go:3)",
		`{"statement":"x","file":"` + dir + `/a.go","line":"1-3"}`:        "x (a.go:1)",
		`{"statement":"x\n## y","file":"./src/../a.go","sure":"Certain"}`: "x ## y (a.go, certain)",
		`{"statement":"x","file":"src"}`:                                  "x (src)",
		`{"statement":"x","line":7,"command":"git log","sure":"quite"}`:   "x (`git log`)",
		`{"statement":"x","file":"a.go","line":4}`:                        "- x: a.go has no line 4",
		`{"statement":"x","file":"empty","line":1}`:                       "- x: empty has no line 1",
		`{"statement":"x","file":"gone.go"}`:                              "- x: gone.go is not in the project",
		`{"statement":"x","file":"../../etc/passwd"}`:                     "- x: ../../etc/passwd is not in the project",
		`{"statement":"x","file":"link","line":1}`:                        "- x: link is not in the project",
		`{"statement":" "}`:                                               "",
	} {
		end, err := findings(dir, "Here: {\"findings\":["+said+"]}", 1, 10)
		var got []string
		for _, f := range end.Findings {
			got = append(got, f.String())
		}
		for _, r := range end.Refuted {
			got = append(got, "- "+r)
		}
		if err != nil || strings.Join(got, "\n") != want {
			t.Errorf("%s: %v\n%q", said, err, got)
		}
	}
	for _, said := range []string{"no", `{"finding":[]}`, `{"findings":"none"}`} {
		if end, err := findings(dir, said, 1, 10); err == nil {
			t.Errorf("%s: %+v", said, end)
		}
	}

	var all []string
	for i := range 12 {
		all = append(all, fmt.Sprintf(`{"question":%d,"statement":"s%d"}`, i%3, i))
	}
	end, err := findings(dir, `{"findings":[`+strings.Join(all, ",")+`]}`, 2, 2)
	want := []boulder.Finding{{ID: "f1", Statement: "s0"}, {ID: "f2", Statement: "s1"}, {ID: "f3", Statement: "s2"}, {ID: "f4", Statement: "s5"}}
	if diff := gocmp.Diff(want, end.Findings); diff != "" || err != nil {
		t.Errorf("two of each question, %v (-want +got):\n%s", err, diff)
	}
}
