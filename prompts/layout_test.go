package prompts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

// TestFitsAsShared: where there is room for everything, looking for it section by section gives the same brief.
func TestFitsAsShared(t *testing.T) {
	t.Parallel()
	words := rapid.StringOfN(rapid.RuneFrom([]rune("ab é🪨\n")), 0, 300, -1)
	rapid.Check(t, func(t *rapid.T) {
		b := builder{dir: "/runs/b", in: Input{SubTask: boulder.SubTask{ID: "me"}}}
		b.limits.Dependency = rapid.IntRange(0, 400).Draw(t, "each")
		b.limits.Dependencies = rapid.IntRange(0, 800).Draw(t, "dependencies")
		for range rapid.IntRange(0, 3).Draw(t, "results") {
			b.in.Dependencies = append(b.in.Dependencies, &boulder.SubTask{ID: "dep", Output: words.Draw(t, "output")})
		}
		layoutOf := func(results, request, facts *section) layout {
			return layout{
				sections: []*section{{text: "opening"}, request, results, facts}, urgency: []*section{results, request, facts},
			}
		}
		request, facts := words.Draw(t, "request"), words.Draw(t, "facts")
		limit := rapid.IntRange(0, 400).Draw(t, "limit")
		all := func() layout {
			return layoutOf(b.results(), b.passage("R", request, limit, "", "r.md"), b.passage("", facts, limit, "", "f.md"))
		}
		total := rapid.IntRange(0, 2000).Draw(t, "total")
		if !all().fits(total) {
			return
		}
		shared := all()
		shared.share(total)
		if diff := cmp.Diff(shared.text(), all().write(total)); diff != "" {
			t.Fatal(diff)
		}
	})
}
