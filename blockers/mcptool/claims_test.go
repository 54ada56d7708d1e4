package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

func callOf(session, call, input string) boulder.BlockerCall {
	return boulder.BlockerCall{
		BlockerScope: boulder.BlockerScope{SessionID: session}, CallID: call, Input: json.RawMessage(input),
	}
}

func (s *Server) claimed(ctx context.Context, input string) (session string, ok bool) {
	scope, ok := s.claim(ctx, &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Arguments: json.RawMessage(input)}})
	return scope.SessionID, ok
}

// Whatever the order of arrivals and announcements, and however often a session announces a call: each arrival gets a
// session that made that call, and each call of a session is claimed once.
func TestEachCallIsClaimedOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type half struct {
			arrives bool
			call    boulder.BlockerCall
		}
		made := map[string]int{} // number of calls by session and input
		var halves []half
		for i := range rapid.IntRange(1, 12).Draw(t, "calls") {
			call := callOf( // the same CallID with another input, or in another session, is another call
				rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "session"), fmt.Sprintf("call_%d", i/2),
				[]string{`{"q":1}`, `{"q":2}`}[i%2],
			)
			made[call.SessionID+string(call.Input)]++
			halves = append(halves, half{true, call})
			for range rapid.IntRange(1, 3).Draw(t, "times") {
				halves = append(halves, half{false, call})
			}
		}
		s := New(Config{})
		s.patience = time.Hour
		results, arrived := make(chan string, len(halves)), 0
		for _, h := range rapid.Permutation(halves).Draw(t, "order") {
			if !h.arrives {
				s.Called(h.call)
				continue
			}
			arrived++
			go func() {
				session, _ := s.claimed(context.Background(), string(h.call.Input))
				results <- session + string(h.call.Input)
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
		if len(s.unclaimed) != 0 {
			t.Fatalf("left over: %v", s.unclaimed)
		}
	})
}

// A call without an announced session is given up, and a late announcement is left for the next call. An announced call
// that never arrives, such as an aborted one, expires: a later equal call must not get its session.
func TestWhatWaitsTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		if session, ok := s.claimed(t.Context(), `{"q":1}`); ok {
			t.Fatalf("claimed for %v", session)
		}
		s.Called(callOf("late", "call_0", `{"q":1}`))
		if session, ok := s.claimed(t.Context(), `{"q":1}`); !ok || session != "late" {
			t.Errorf("the next call got %v, %v", session, ok)
		}
		s.Called(callOf("aborted", "call_0", `{"q":1}`))
		<-time.After(keepCall + 1)
		s.Called(callOf("alive", "call_0", `{"q":1}`))
		if session, ok := s.claimed(t.Context(), `{"q":1}`); !ok || session != "alive" {
			t.Errorf("claimed for %v, %v", session, ok)
		}
	})
}

// A repeat is known as long as it may come; a server that lives for weeks does not remember every call.
func TestWhatIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		s.Called(callOf("s1", "call_0", `{"q":1}`))
		for range 2 {
			<-time.After(keepKnown)
			s.Called(callOf("s1", "call_0", `{"q":1}`))
		}
		if n := len(s.unclaimed); n != 1 {
			t.Errorf("%d announcements of one call", n)
		}
		<-time.After(keepKnown + 1)
		s.Called(callOf("s2", "call_0", `{"q":1}`))
		if n := len(s.known); n != 1 {
			t.Errorf("%d calls are known", n)
		}
	})
}

// Inputs are the same if and only if they are equal as JSON.
func TestCanonical(t *testing.T) {
	t.Parallel()
	var seen []string
	for _, same := range [][]string{
		{`{"a":1,"b":[1.5,"x"]}`, ` { "b" : [1.50,"\u0078"], "a" : 1.0e0 } `},
		{`{}`, ``, ` `},
		{`{"a":"<ü>"}`, `{"a":"\u003c\u00fc\u003e"}`},
		{`{"a":12345678901234567890}`, `{"a":12345678901234567000}`}, // JavaScript cannot tell them apart
		{`{"a":1}`}, {`{"a":"1"}`}, {`{"a":null}`}, {`{"a":[1]}`}, {`{"a":1,"b":[1.5,"x",1]}`}, {`{"a":true}`},
	} {
		first, _ := canonical(json.RawMessage(same[0]))
		for _, input := range same {
			if got, err := canonical(json.RawMessage(input)); got != first || err != nil {
				t.Errorf("%s and %s differ, %v", same[0], input, err)
			}
		}
		if slices.Contains(seen, first) {
			t.Errorf("%s is like another", same[0])
		}
		seen = append(seen, first)
	}
	if _, err := canonical(json.RawMessage(`{"a":`)); err == nil {
		t.Error("half an object is taken")
	}
}
