package session

import (
	"slices"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	const allowed, refused, waits = boulder.ReplyAllowed, boulder.ReplyDiverted, boulder.ReplyWaiting
	for name, test := range map[string]struct {
		asks []Ruled
		want []int
	}{
		"nothing":                      {},
		"allowed before refused":       {[]Ruled{{"s", false, refused}, {"s", false, allowed}}, []int{1, 0}},
		"the newest refusal first":     {[]Ruled{{"s", false, refused}, {"s", false, refused}}, []int{1, 0}},
		"a refusal waits":              {[]Ruled{{"s", false, refused}, {"s", false, waits}, {"s", false, allowed}}, []int{2}},
		"and for what is not decided":  {[]Ruled{{"s", false, refused}, {"s", false, ""}}, nil},
		"but not for another session":  {[]Ruled{{"s", false, refused}, {"t", false, waits}}, []int{0}},
		"nor for a question":           {[]Ruled{{"s", false, refused}, {"s", true, waits}}, []int{0}},
		"a question sweeps none away":  {[]Ruled{{"s", true, refused}, {"s", false, waits}}, []int{0}},
		"and none of another's is due": {[]Ruled{{"s", false, waits}, {"t", false, ""}}, nil},
	} {
		if got := Replies(test.asks); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
