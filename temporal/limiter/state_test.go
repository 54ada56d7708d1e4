package limiter

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// In any order of steps: no grant exceeds the cap or is made twice, grants are first come, first served within a
// boulder, and no waiting boulder is passed over twice by the same other one.
func TestGrants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := State{Cap: 2}
		last := map[string]int{}              // number of the last granted permit, by boulder
		passed := map[string]map[string]int{} // grants to others while a boulder waits
		waits := func(boulder string) bool {
			return slices.ContainsFunc(s.Waiting, func(line []Permit) bool { return line[0].Boulder == boulder })
		}
		boulders := []string{"a", "b", "c"}
		asked := map[string]int{}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			b := rapid.SampledFrom(boulders).Draw(t, "boulder")
			switch rapid.SampledFrom([]string{"ask", "ask", "ask again", "give back", "grant", "grant", "cap"}).Draw(t, "step") {
			case "ask":
				asked[b]++
				s.request(Permit{Boulder: b, ID: strconv.Itoa(asked[b])})
			case "ask again":
				p := Permit{Boulder: b, ID: strconv.Itoa(rapid.IntRange(last[b], asked[b]).Draw(t, "asked before"))}
				waits := slices.ContainsFunc(s.Waiting, func(line []Permit) bool { return slices.Contains(line, p) })
				before := len(slices.Concat(s.Waiting...))
				if held := slices.Contains(s.Held, p); (held || waits) && (s.request(p) != held || len(slices.Concat(s.Waiting...)) != before) {
					t.Fatalf("%v, asked for again: %v wait", p, s.Waiting)
				}
			case "give back":
				if len(s.Held) > 0 {
					s.drop(rapid.SampledFrom(s.Held).Draw(t, "held"))
				}
			case "cap":
				s.Cap = rapid.IntRange(0, 4).Draw(t, "n")
			case "grant":
				before := len(s.Held)
				p, ok := s.grant()
				if !ok {
					if before < s.Cap && len(s.Waiting) > 0 {
						t.Fatalf("%v waits, with %d of %d held", s.Waiting, before, s.Cap)
					}
					continue
				}
				if len(s.Held) != before+1 || len(s.Held) > s.Cap {
					t.Fatalf("%d held before, %d after, of %d", before, len(s.Held), s.Cap)
				}
				if n, _ := strconv.Atoi(p.ID); n != last[p.Boulder]+1 {
					t.Fatalf("%s gets %s after %d", p.Boulder, p.ID, last[p.Boulder])
				}
				last[p.Boulder]++
				delete(passed, p.Boulder)
				for _, other := range boulders {
					if other == p.Boulder || !waits(other) {
						continue
					}
					if passed[other] == nil {
						passed[other] = map[string]int{}
					}
					if passed[other][p.Boulder]++; passed[other][p.Boulder] > 1 {
						t.Fatalf("%s waits, and %s gets a second one", other, p.Boulder)
					}
				}
			}
		}
	})
}
