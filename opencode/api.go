package opencode

import (
	"context"
	"iter"
	"time"
)

// API is what an OpenCode server does in one directory, in the terms of OpenCode 1.18. Each generation of OpenCode has a
// back end of its own that speaks it; what one of them cannot do, its [Caps] say. It is safe for concurrent use.
type API interface {
	// CreateSession makes a session. It is not idempotent: to survive a crash, put a tag of your own into the title and
	// look for it with [API.Sessions]. OpenCode 2 takes a ParentID only since some version after 2.0.21.
	CreateSession(ctx context.Context, n NewSession) (Session, error)

	// Sessions gives the directory's sessions, those that something happened in last first; also those made before the
	// server was last started.
	Sessions(ctx context.Context, f SessionFilter) ([]Session, error)

	// Session gives one session; the error matches [ErrNotFound] if there is none.
	Session(ctx context.Context, sessionID string) (Session, error)

	// Children gives the sessions that sub-agents of this one work in, one level deep.
	Children(ctx context.Context, sessionID string) ([]Session, error)

	// AddRules adds permission rules to a session's own, after those that it has. They count from its next turn on.
	AddRules(ctx context.Context, sessionID string, rules ...Rule) error

	// DeleteSession removes a session for good. One that is gone already is no error.
	DeleteSession(ctx context.Context, sessionID string) error

	// Abort stops the turn of a session, if there is one. It returns before the turn has ended. What follows:
	// [SessionFailed] with [MessageAborted] and the idle status (both missing if the model had not been called yet), the
	// running tool's end, the message's completion with that error, idle again. The second idle can come after the next
	// prompt was taken; do not take it for that prompt's end. A session that does not exist is no error. In OpenCode 2 the
	// tool ends first, as a [ToolError], and idle comes once.
	Abort(ctx context.Context, sessionID string) error

	// Statuses gives what the directory's sessions are doing, by session id. Idle sessions are absent, and so is one
	// whose first prompt was admitted a moment ago: absence alone does not prove that a turn is over. In OpenCode 2 those of
	// all directories are told, a session is busy while a sub-agent of its is, and [Retry] is known of what is subscribed to.
	Statuses(ctx context.Context) (map[string]Status, error)

	// Todos gives the session's todo list as the agent last wrote it. OpenCode 2 has none: it is what the agent last told a
	// tool "todo" of an MCP server "manager".
	Todos(ctx context.Context, sessionID string) ([]Todo, error)

	// Prompt gives the session a prompt and returns when the server has taken it; see the package comment on how to know
	// that the turn is over. A session that is busy takes the prompt into its running turn; one with a pending permission
	// request takes it only after that is answered.
	//
	// With a MessageID, sending the same prompt again is harmless: if the first one was answered or is being answered,
	// nothing more happens; if it never arrived, or its turn was aborted, a turn runs. OpenCode 2 runs no message twice: it
	// gets a repetition under another id, which is not shown.
	Prompt(ctx context.Context, sessionID string, p Prompt) error

	// Messages gives the newest messages of a session, oldest first, at most limit of them. The server refuses
	// (400, for ever) to list a session that had a prompt with a JSON schema; see [API.Ask]. Of a long session rather
	// look at one message at a time, see [API.EachMessage].
	Messages(ctx context.Context, sessionID string, limit int) (all []Message, err error)

	// EachMessage goes through all messages of a session, oldest first, as they arrive: one at a time is held, however long
	// the session is. It ends with an error if not all could be read. The caller's own work on the messages is part of the
	// call and counts for its timeout.
	EachMessage(ctx context.Context, sessionID string) iter.Seq2[Message, error]

	// Message gives one message, in OpenCode 2 without its parent; the error matches [ErrNotFound] if it never arrived.
	Message(ctx context.Context, sessionID, messageID string) (Message, error)

	// Requests lists what is pending in the directory, in child sessions too. What a session asked that was aborted stays
	// listed, in OpenCode 1; a reply to it is accepted and does nothing.
	Requests(ctx context.Context) ([]Request, error)

	// ReplyPermission answers a request. Rejecting with a message makes the tool fail with that text, and the agent goes
	// on in the same turn; rejecting without one ends the turn. Rejecting one of several parallel requests of a session
	// rejects them all, the others without the message. The error matches [ErrNotFound] if another client was quicker. In
	// OpenCode 2 the message is a prompt to the agent, since most tools do not pass it on.
	ReplyPermission(ctx context.Context, requestID string, reply PermissionReply, message string) error

	// AnswerQuestion answers with, for each question in order, the chosen labels or free text. The error matches
	// [ErrNotFound] if another client was quicker.
	AnswerQuestion(ctx context.Context, requestID string, answers [][]string) error

	// RejectQuestion declines to answer, which ends the turn unless the configuration of OpenCode 1 has
	// experimental.continue_loop_on_deny. The error matches [ErrNotFound] if another client was quicker.
	RejectQuestion(ctx context.Context, requestID string) error

	// Catalogue lists the connected providers and their models. It is also the call that warms a directory: the first one
	// takes about two seconds, which the first prompt then does not; OpenCode 2, which has none until then, is asked for 10 s.
	Catalogue(ctx context.Context) (Catalogue, error)

	// DefaultModel gives the model that the user's configuration names, or none: then the server chooses, by what was
	// used last and what is connected.
	DefaultModel(ctx context.Context) (string, error)

	// Agents lists the names of the agents that are defined in the directory.
	Agents(ctx context.Context) (names []string, err error)

	// HasLanguageServer reports whether one works in the directory. OpenCode starts one with the first file of its kind that
	// an agent edits, if it is installed; which kinds one is for is not told. Without any, editing tools report empty
	// diagnostics, the same as for files without a fault. See [Caps].
	HasLanguageServer(ctx context.Context) (bool, error)

	// ShowToast shows a notice to whoever has the terminal interface open on this server; that it is open nowhere is no error.
	// See [Caps].
	ShowToast(ctx context.Context, t Toast) error

	// AddMCP makes the tools of a server known in the directory, in the place of those of a server that had the name.
	// Agents have them from their next step on, in sessions that exist too. Nothing is written into a configuration: a
	// server that is restarted knows nothing of it. That OpenCode could not connect is an error.
	//
	// A call of such a tool is itself a matter of permission, under the tool's name and the pattern "*". When the MCP
	// server has gone, turns are not held up, and calls fail at once.
	AddMCP(ctx context.Context, server MCPServer) error

	// DisconnectMCP takes the tools of a server away, from the next step of every agent on. OpenCode has no call that
	// forgets a server: it stays among [API.MCPServers] as disabled; OpenCode 2 forgets it. One that is not known is no error.
	DisconnectMCP(ctx context.Context, name string) error

	// MCPServers tells of the MCP servers that the directory knows, by their names. A connected one may have gone since.
	MCPServers(ctx context.Context) (map[string]MCPStatus, error)

	// Ask puts one question to a model in a session of its own, waits for the answer and deletes the session. What the
	// message says of its cost holds also for a failed turn. The error is a [*TurnError] if the model or its provider
	// failed or is unknown, an [*Error] if the call did.
	//
	// The session cannot be kept: once it has had a prompt with a schema, the server answers 400 whenever its messages
	// are listed. OpenCode 2 knows no schemas: it goes into the question, and an answer that is no JSON is an error like that
	// of OpenCode 1.
	Ask(ctx context.Context, r AskRequest) (Message, error)
}

// Caps are what the generations of OpenCode differ in.
type Caps struct {
	Generation  int    // of the API: the major version
	Version     string // such as "1.18.33"
	Todos       bool   // agents have a todo list, without a tool being added
	Diagnostics bool   // language servers look at what agents edit
	Toasts      bool   // there are notices in the terminal interface
}

// backend is how one generation of OpenCode is spoken to.
type backend interface {
	API
	in(path string) API // the view of a directory
	caps() Caps
	// events is the path of the event stream, and what reads the data of its events, one connection's after the other.
	// Of those that are dropped on purpose it makes none.
	events() (path string, read func(data []byte) ([]Event, error))
	// endWork ends all turns and tools before the server is ended.
	endWork(ctx context.Context, grace time.Duration) error
}
