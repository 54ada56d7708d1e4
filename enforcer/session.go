package enforcer

import "time"

// Status is where the arbiter stands with a session that has ended a turn.
type Status string

const (
	// Watching: it is looked at after each turn. Also where a session starts, and what the empty Status means.
	Watching Status = "watching"
	// Complete: everything asked for holds. Moved here by a [Finish] that was stored; left by the next turn, whoever
	// began it. A crash changes nothing: it is told to nobody twice.
	Complete Status = "complete"
	// Stopped: a person said stop, or aborted a turn, or the work goes on in another session. Moved here by [StopAsked],
	// [Aborted], [Prompted] with Stop, and [Replaced]. Left by [Started]; by a person's next prompt too, unless
	// [Track.StopRequested]. Nothing that the agent or the manager does leaves it, and a crash changes nothing.
	Stopped Status = "stopped"
	// Exhausted: a bound was reached (failures, iterations, budget), or nothing is left that the agent can do. Moved here
	// by a [LetGo] that was stored; Reason says which. Left by [Started] and by a person's next prompt.
	Exhausted Status = "exhausted"
)

// Track is what the arbiter remembers of a session. The zero value is a session of which nothing is known. [Apply]
// alone changes it; it is stored after every change, so that a restart counts on. The names of the first six fields are
// those of seed 000.
type Track struct {
	Iteration       int       `json:"iteration"`                 // continuations since Began
	LastActivity    time.Time `json:"last_activity,omitzero"`    // newest sign of life of the session or of a child
	LastEnforcement time.Time `json:"last_enforcement,omitzero"` // when the newest continuation was decided on
	FailureCount    int       `json:"failure_count"`             // continuations in a row that brought no progress
	StopRequested   bool      `json:"stop_requested"`            // in so many words: [Started] alone lifts it
	Status          Status    `json:"status"`

	Reason      string    `json:"reason,omitempty"`      // of Status, for people
	Began       time.Time `json:"began,omitzero"`        // the loop: the first event, a person's newest prompt or start
	LastFailure time.Time `json:"last_failure,omitzero"` // when FailureCount grew
	Resets      int       `json:"resets,omitempty"`      // how often failures were forgotten since the newest progress
	AbortedAt   time.Time `json:"aborted_at,omitzero"`   // the newest abort that was not the manager's own
	CountdownAt time.Time `json:"countdown_at,omitzero"` // when a running countdown ends; zero: none runs
	// Pending is the message id of the continuation that was decided on and whose turn has not ended. While it is set
	// nothing else is sent. After a restart it is looked up, and sent under the same id if it never arrived.
	Pending string `json:"pending,omitempty"`
	Turn    string `json:"turn,omitempty"` // id of the last message of the newest turn that ended

	Progress    Progress `json:"progress"`              // what was ever reached since Began
	Compactions int      `json:"compactions,omitempty"` // of the session, since the newest progress
	Compacted   bool     `json:"compacted,omitempty"`   // there was one since Began
	// Open are the items of the todo list that are open; at most 50. After a compaction they are the record of what the
	// agent may have forgotten, see [OpenItems].
	Open []string `json:"open,omitempty"`
	// Of the newest turn:

	Acted    bool   `json:"acted,omitempty"`    // it called a tool
	Claimed  bool   `json:"claimed,omitempty"`  // its answer says that the work is done, see [Claims]
	Promised bool   `json:"promised,omitempty"` // the promise was given since Began, see [Promised]
	Answer   string `json:"answer,omitempty"`   // names what it said (a hash)
	Same     int    `json:"same,omitempty"`     // answers in a row, this one included, that say so without a tool call

	// Answers are what continuations got lately, since the newest progress, oldest first; at most 50.
	Answers []Answer `json:"answers,omitempty"`
}

// Answer is what the agent said at the end of a turn that a continuation began.
type Answer struct {
	Name string    `json:"name"` // of its words (a hash), without ids, times and numbers
	At   time.Time `json:"at"`
}
