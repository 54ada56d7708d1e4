package opencode

import "encoding/json"

// Event is something that happened on the server, or to the connection to it.
type Event struct {
	// Directory in which it happened; empty for events of the server as a whole.
	Directory string
	// SessionID of the session it happened to; empty if it belongs to none.
	SessionID string
	// Payload says what happened. Never nil.
	Payload Payload
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
	// idle once or, after [Directory.Abort], twice.
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
	// and [Directory.Message] has the whole. Other events are cut in the same way.
	PartUpdated struct{ Part Part }

	// TodosUpdated of an [Event]: the whole list, as it is now.
	TodosUpdated struct{ Todos []Todo }

	// PermissionAsked of an [Event].
	PermissionAsked struct{ Request PermissionRequest }

	// PermissionReplied of an [Event]: the request is settled, by whomever.
	PermissionReplied struct {
		RequestID string
		Reply     PermissionReply
	}

	// QuestionAsked of an [Event].
	QuestionAsked struct{ Request QuestionRequest }

	// QuestionClosed of an [Event]: the question was answered or rejected, by whomever.
	QuestionClosed struct{ RequestID string }

	// FileEdited of an [Event]: a tool wrote the file (absolute path). It belongs to no session; [PartUpdated] tells
	// which session wrote what.
	FileEdited struct{ File string }

	// Unknown of an [Event]: any other event, as it came.
	Unknown struct {
		Type       string
		Properties json.RawMessage
	}
)
