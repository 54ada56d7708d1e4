package fakeopencode

// message is one message of a session, as it is sent and stored.
type message struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"` // user, synthetic, assistant, idle, agent-switched, model-switched
	Metadata map[string]any `json:"metadata,omitempty"`
	Time     messageTime    `json:"time"`

	Text        *string    `json:"text,omitempty"` // of user and synthetic
	Description string     `json:"description,omitempty"`
	Files       []any      `json:"files,omitempty"`
	Agent       string     `json:"agent,omitempty"`
	Model       *modelRef  `json:"model,omitempty"`
	Outcome     string     `json:"outcome,omitempty"` // of idle
	Content     []*content `json:"content,omitzero"`  // of assistant, as all below
	Snapshot    *snapshot  `json:"snapshot,omitempty"`
	Finish      string     `json:"finish,omitempty"`
	Cost        *float64   `json:"cost,omitempty"`
	Tokens      *tokens    `json:"tokens,omitempty"`
	Error       *turnError `json:"error,omitempty"`
}

type messageTime struct {
	Created   int64 `json:"created"`
	Completed int64 `json:"completed,omitempty"`
}

type modelRef struct {
	ID         string `json:"id"`
	ProviderID string `json:"providerID"`
	Variant    string `json:"variant,omitempty"`
}

type tokens struct {
	Input     int `json:"input"`
	Output    int `json:"output"`
	Reasoning int `json:"reasoning"`
	Cache     struct {
		Read  int `json:"read"`
		Write int `json:"write"`
	} `json:"cache"`
}

type snapshot struct {
	Start string `json:"start,omitempty"`
	End   string `json:"end,omitempty"`
}

// turnError says why a turn or a tool failed. It is what a failing step returns.
type turnError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Status  int    `json:"status,omitempty"` // of the provider
}

func (e *turnError) Error() string { return e.Message }

// content is a piece of an assistant's message.
type content struct {
	Type  string     `json:"type"` // text or tool
	Text  *string    `json:"text,omitempty"`
	ID    string     `json:"id,omitempty"` // of a tool, as all below
	Name  string     `json:"name,omitempty"`
	State *toolState `json:"state,omitempty"`
	Time  *toolTime  `json:"time,omitempty"`
}

type toolState struct {
	Status   string         `json:"status"` // streaming, running, completed, error
	Input    any            `json:"input"`  // a string while it is streaming, else an object
	Content  []toolText     `json:"content,omitzero"`
	Metadata map[string]any `json:"metadata,omitzero"`
	Error    *turnError     `json:"error,omitempty"`
}

type toolText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type toolTime struct {
	Created   int64 `json:"created"`
	Ran       int64 `json:"ran,omitempty"`
	Completed int64 `json:"completed,omitempty"`
}

// unfinished reports whether the tool call has no end yet.
func (c *content) unfinished() bool {
	return c.Type == "tool" && (c.State.Status == "streaming" || c.State.Status == "running")
}

func (m *message) said() (text string) {
	for _, c := range m.Content {
		if c.Type == "text" {
			text += *c.Text
		}
	}
	return text
}
