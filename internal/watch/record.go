package watch

import (
	"slices"
	"time"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// Record is what is stored of a watched session.
type Record struct {
	SessionID string         `json:"session_id"`
	Title     string         `json:"title,omitempty"`
	Track     enforcer.Track `json:"track"`
	Cursor    session.Cursor `json:"cursor"`
	// Awaits: it waits for the answer to a blocker, or its agent was not told one.
	Awaits bool `json:"awaits,omitempty"`
	// Intent is the continuation that Track.Pending names; nil: none.
	Intent *Intent `json:"intent,omitempty"`
	// Request is what the user asked for last, for a session that has to go on in a fresh one; at most 8,000 bytes.
	Request string `json:"request,omitempty"`
	// Asked: the user started it by its id, so that it is watched however long it rested.
	Asked bool `json:"asked,omitempty"`
	// Answered are the blockers whose answers the agent was told, or is by Intent.
	Answered []string `json:"answered,omitempty"`
	// Spent is what the session had cost when the loop began that Track.Began names. Budgets count from there.
	Spent     Spent     `json:"spent"`
	UpdatedAt time.Time `json:"updated_at"`
}

// drop forgets the continuation. Of one that no turn came of, the answers are told again: twice is better than never.
func (r *Record) drop(ran bool) {
	if i := r.Intent; i != nil && !ran {
		r.Answered = slices.DeleteFunc(r.Answered, func(id string) bool { return slices.Contains(i.Answered, id) })
	}
	r.Intent = nil
}

// unfinished reports whether the session was watched within the last day, and was not done: a watch that is started again
// goes on with it. What waits for the user's answer does so for however long they take.
func (r *Record) unfinished(now time.Time) bool {
	t := r.Track
	return t.Status == enforcer.Watching &&
		(r.Awaits || (t.Pending != "" || len(t.Open) > 0) && now.Sub(t.LastActivity) < 24*time.Hour)
}

// Spent is an amount of work of models.
type Spent struct {
	Since  time.Time `json:"since,omitzero"` // the Track.Began that it belongs to
	Tokens int64     `json:"tokens,omitempty"`
	Cost   float64   `json:"cost,omitempty"` // US dollars
}

// Intent is a continuation that was decided on. It is on disk before anything is sent, so that a crash between the two
// sends it once all the same: the server takes a message id once.
type Intent struct {
	MessageID string            `json:"message_id"`
	Text      string            `json:"text"`
	Agent     string            `json:"agent,omitempty"`
	Model     opencode.ModelRef `json:"model"`
	Variant   string            `json:"variant,omitempty"`
	// Fresh: it is to begin a session of its own, which carries the message id in its metadata.
	Fresh bool `json:"fresh,omitempty"`
	// Answered are the blockers whose answers it tells.
	Answered []string `json:"answered,omitempty"`
}

// Entry is one decision about a session, as it is stored, shown and printed. Fields are added in later versions, never
// changed.
type Entry struct {
	Type      string        `json:"type"` // decision
	Time      time.Time     `json:"time"`
	SessionID string        `json:"session_id"`
	Title     string        `json:"title,omitempty"`
	Decision  enforcer.Kind `json:"decision"`
	Gate      enforcer.Gate `json:"gate"`
	Reason    string        `json:"reason"`
	// Iteration counts the continuations since the loop began, with this one.
	Iteration int `json:"iteration"`
	// Failures counts those among them, in a row, that brought no progress.
	Failures  int       `json:"failures,omitempty"`
	Until     time.Time `json:"until,omitzero"`       // when it is decided again; absent: when something happens
	MessageID string    `json:"message_id,omitempty"` // of send and fresh
	Prompt    string    `json:"prompt,omitempty"`     // of send and fresh
	// DryRun: nothing was done about it.
	DryRun bool `json:"dry_run,omitempty"`
}

// same reports whether two decisions say the same thing. Reasons that count seconds do not.
func (e Entry) same(other Entry) bool {
	return e.Decision == other.Decision && e.Gate == other.Gate && e.MessageID == other.MessageID &&
		e.Iteration == other.Iteration && e.Failures == other.Failures
}

// Status is one session as people are told about it. Fields are added in later versions, never changed.
type Status struct {
	Type            string          `json:"type"` // watched-session
	SessionID       string          `json:"session_id"`
	Title           string          `json:"title,omitempty"`
	Status          enforcer.Status `json:"status"`
	Reason          string          `json:"reason,omitempty"` // of the status, or of the newest decision
	Watched         bool            `json:"watched"`          // a process watches it now
	Busy            bool            `json:"busy"`
	Iteration       int             `json:"iteration"`
	FailureCount    int             `json:"failure_count"`
	StopRequested   bool            `json:"stop_requested"`
	LastActivity    time.Time       `json:"last_activity,omitzero"`
	LastEnforcement time.Time       `json:"last_enforcement,omitzero"`
	Open            []string        `json:"open"` // items that were open when the newest turn ended
	Newest          *Entry          `json:"newest,omitempty"`
}
