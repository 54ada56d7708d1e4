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
	Directory string  // in which it happened; empty for events of the server as a whole
	SessionID string  // of the session it happened to; empty if it belongs to none
	Payload   Payload // says what happened. Never nil.
}

// Payload is one of the types below that have "of an [Event]" in their comment.
type Payload any

type (
	// Resync of an [Event] says: from here on you are told everything, but what happened before this point may be
	// missing. Read the state that you depend on. It is the first event of every subscription and comes again after
	// each reconnect, and when the subscriber was so slow that events were dropped.
	Resync struct{ Reason string }

	// Disconnected of an [Event]: the event stream is cut. The client reconnects by itself, and a Resync follows when
	// it has.
	Disconnected struct{ Err error }

	// SessionCreated of an [Event]. A sub-agent's session has a ParentID.
	SessionCreated struct{ Session Session }

	// SessionUpdated of an [Event]: title, cost, tokens and the like; comes often.
	SessionUpdated struct{ Session Session }

	// SessionDeleted of an [Event].
	SessionDeleted struct{ Session Session }

	// SessionCompacted of an [Event]: the conversation was replaced by a summary.
	SessionCompacted struct{}

	// StatusChanged of an [Event]. The same status comes many times in a row: busy before every call of the model,
	// idle once or, after [API.Abort], twice.
	StatusChanged struct{ Status Status }

	// SessionFailed of an [Event]: a turn, or the attempt to begin one, failed. It may come twice for one failure,
	// the second time with a stack trace for message.
	SessionFailed struct{ Err *TurnError }

	// MessageUpdated of an [Event]. Comes several times for every message.
	MessageUpdated struct{ Message MessageInfo }

	// PartUpdated of an [Event]. Comes several times for every part, but not for every token: those events are
	// dropped. A bash call that prints is updated with every piece of its output.
	//
	// Texts that a model or a tool wrote are cut at 64 KiB, those inside of Input and Metadata too; Part.Cut says so,
	// and [API.Message] has the whole. Other events are cut in the same way.
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

// skipped reports whether events of a type are dropped: those that come for every token, that repeat another event
// ("sync" does so for nearly every one, "session.idle" for every idle status, "file.edited" for every tool that writes), or
// that only concern the connection; those from "session.text.started" on are of OpenCode 2.
func skipped(eventType string) bool {
	switch eventType {
	case "sync", "session.idle", "file.edited", "server.connected", "server.heartbeat",
		"session.text.started", "session.reasoning.started", "session.tool.input.ended",
		"session.step.streamed", "session.inbox.delivery.changed", "session.viewed":
		return true
	}
	return strings.HasSuffix(eventType, ".delta")
}

// What an event may be and carry, in bytes. Twenty subscribers that are behind hold some thousand events, and whoever
// needs the whole of a text asks for the message.
const (
	maxEvent      = 64 << 20 // as it is sent
	maxEventText  = 64 << 10
	maxEventValue = 256 << 10 // of a JSON value that is passed on as it is; a longer one is dropped
)

// unmarshal is json.Unmarshal, to which a field of an unexpected type is a field that is not there: one odd part must
// not make the rest of a session unreadable.
func unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if odd, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if odd.Field != "" {
			return nil
		}
		// Not wrapped: to whom it is a field, it must not pass for one that may be left out.
		return fmt.Errorf("unexpected JSON %s", odd.Value)
	}
	return err
}

// cutText keeps at most limit bytes of a text, in a copy that does not hold on to the rest.
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

// cutJSON cuts the strings in a JSON value at maxEventText. The value is nil if it is longer than limit all the same.
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
		quoted, _ = json.Marshal(s) // strings can be marshalled
		return quoted
	})
	if len(kept) > limit {
		return nil, true
	}
	return kept, cut
}
