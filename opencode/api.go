package opencode

import (
	"context"
	"iter"
	"time"
)

// API is what an OpenCode server offers in one directory, in the terms of OpenCode 1.18. Each generation of OpenCode
// has its own implementation; [Caps] say what it lacks. It is safe for concurrent use.
type API interface {
	// CreateSession creates a session. It is not idempotent: to survive a crash, put a tag into the title and look for
	// it with [API.Sessions]. OpenCode 2 accepts a ParentID only since some version after 2.0.21.
	CreateSession(ctx context.Context, n NewSession) (Session, error)

	// Sessions lists the directory's sessions, the most recently updated first, also those from before a restart.
	Sessions(ctx context.Context, f SessionFilter) ([]Session, error)

	// Session returns one session. The error matches [ErrNotFound] if it does not exist.
	Session(ctx context.Context, sessionID string) (Session, error)

	// Children lists the sessions of this session's sub-agents, one level deep.
	Children(ctx context.Context, sessionID string) ([]Session, error)

	// AddRules appends permission rules to a session's own. They apply from its next turn on.
	AddRules(ctx context.Context, sessionID string, rules ...Rule) error

	// DeleteSession removes a session for good. It is no error if the session does not exist.
	DeleteSession(ctx context.Context, sessionID string) error

	// ArchiveSession marks a session as archived, or with a zero time as not archived. OpenCode's pages then hide it; the
	// list of its command line does not. It changes nothing where [Caps] lack it. The error matches [ErrNotFound] if the
	// session does not exist.
	ArchiveSession(ctx context.Context, sessionID string, at time.Time) error

	// Abort stops the session's turn, if it has one. It returns before the turn has ended. These events follow:
	// [SessionFailed] with [MessageAborted] and the idle status (neither if the model was not called yet), the end of
	// the running tool, the completion of the message with that error, and idle again. The second idle may come after
	// the next prompt was accepted: do not take it for that prompt's end. In OpenCode 2 the tool ends first, as a
	// [ToolError], and idle comes once. It is no error if the session does not exist.
	Abort(ctx context.Context, sessionID string) error

	// Statuses returns what the directory's sessions are doing, by session id. It omits idle sessions and those whose
	// first prompt was just admitted: absence alone does not prove that a turn is over. OpenCode 2 covers all
	// directories, counts a session as busy while a sub-agent is, and knows [Retry] only from subscribed events.
	Statuses(ctx context.Context) (map[string]Status, error)

	// Todos returns the session's todo list as the agent last wrote it. OpenCode 2 has none: the list is what the agent
	// last passed to the tool "todo" of an MCP server "manager".
	Todos(ctx context.Context, sessionID string) ([]Todo, error)

	// Prompt sends a prompt and returns when the server has accepted it; the package comment says how to detect its
	// turn's end. A busy session takes it into the running turn, but not while a permission request is pending.
	//
	// With a MessageID, sending it again is harmless: nothing happens if the prompt was or is being answered, and a turn
	// runs if it never arrived or was aborted. OpenCode 2 runs no message twice: a repetition gets another, hidden id.
	Prompt(ctx context.Context, sessionID string, p Prompt) error

	// Messages returns the newest messages of a session, oldest first, at most limit; for long sessions see
	// [API.EachMessage]. The server always refuses (400) to list a session that had a prompt with a JSON schema.
	Messages(ctx context.Context, sessionID string, limit int) (all []Message, err error)

	// EachMessage iterates over a session's messages, oldest first, and holds one at a time. It ends with an error if
	// not all could be read. The caller's loop body counts towards the timeout of the call.
	EachMessage(ctx context.Context, sessionID string) iter.Seq2[Message, error]

	// Message returns one message, in OpenCode 2 without its parent. The error matches [ErrNotFound] if there is none.
	Message(ctx context.Context, sessionID, messageID string) (Message, error)

	// Requests lists what is pending in the directory, including child sessions. OpenCode 1 keeps listing the requests
	// of an aborted turn: a reply to one has no effect, but a rejection also rejects the session's other requests.
	Requests(ctx context.Context) ([]Request, error)

	// ReplyPermission answers a permission request. Rejecting with a message makes the tool fail with that text, and
	// the agent continues the turn. Rejecting without one ends the turn. Rejecting one of several parallel requests of
	// a session rejects them all, the others without the message. In OpenCode 2 the message is sent as a prompt, since
	// most tools do not pass it on. The error matches [ErrNotFound] if another client was quicker.
	ReplyPermission(ctx context.Context, requestID string, reply PermissionReply, message string) error

	// AnswerQuestion answers each question, in order, with chosen labels or free text. Errors are as for ReplyPermission.
	AnswerQuestion(ctx context.Context, requestID string, answers [][]string) error

	// RejectQuestion declines to answer, which ends the turn unless the configuration of OpenCode 1 has
	// experimental.continue_loop_on_deny. Errors are as for ReplyPermission.
	RejectQuestion(ctx context.Context, requestID string) error

	// Catalogue lists the connected providers and their models. The first call also warms the directory: it takes about
	// two seconds, which the first prompt saves. OpenCode 2 takes longer after a start, see [AttachConfig].BootTimeout.
	Catalogue(ctx context.Context) (Catalogue, error)

	// Reload has OpenCode 1 read the directory's configuration again with the next call: it reads it only once. Turns there end.
	// OpenCode 2 has no such call.
	Reload(ctx context.Context) error

	// DefaultModel returns the model in the user's configuration, or "": the server then picks a recent or connected one.
	DefaultModel(ctx context.Context) (string, error)

	Agents(ctx context.Context) (names []string, err error)

	// AgentRules returns the permission rules of an agent, without those of a session; the last match wins. Empty: of the one
	// that sessions get which name none.
	AgentRules(ctx context.Context, agent string) ([]Rule, error)

	// HasLanguageServer reports whether one runs in the directory. OpenCode starts an installed one at the first edit of a
	// file of its kinds, which are not known. Without one, diagnostics are empty, as for files without errors. See [Caps].
	HasLanguageServer(ctx context.Context) (bool, error)

	// ShowToast shows a notice in the terminal interfaces on this server. It is no error if there is none. See [Caps].
	ShowToast(ctx context.Context, t Toast) error

	// AddMCP offers the tools of an MCP server in the directory, in place of a server of the same name. Agents have
	// them from their next step on, in existing sessions too. No configuration is written: a restarted server does not
	// know them. It is an error if OpenCode cannot connect. A call of such a tool itself needs a permission, under the
	// tool's name and the pattern "*". If the MCP server is gone, turns continue and calls fail at once.
	AddMCP(ctx context.Context, server MCPServer) error

	// DisconnectMCP removes the tools of an MCP server, from every agent's next step on. OpenCode 1 keeps the server
	// among [API.MCPServers] as disabled; OpenCode 2 forgets it. It is no error if the server is unknown.
	DisconnectMCP(ctx context.Context, name string) error

	// MCPServers returns the status of the directory's MCP servers, by name. A connected one may be gone by now.
	MCPServers(ctx context.Context) (map[string]MCPStatus, error)

	// Ask puts one question to a model in a new session, waits for the answer and deletes the session, which cannot be
	// kept: after a prompt with a schema, the server answers 400 whenever its messages are listed. The message's cost
	// is valid for a failed turn, too. The error is a [*TurnError] if the model or its provider failed or is unknown,
	// an [*Error] if the call failed. OpenCode 2 has no schemas: the schema becomes part of the question, and an answer
	// that is not JSON is a [*TurnError], as in OpenCode 1.
	Ask(ctx context.Context, r AskRequest) (Message, error)
}

// Caps are the differences between the generations of OpenCode.
type Caps struct {
	Generation  int    // the major version, of the API too
	Version     string // such as "1.18.33"
	Todos       bool   // agents have a built-in todo list
	Diagnostics bool   // language servers check what agents edit
	Toasts      bool   // the terminal interface shows notices
	Archives    bool   // sessions can be archived
}

type backend interface {
	API
	in(path string) API // the view of a directory
	caps() Caps
	// events returns the path of the event stream, and a function that decodes the events of one connection in order.
	// It returns no event for data that is dropped on purpose.
	events() (path string, read func(data []byte) ([]Event, error))
	// endWork ends all turns and tools before the server stops.
	endWork(ctx context.Context, grace time.Duration) error
}
