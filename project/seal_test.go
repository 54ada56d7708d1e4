package project

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// A plan is about what its sub-tasks may write and what its gates and texts name; one without writes, about everything.
func TestConcerns(t *testing.T) {
	t.Parallel()
	spec := func(writes, gates string) boulder.Spec {
		return boulder.Spec{ID: "a", Description: "Follow docs/style.md.", Writes: strings.Fields(writes), Gates: []string{gates}}
	}
	for name, test := range map[string]struct {
		specs []boulder.Spec
		want  string
	}{
		"anything":             {[]boulder.Spec{spec("src/**", "true"), spec("", "true")}, "src/a.go lib/b.go test/c.sh docs/style.md go.mod"},
		"what it writes":       {[]boulder.Spec{spec("src/**", "true")}, "src/a.go docs/style.md"},
		"a directory of gates": {[]boulder.Spec{spec("x", "go test ./lib/...")}, "lib/b.go docs/style.md"},
		"a file of gates":      {[]boulder.Spec{spec("x", `sh "test/c.sh"`)}, "test/c.sh docs/style.md"},
		"the whole in gates":   {[]boulder.Spec{spec("x", "go test ./...")}, "docs/style.md"},
	} {
		got := concerns(&boulder.Plan{SubTasks: test.specs, Seal: &boulder.Seal{Base: "go.mod"}},
			[]string{"src/a.go", "lib/b.go", "test/c.sh", "docs/style.md", "go.mod"})
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
