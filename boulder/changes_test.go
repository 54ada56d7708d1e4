package boulder

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestList: a list keeps the first of equal items, in order, however many there are.
func TestList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var got list[int]
		var want []int
		for range rapid.IntRange(0, 4*few).Draw(t, "items") {
			x := rapid.IntRange(0, 2*few).Draw(t, "item")
			got.add(x)
			if !slices.Contains(want, x) {
				want = append(want, x)
			}
		}
		if !slices.Equal(got.items, want) {
			t.Fatalf("%v became %v", want, got.items)
		}
	})
}
