package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

func callOf(session, call, input string) boulder.BlockerCall {
	return boulder.BlockerCall{
		BlockerScope: boulder.BlockerScope{SessionID: session}, CallID: call, Input: json.RawMessage(input),
	}
}

func mustCanonical(t interface{ Fatal(...any) }, input string) string {
	text, err := canonical(json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Whatever the order in which both halves of calls come, and however often a session shows one: each that arrives gets
// a session that made it, no call of a session is given away twice, and nobody goes without who need not.
func TestEachCallIsClaimedOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type half struct {
			arrives bool
			call    boulder.BlockerCall
		}
		made := map[string]int{} // calls by session and input
		var halves []half
		for i := range rapid.IntRange(1, 12).Draw(t, "calls") {
			call := callOf(
				rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "session"), fmt.Sprintf("call_%d", i),
				rapid.SampledFrom([]string{`{"q":1}`, `{"q":2}`}).Draw(t, "input"),
			)
			made[call.SessionID+string(call.Input)]++
			halves = append(halves, half{true, call})
			for range rapid.IntRange(1, 3).Draw(t, "times") {
				halves = append(halves, half{false, call})
			}
		}
		halves = rapid.Permutation(halves).Draw(t, "order")

		c := newClaims(func() time.Time { return time.Time{} })
		results, arrived := make(chan string, len(halves)), 0
		for _, h := range halves {
			if !h.arrives {
				c.announce(h.call)
				continue
			}
			arrived++
			go func() {
				scope, _ := c.claim(context.Background(), mustCanonical(t, string(h.call.Input)))
				results <- scope.SessionID + string(h.call.Input)
			}()
		}
		for range arrived {
			made[<-results]--
		}
		for call, n := range made {
			if n != 0 {
				t.Fatalf("%s: %d more made than claimed", call, n)
			}
		}
		if len(c.open) != 0 {
			t.Fatalf("left over: %v", c.open)
		}
	})
}

// A call whose session nobody tells is given up, and what is told later is not for it but for the next.
func TestAClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClaims(time.Now)
		input := mustCanonical(t, `{"q":1}`)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if scope, ok := c.claim(ctx, input); ok {
			t.Fatalf("claimed for %v", scope)
		}
		c.announce(callOf("late", "call_0", `{"q":1}`))
		if scope, ok := c.claim(t.Context(), input); !ok || scope.SessionID != "late" {
			t.Errorf("the next call got %v, %v", scope, ok)
		}
	})
}

// A call that never arrives, such as one that was aborted, does not lend its session to one that says the same later.
func TestAnAnnouncedCallExpires(t *testing.T) {
	t.Parallel()
	var now time.Time
	c := newClaims(func() time.Time { return now })
	c.announce(callOf("aborted", "call_0", `{"q":1}`))
	now = now.Add(keepCall + 1)
	c.announce(callOf("alive", "call_0", `{"q":1}`))
	if scope, ok := c.claim(t.Context(), mustCanonical(t, `{"q":1}`)); !ok || scope.SessionID != "alive" {
		t.Errorf("claimed for %v, %v", scope, ok)
	}
}

// A session that shows a call again after it was claimed, as sessions do, has not made another one; the same CallID
// with another input is another call.
func TestAShownCallIsOne(t *testing.T) {
	t.Parallel()
	c := newClaims(time.Now)
	for range 3 {
		c.announce(callOf("s", "call_0", `{"q":1}`))
	}
	c.announce(callOf("s", "call_0", `{"q":2}`))
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, want := range []struct {
		input string
		ok    bool
	}{{`{"q":1}`, true}, {`{"q":1}`, false}, {`{"q":2}`, true}, {`{"q":2}`, false}} {
		if _, ok := c.claim(done, mustCanonical(t, want.input)); ok != want.ok {
			t.Errorf("claiming %s: %v", want.input, ok)
		}
	}
}

// Inputs are the same if they are equal as JSON, and only then.
func TestCanonical(t *testing.T) {
	t.Parallel()
	same := [][]string{
		{`{"a":1,"b":[1.5,"x"]}`, ` { "b" : [1.50,"\u0078"], "a" : 1.0e0 } `},
		{`{}`, ``, ` `},
		{`{"a":"<ü>"}`, `{"a":"\u003c\u00fc\u003e"}`},
		{`{"a":12345678901234567890}`, `{"a":12345678901234567000}`}, // JavaScript cannot tell them apart
	}
	var seen []string
	for _, inputs := range same {
		first := mustCanonical(t, inputs[0])
		for _, input := range inputs[1:] {
			if mustCanonical(t, input) != first {
				t.Errorf("%s and %s differ", inputs[0], input)
			}
		}
		if slices.Contains(seen, first) {
			t.Errorf("%s is like another", inputs[0])
		}
		seen = append(seen, first)
	}
	for _, other := range []string{
		`{"a":1}`, `{"a":"1"}`, `{"a":null}`, `{"a":[1]}`, `{"a":1,"b":[1.5,"x",1]}`, `{"a":true}`,
	} {
		d := mustCanonical(t, other)
		if slices.Contains(seen, d) {
			t.Errorf("%s is like another", other)
		}
		seen = append(seen, d)
	}
	if _, err := canonical(json.RawMessage(`{"a":`)); err == nil {
		t.Error("half an object is taken")
	}
}
