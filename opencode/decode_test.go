package opencode

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// decodeEvent returns the zero Event for a dropped one.
func decodeEvent(data string) (Event, error) {
	events, err := readEvent([]byte(data))
	return append(events, Event{})[0], err
}

func TestDecodeEvent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, data string
		want       Event
	}{
		{
			"status", `{"directory":"/r","payload":{"id":"evt_1","type":"session.status","properties":{"sessionID":"s",` +
				`"status":{"type":"retry","attempt":2,"message":"overloaded","next":1000}}}}`,
			Event{"/r", "s", StatusChanged{Status{Retry, 2, "overloaded", time.UnixMilli(1000)}}},
		},
		{
			"no directory", `{"directory":"global","payload":{"type":"new","properties":{}}}`,
			Event{"", "", Unknown{"new", json.RawMessage(`{}`)}},
		},
		{
			"error", `{"payload":{"type":"session.error","properties":{"sessionID":"s","error":{"name":"APIError","data":` +
				`{"message":"slow down","statusCode":429,"isRetryable":true,"responseHeaders":{"retry-after":"7"}}}}}}`,
			Event{"", "s", SessionFailed{&TurnError{
				Name: APIError, Message: "slow down", StatusCode: 429, Retryable: true, RetryAfter: 7 * time.Second,
			}}},
		},
		{
			"error without reason", `{"payload":{"type":"session.error","properties":{}}}`,
			Event{"", "", SessionFailed{&TurnError{Name: UnknownError, Message: "no reason given"}}},
		},
		{
			"compaction", `{"payload":{"type":"session.compacted","properties":{"sessionID":"s"}}}`,
			Event{"", "s", SessionCompacted{}},
		},
		{
			"reply", `{"payload":{"type":"permission.replied","properties":{"sessionID":"s","requestID":"p","reply":"reject"}}}`,
			Event{"", "s", RequestClosed{"p"}},
		},
		{
			"rejected question", `{"payload":{"type":"question.rejected","properties":{"sessionID":"s","requestID":"q"}}}`,
			Event{"", "s", RequestClosed{"q"}},
		},
		{
			"deleted session", `{"payload":{"type":"session.deleted","properties":{"info":{"id":"s"}}}}`,
			Event{"", "s", SessionDeleted{Session{ID: "s"}}},
		},
		{
			"type last", `{"payload":{"properties":{"sessionID":"s","x":"\"type\":\"sync\""},"type":"new"}}`,
			Event{"", "s", Unknown{"new", json.RawMessage(`{"sessionID":"s","x":"\"type\":\"sync\""}`)}},
		},
	}
	for _, test := range tests {
		got, err := decodeEvent(test.data)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
	}
}

func TestDecodeEventSkips(t *testing.T) {
	t.Parallel()
	for _, eventType := range []string{
		"message.part.delta", "sync", "session.idle", "file.edited", "server.heartbeat", "server.connected",
		"session.next.text.delta",
	} {
		for _, properties := range []string{`,"properties":{}`, ""} {
			if event, err := decodeEvent(`{"payload":{"type":"` + eventType + `"` + properties + `}}`); event.Payload != nil || err != nil {
				t.Errorf("%s became %+v, %v", eventType, event, err)
			}
		}
	}
}

// Every input is dropped, or gives an error or an event with a payload.
func FuzzDecodeEvent(f *testing.F) {
	for _, seed := range []string{
		`{"payload":{"id":"evt_1","type":"sync","properties":{}}}`,
		`{"directory":"/r","payload":{"type":"message.part.updated","properties":{"part":{"type":"tool","state":{}}}}}`,
		`{"payload":{"type":"message.updated","properties":{"info":{"role":"user","summary":{"diffs":[]}}}}}`,
		`{"payload":{"type":"session.created","properties":{"info":{"id":"s","time":{"created":1e300}}}}}`,
		`{"payload":{"type":"permission.asked","properties":null}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		var in struct{ Payload struct{ Type string } }
		_ = unmarshal([]byte(data), &in)
		event, err := decodeEvent(data)
		dropped := skipped(in.Payload.Type) || strings.HasPrefix(in.Payload.Type, "session.next.")
		if wanted := err == nil && !dropped; wanted != (event.Payload != nil) {
			t.Fatalf("%+v, %v", event, err)
		}
	})
}

// newV2Reader decodes OpenCode 2 events with no server to ask for what they omit.
func newV2Reader(t testing.TB) func(data []byte) ([]Event, error) {
	t.Helper()
	c, err := newClient("http://127.0.0.1:1", AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	_, read := v2{Client: c, v2memory: &v2memory{}}.events()
	return read
}

// A skipped sequence number is a gap: a Resync comes first.
func TestGapIsProven(t *testing.T) {
	t.Parallel()
	read := newV2Reader(t)
	for i, seq := range []int{4, 5, 7, 8} {
		events, err := read(fmt.Appendf(nil, `{"type":"session.renamed","durable":{"seq":%d},"data":{"sessionID":"s"}}`, seq))
		_, first := events[0].Payload.(Resync)
		if err != nil || first != (i == 2) || len(events) != 1+i/2*(3-i) {
			t.Errorf("number %d: %+v, %v", seq, events, err)
		}
	}
}

// A part with cut texts says so, also in later events of the same call.
func TestPartsOfOpenCode2AreCut(t *testing.T) {
	t.Parallel()
	read := newV2Reader(t)
	const about = `"sessionID":"s","assistantMessageID":"m","id":"c"`
	long := strings.Repeat("x", 70<<10)
	for _, event := range []string{
		`{"type":"session.tool.called","data":{` + about + `,"name":"write","input":{"content":"` + long + `"}}}`,
		`{"type":"session.tool.success","data":{` + about + `}}`,
		`{"type":"session.text.ended","data":{"sessionID":"s","assistantMessageID":"m","text":"` + long + `"}}`,
	} {
		events, err := read([]byte(event))
		if err != nil || len(events) != 1 {
			t.Fatalf("%+v, %v", events, err)
		}
		p := events[0].Payload.(PartUpdated).Part
		size := len(p.Text)
		if p.Tool != nil {
			size = len(p.Tool.Input)
		}
		if !p.Cut || size < 64<<10 || size > 65<<10 {
			t.Errorf("%.30s: %d bytes, cut: %t", event, size, p.Cut)
		}
	}
}

func TestErrorsOfOpenCode2(t *testing.T) {
	t.Parallel()
	for wire, want := range map[string]TurnError{
		`{"type":"aborted","message":"x"}`:                       {Name: MessageAborted, Message: "x"},
		`{"type":"provider.auth","message":"x","status":403}`:    {Name: APIError, Message: "x", StatusCode: 403},
		`{"type":"provider.quota","message":"x"}`:                {Name: APIError, Message: "x", StatusCode: 402},
		`{"type":"provider.rate-limit","message":"x"}`:           {Name: APIError, Message: "x", StatusCode: 429, Retryable: true},
		`{"type":"provider.transport","message":"x"}`:            {Name: APIError, Message: "x", Retryable: true},
		`{"type":"provider.context-overflow","message":"x"}`:     {Name: ContextOverflow, Message: "x"},
		`{"type":"provider.no-route","message":"a/b"}`:           {Name: UnknownError, Message: modelNotFound + "a/b"},
		`{"type":"unknown","message":"the agent was not found"}`: {Name: UnknownError, Message: agentNotFound + "the agent was not found"},
		`{"type":"unknown","message":"Agent not found: x"}`:      {Name: UnknownError, Message: "Agent not found: x"},
		`{"type":"something new","message":"x"}`:                 {Name: UnknownError, Message: "x"},
	} {
		var in v2error
		if err := json.Unmarshal([]byte(wire), &in); err != nil {
			t.Fatal(err)
		}
		if got := *in.toV1(); got != want {
			t.Errorf("%s: %+v", wire, got)
		}
	}
}

// Every event has a payload, and an error comes without events.
func FuzzDecodeEventOfOpenCode2(f *testing.F) {
	for _, seed := range []string{
		`{"type":"session.created","durable":{"seq":1},"location":{"directory":"/r"},"data":{"sessionID":"s","parentID":"p"}}`,
		`{"type":"session.inbox.delivered","data":{"sessionID":"s","inboxID":"m"}}`,
		`{"type":"session.tool.success","data":{"sessionID":"s","assistantMessageID":"m","id":"c","content":[{"type":"text","text":"x"}]}}`,
		`{"type":"session.tool.called","data":{"sessionID":"s","id":"c","name":"edit","input":{"path":[]}}}`,
		`{"type":"session.step.failed","data":{"sessionID":"s","assistantMessageID":"m","error":{"type":7}}}`,
		`{"type":"form.created","data":{"form":{"id":"f","metadata":{"kind":"question"},"fields":[{}]}}}`,
		`{"type":"permission.asked","data":{"id":"p","sessionID":"s","source":null}}`,
		`{"type":"never.heard.of","data":null}`,
	} {
		f.Add(seed)
	}
	read := newV2Reader(f)
	f.Fuzz(func(t *testing.T, data string) {
		events, err := read([]byte(data))
		for _, e := range events {
			if err != nil || e.Payload == nil {
				t.Fatalf("%+v, %v", e, err)
			}
		}
	})
}

func TestPartsOfUnexpectedShapeAreKept(t *testing.T) {
	t.Parallel()
	var message Message
	err := json.Unmarshal([]byte(`{"info":{"id":"m","role":"assistant","summary":true,
		"tokens":{"input":1,"cache":{"read":2,"write":3}}},"parts":[
		{"id":"1","type":"hologram","text":{"deep":true}},
		{"id":"2","type":"text","text":7},
		{"id":"3","type":"tool","state":[]},
		{"id":"4","type":"text","text":"still here"},
		{"id":"5","type":"text","text":"by a program","synthetic":true},
		{"id":"6","type":"step-finish","snapshot":"4b825d","cost":0.5}
	]}`), &message)
	if err != nil {
		t.Fatal(err)
	}
	if len(message.Parts) != 6 || message.Text() != "still here" || !message.Info.Compacted {
		t.Errorf("read as %+v", message)
	}
	if got := message.Parts[0]; got.Type != "hologram" || got.ID != "1" {
		t.Errorf("the unknown part is %+v", got)
	}
	if got := message.Parts[5].Snapshot; got != "4b825d" {
		t.Errorf("the snapshot is %q", got)
	}
	if got, want := message.Info.Tokens, (Tokens{Input: 1, CacheRead: 2, CacheWrite: 3}); got != want {
		t.Errorf("the tokens are %+v", got)
	}
}

// What is made of usage (budgets, rules about short turns) need not expect counts that no call can have.
func TestImpossibleTokensDoNotCount(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`{"input":-5,"output":-1000000,"reasoning":7,"cache":{"read":-1,"write":-1}}`,
		`{"input":9223372036854775808,"output":1e300,"reasoning":7,"cache":{"read":1e13,"write":-1e300}}`,
	} {
		var got Tokens
		if err := json.Unmarshal([]byte(data), &got); err != nil || got != (Tokens{Reasoning: 7}) {
			t.Errorf("%s: %+v, %v", data, got, err)
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	format := regexp.MustCompile(`^msg_[0-9a-f]{12}[0-9A-Za-z]{14}$`)
	start := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC) // the 48 bits wrapped before, and wrap again long after
	rapid.Check(t, func(t *rapid.T) {
		at := start.Add(time.Duration(rapid.Int64Range(0, int64(365*24*time.Hour)).Draw(t, "at")))
		later := at.Add(time.Duration(rapid.Int64Range(int64(time.Microsecond), int64(time.Hour)).Draw(t, "later")))
		a, b := NewMessageID(at), NewMessageID(later)
		if !format.MatchString(a) || a >= b {
			t.Fatalf("%s at %v, %s at %v", a, at, b, later)
		}
	})
}

// OpenCode 1.18.33 gave this id to the message of a prompt that arrived at 1795251568469 (seen).
func TestMessageIDIsOpenCodes(t *testing.T) {
	t.Parallel()
	got := NewMessageID(time.UnixMilli(1795251568469))
	if want := "msg_1fd54ff55000"; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s and 14 characters", got, want)
	}
}
