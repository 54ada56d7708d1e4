package bisect_test

import (
	"errors"
	"fmt"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/internal/bisect"
)

// TestPrefix: what is accepted was green when it was tested last, and the next change red right after it, however single
// changes affect each other and tests flake. One red change costs as many tests as halving takes.
func TestPrefix(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 20).Draw(t, "changes")
		sure := make([]bool, n+1) // by length: whether the prefix is green
		sure[0] = true
		for k := 1; k <= n; k++ {
			sure[k] = rapid.Bool().Draw(t, fmt.Sprint("green ", k))
		}
		found, tests := map[int]bool{0: true}, 0
		accepted, err := bisect.Prefix(n, func(k int, blames bool) (bool, error) {
			if blames != found[k-1] {
				t.Fatalf("blames = %v for %d, and of the prefixes are green: %v", blames, k, found)
			}
			tests++
			found[k] = sure[k] && (blames || rapid.IntRange(0, 5).Draw(t, "flakes") > 0)
			return found[k], nil
		})
		green, tested := found[accepted+1]
		if err != nil || !found[accepted] || accepted < n && (green || !tested) {
			t.Fatalf("%d of %d: %v, %v", accepted, n, found, err)
		}
		if tests > 2*n+2 {
			t.Errorf("%d tests for %d changes", tests, n)
		}
	})
	for n := 1; n <= 64; n++ {
		for guilty := 0; guilty <= n; guilty++ { // 0: none
			tests := 0
			accepted, err := bisect.Prefix(n, func(k int, _ bool) (bool, error) {
				tests++
				return guilty == 0 || k < guilty, nil
			})
			want, most := guilty-1, 2+bits.Len(uint(n-1))
			if guilty == 0 {
				want, most = n, 1
			}
			if accepted != want || tests > most || err != nil {
				t.Errorf("%d of %d, the one to blame is %d: %d tests, %v", accepted, n, guilty, tests, err)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := bisect.Prefix(1, func(int, bool) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
