package executor

import (
	"fmt"
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

func TestMarkInMessages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		messages []string
		prompt   string
		want     int
	}{
		{[]string{"answer 1", "prompt 2", "answer 2"}, "prompt 2", markFits},
		{[]string{"prompt 2", "answer 2"}, "prompt 2", markNotSeen},
		{[]string{"answer 1", "answer 2"}, "prompt 2", markNotSeen},
		{nil, "prompt 2", markNotSeen},
		{[]string{"prompt 1", "answer 1"}, "prompt 1", markFits}, // the marked turn itself, looked at again
		{[]string{"prompt 2", "answer 1", "answer 2"}, "prompt 2", markIsOff},
	} {
		var messages []opencode.Message
		for _, id := range test.messages {
			messages = append(messages, opencode.Message{Info: opencode.MessageInfo{ID: id}})
		}
		m := mark{turn: "prompt 1", last: "answer 1"}
		if got := m.in(messages, test.prompt); got != test.want {
			t.Errorf("%q, %s: got %d, want %d", test.messages, test.prompt, got, test.want)
		}
	}
}

// The newest sessions are remembered, each once, and a mark that was taken is gone.
func TestMarksAreBounded(t *testing.T) {
	t.Parallel()
	var s marks
	for i := range marksKept + 1 {
		s.put(fmt.Sprint(i), mark{last: fmt.Sprint(i)})
		s.put(fmt.Sprint(i), mark{last: fmt.Sprint(i)})
	}
	if len(s.byID) != marksKept || len(s.oldest) != marksKept {
		t.Errorf("%d marks of %d sessions", len(s.byID), len(s.oldest))
	}
	if _, ok := s.take("0"); ok {
		t.Error("the oldest is still there")
	}
	if m, ok := s.take("1"); !ok || m.last != "1" {
		t.Errorf("took %+v, %v", m, ok)
	}
	if _, ok := s.take("1"); ok {
		t.Error("it can be taken twice")
	}
}
