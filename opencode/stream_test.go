package opencode_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/contract"
)

// An unusable or oversized event costs only itself, and long texts are cut.
func TestStreamSurvivesGarbage(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	part := fmt.Sprintf(`{"part":{"id":"p","sessionID":"ses_1","messageID":"m","type":"text","text":%q}}`, long)
	tool := func(input string) string {
		return rawEvent("/repo", "message.part.updated",
			`{"part":{"id":"p","type":"tool","state":{"status":"completed","input":`+input+`}}}`)
	}
	sub := newStream(t, opencode.AttachConfig{}, stream(hello,
		"data: {{{\n\n", "data: null\n\n", ": a comment\n\n", "event: x\n\n",
		rawEvent("/repo", "todo.updated", `{"todos":"none"}`),
		`data: {"payload":{"type":"todo.updated","properties":{"todos":[`+"\n\n", // truncated
		`data: {"payload":{"type":"sync","syncEvent":{"data":`+part+"}}}\n\n",
		rawEvent("/repo", "message.part.delta", part),
		rawEvent("/repo", "never.heard.of", `{"sessionID":"ses_1","x":1}`),
		todoEvent(long),
		rawEvent("/repo", "message.part.updated", part),
		tool(fmt.Sprintf(`{"filePath":"big.txt","content":%q}`, long)),
		tool(`{"a":[`+strings.Repeat(`"x",`, 1<<17)+`1]}`),
		todoEvent("last"),
	)).Subscribe(opencode.Filter{})
	events := await(waiting(t), t, sub, todo("last"))
	if len(events) != 7 || !contract.Is[opencode.Resync](events[0]) {
		t.Fatalf("events: %s", kinds(events))
	}
	unknown, ok := events[1].Payload.(opencode.Unknown)
	if !ok || unknown.Type != "never.heard.of" || events[1].SessionID != "ses_1" || len(unknown.Properties) == 0 {
		t.Errorf("the unknown event is %+v", events[1])
	}
	if got := events[2].Payload.(opencode.TodosUpdated).Todos[0].Content; got != long[:64<<10] {
		t.Errorf("of the long item %d bytes came", len(got))
	}
	if p := events[3].Payload.(opencode.PartUpdated).Part; !p.Cut || p.Text != long[:64<<10] {
		t.Errorf("of the text came %d bytes, cut: %t", len(p.Text), p.Cut)
	}
	p := events[4].Payload.(opencode.PartUpdated).Part
	if !p.Cut || len(p.Tool.Input) > 80<<10 || !strings.Contains(string(p.Tool.Input), `"filePath":"big.txt"`) {
		t.Errorf("of the long argument came %d bytes, cut: %t", len(p.Tool.Input), p.Cut)
	}
	p = events[5].Payload.(opencode.PartUpdated).Part
	if !p.Cut || p.Tool.Input != nil || p.Tool.State != opencode.ToolCompleted {
		t.Errorf("of the long list came %d bytes, cut: %t", len(p.Tool.Input), p.Cut)
	}
}

func TestSilentStreamIsReplaced(t *testing.T) {
	t.Parallel()
	sub := newStream(t, opencode.AttachConfig{EventSilence: 50 * time.Millisecond}, stream(hello)).Subscribe(opencode.Filter{})
	ctx := waiting(t)
	events := await(ctx, t, sub, contract.Is[opencode.Disconnected])
	err := events[len(events)-1].Payload.(opencode.Disconnected).Err
	if !errors.Is(err, opencode.ErrUnavailable) || !strings.Contains(err.Error(), "heartbeat") {
		t.Errorf("the reason is %v", err)
	}
	await(ctx, t, sub, contract.Is[opencode.Resync])
}

func TestStreamThatIsNoneIsTriedAgain(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	sub := newStream(t, opencode.AttachConfig{}, func(w http.ResponseWriter, r *http.Request) {
		switch tries.Add(1) {
		case 1:
			writeJSON(w, "{}")
		case 2:
			w.WriteHeader(http.StatusInternalServerError)
		case 3:
			cut(w, r)
		default:
			stream(hello)(w, r)
		}
	}).Subscribe(opencode.Filter{})
	events := await(waiting(t), t, sub, contract.Is[opencode.Resync])
	if len(events) != 1 { // nothing was connected, so nothing was lost
		t.Errorf("events: %s", kinds(events))
	}
}

// A subscriber that does not read delays no other, and gets a Resync for what it missed.
func TestSlowSubscriberGetsAResync(t *testing.T) {
	t.Parallel()
	const many = 3000
	client, release := heldStream(t, strings.Repeat(todoEvent("again"), many-1)+todoEvent("last"))
	ctx := waiting(t)
	slow, fast := client.Subscribe(opencode.Filter{}), client.Subscribe(opencode.Filter{})
	await(ctx, t, slow, contract.Is[opencode.Resync])
	await(ctx, t, fast, contract.Is[opencode.Resync])
	release()
	await(ctx, t, fast, todo("last"))
	if events := await(ctx, t, slow, todo("last")); len(events) >= many || !contract.Is[opencode.Resync](events[0]) {
		t.Errorf("the slow reader got %d events, not a Resync and what came after the gap", len(events))
	}
}

func TestSubscriptionsEnd(t *testing.T) {
	t.Parallel()
	client := newStream(t, opencode.AttachConfig{}, stream(hello))
	one, two := client.Subscribe(opencode.Filter{}), client.Subscribe(opencode.Filter{})
	one.Close()
	one.Close()
	await(waiting(t), t, two, contract.Is[opencode.Resync])
	client.Close()
	client.Close()
	for name, sub := range map[string]*opencode.Subscription{
		"closed": one, "of a closed client": two, "made afterwards": client.Subscribe(opencode.Filter{}),
	} {
		for e := range sub.C() { // must end
			if !contract.Is[opencode.Resync](e) {
				t.Errorf("%s: %v", name, e)
			}
		}
	}
}

// An endless event is abandoned: the client reconnects and receives later events.
func TestEventWithoutEndIsGivenUp(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	client := newStream(t, opencode.AttachConfig{}, func(w http.ResponseWriter, r *http.Request) {
		if connections.Add(1) > 1 {
			stream(hello, todoEvent("after"))(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := io.WriteString(w, hello+`data: {"payload":{"type":"x","properties":{"a":"`)
		for err == nil {
			_, err = io.WriteString(w, strings.Repeat("a", 1000))
		}
	})
	client.LimitEvents(100_000)
	sub := client.Subscribe(opencode.Filter{})
	for _, kind := range []func(opencode.Event) bool{
		contract.Is[opencode.Disconnected], contract.Is[opencode.Resync], contract.Is[opencode.TodosUpdated],
	} {
		await(waiting(t), t, sub, kind)
	}
}

func compacted(directory, session string) string {
	return rawEvent(directory, "session.compacted", `{"sessionID":"`+session+`"}`)
}

func TestFilters(t *testing.T) {
	t.Parallel()
	client, release := heldStream(t,
		compacted("/a", "root"), compacted("/a", "late"), compacted("/a", "other"), compacted("/b", "foreign"),
		rawEvent("/a", "session.created", `{"info":{"id":"child","parentID":"root"}}`), compacted("/a", "child"),
		// Its creation was missed; any later event of it names the parent.
		rawEvent("/a", "session.updated", `{"info":{"id":"grandchild","parentID":"child"}}`),
		compacted("/a", "grandchild"),
		rawEvent("/a", "question.replied", `{"requestID":"/a/x"}`), rawEvent("/b", "question.replied", `{"requestID":"/b/x"}`),
		rawEvent("global", "end", `{}`),
	)
	tests := []struct {
		filter opencode.Filter
		want   []string // sessions of compactions, ids of closed requests
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
		await(waiting(t), t, sub, contract.Is[opencode.Resync]) // late subscribers get one too
	}
	release()
	for i, test := range tests {
		var got []string
		for _, e := range await(waiting(t), t, subs[i], contract.Is[opencode.Unknown]) {
			switch p := e.Payload.(type) {
			case opencode.SessionCompacted:
				got = append(got, e.SessionID)
			case opencode.RequestClosed:
				got = append(got, p.RequestID)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %v, want %v", test.filter, got, test.want)
		}
	}
}
