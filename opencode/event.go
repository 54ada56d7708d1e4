package opencode

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/internal/text"
)

// Event is something that happened on the server, or to the connection to it.
type Event struct {
	Directory string  // where it happened; empty for events of the whole server
	SessionID string  // empty if it belongs to no session
	Payload   Payload // what happened; never nil
}

// Payload is one of the types below whose comment says "of an [Event]".
type Payload any

type (
	// Resync of an [Event]: no event is missing from here on, but earlier ones may be: read the state that you depend on.
	// It is the first event of every subscription, and follows each reconnect and each loss of events by a slow reader.
	Resync struct{ Reason string }

	// Disconnected of an [Event]: the event stream broke. The client reconnects by itself; a Resync follows then.
	Disconnected struct{ Err error }

	// SessionCreated of an [Event]. A sub-agent's session has a ParentID.
	SessionCreated struct{ Session Session }

	// SessionUpdated of an [Event]: title, cost, tokens and the like. Frequent.
	SessionUpdated struct{ Session Session }

	// SessionDeleted of an [Event].
	SessionDeleted struct{ Session Session }

	// SessionCompacted of an [Event]: the conversation was replaced by a summary.
	SessionCompacted struct{}

	// StatusChanged of an [Event]. It repeats: busy before every model call, idle once or, after [API.Abort], twice.
	StatusChanged struct{ Status Status }

	// SessionFailed of an [Event]: a turn, or its start, failed. It may come twice, then with a stack trace as message.
	SessionFailed struct{ Err *TurnError }

	// MessageUpdated of an [Event]. Several come for every message.
	MessageUpdated struct{ Message MessageInfo }

	// PartUpdated of an [Event]. Several come for every part, one for every piece of a bash call's output, but not one
	// for every token: those are dropped. Texts are cut at 64 KiB, also inside Input and Metadata, as in other events.
	// Part.Cut says so, and [API.Message] returns the whole.
	PartUpdated struct{ Part Part }

	// TodosUpdated of an [Event]: the whole list, as it is now.
	TodosUpdated struct{ Todos []Todo }

	// Asked of an [Event].
	Asked struct{ Request Request }

	// RequestClosed of an [Event]: the request was replied to or rejected.
	RequestClosed struct{ RequestID string }

	// Unknown of an [Event]: any other event, as it came.
	Unknown struct {
		Type       string
		Properties json.RawMessage
	}
)

// skipped reports whether events of a type are dropped: those that come for every token, concern only the connection,
// or repeat another event ("sync" nearly every one, "session.idle" every idle status, "file.edited" every tool that
// writes). Those from "session.text.started" on are OpenCode 2's.
func skipped(eventType string) bool {
	switch eventType {
	case "sync", "session.idle", "file.edited", "server.connected", "server.heartbeat",
		"session.text.started", "session.reasoning.started", "session.tool.input.ended",
		"session.step.streamed", "session.inbox.delivery.changed", "session.viewed":
		return true
	}
	return strings.HasSuffix(eventType, ".delta")
}

// Limits of an event, in bytes: slow subscribers hold thousands of events. [API.Message] returns whole texts.
const (
	maxEvent      = 64 << 20 // as sent
	maxEventText  = 64 << 10
	maxEventValue = 256 << 10 // of a JSON value that is passed on as is; a longer one is dropped
)

// unmarshal is json.Unmarshal, but skips fields of an unexpected type: one odd part must not hide the others.
func unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if odd, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if odd.Field != "" {
			return nil
		}
		// Not wrapped: if this value is a field of another, the outer unmarshal must not ignore the error.
		return fmt.Errorf("unexpected JSON %s", odd.Value)
	}
	return err
}

// cutText returns at most limit bytes of a text, as a copy that does not keep the rest in memory.
func cutText(s string, limit int) (kept string, cut bool) {
	if len(s) <= limit {
		return s, false
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return strings.Clone(s[:limit]), true
}

var jsonString = text.Regexp(`"(?:[^"\\]|\\.)*"`)

// cutJSON cuts the strings in a JSON value at maxEventText. It returns nil if the value is still longer than limit.
func cutJSON(value json.RawMessage, limit int) (kept json.RawMessage, cut bool) {
	if len(value) <= maxEventText {
		return value, false
	}
	kept = jsonString().ReplaceAllFunc(value, func(quoted []byte) []byte {
		var s string
		if len(quoted) <= maxEventText || json.Unmarshal(quoted, &s) != nil || len(s) <= maxEventText {
			return quoted
		}
		cut = true
		s, _ = cutText(s, maxEventText)
		quoted, _ = json.Marshal(s) // strings can always be marshalled
		return quoted
	})
	if len(kept) > limit {
		return nil, true
	}
	return kept, cut
}
