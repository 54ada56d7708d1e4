package opencode_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

func rawEvent(directory, eventType, properties string) string {
	return `data: {"directory":"` + directory + `","payload":{"id":"evt_1","type":"` + eventType + `","properties":` +
		properties + "}}\n\n"
}

func compacted(directory, session string) string {
	return rawEvent(directory, "session.compacted", `{"sessionID":"`+session+`"}`)
}

func TestFilters(t *testing.T) {
	t.Parallel()
	begin := make(chan struct{})
	fake := newFake(t, map[string]http.HandlerFunc{
		"GET /global/event": streamFrom(begin,
			compacted("/a", "root"), compacted("/a", "late"), compacted("/a", "other"), compacted("/b", "foreign"),
			rawEvent("/a", "session.created", `{"info":{"id":"child","parentID":"root"}}`), compacted("/a", "child"),
			// The creation of this one was missed; any later news of it will do.
			rawEvent("/a", "session.updated", `{"info":{"id":"grandchild","parentID":"child"}}`),
			compacted("/a", "grandchild"),
			rawEvent("/a", "question.replied", `{"requestID":"/a/x"}`), rawEvent("/b", "question.replied", `{"requestID":"/b/x"}`),
			rawEvent("global", "end", `{}`),
		),
	})
	client := attach(t, fake.URL, opencode.AttachConfig{})
	t.Cleanup(client.Close)
	tests := []struct {
		filter opencode.Filter
		want   []string // "session" of compactions, or the question
	}{
		{opencode.Filter{}, []string{"root", "late", "other", "foreign", "child", "grandchild", "/a/x", "/b/x"}},
		{opencode.Filter{Directory: "/a"}, []string{"root", "late", "other", "child", "grandchild", "/a/x"}},
		{
			opencode.Filter{Directory: "/a", Sessions: []string{"root"}},
			[]string{"root", "late", "child", "grandchild", "/a/x"},
		},
		{opencode.Filter{Sessions: []string{"foreign"}}, []string{"late", "foreign", "/a/x", "/b/x"}},
	}
	var subs []*opencode.Subscription
	for _, test := range tests {
		sub := client.Subscribe(test.filter)
		sub.Follow("late")
		subs = append(subs, sub)
		await(waiting(t), t, sub, is[opencode.Resync])
	}
	close(begin)
	for i, test := range tests {
		var got []string
		for _, e := range await(waiting(t), t, subs[i], is[opencode.Unknown]) {
			switch p := e.Payload.(type) {
			case opencode.SessionCompacted:
				got = append(got, e.SessionID)
			case opencode.QuestionClosed:
				got = append(got, p.RequestID)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %v, want %v", test.filter, got, test.want)
		}
	}
}
