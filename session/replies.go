package session

import (
	"slices"

	"github.com/bouldermgr/manager/boulder"
)

// Ruled is an ask with what was decided about it.
type Ruled struct {
	Session  string // that asks
	Question bool
	Reply    boulder.AskReply // empty: nothing was decided yet, or its reply is on its way
}

// Replies are the indices of the asks to reply to now, in the order in which to do it. A refused permission sweeps away
// whatever else its session asks for, without a word to the agent. So what is allowed comes first; and as long as
// something else that the session asks for may still be allowed, what it is refused waits as well: its model goes on no
// sooner than all calls of its message have ended. Of the refused the newest comes first: rejecting one left over from an
// aborted turn rejects the others with it.
func Replies(asks []Ruled) []int {
	var now, refused []int
	open := map[string]bool{}
	for i, a := range asks {
		switch {
		case a.Reply == "" || a.Reply == boulder.ReplyWaiting:
			open[a.Session] = open[a.Session] || !a.Question
		case a.Question || a.Reply == boulder.ReplyAllowed:
			now = append(now, i)
		default:
			refused = append(refused, i)
		}
	}
	for _, i := range slices.Backward(refused) {
		if !open[asks[i].Session] {
			now = append(now, i)
		}
	}
	return now
}
