package fakeopencode

import "slices"

type message struct {
	ID   string `json:"id"`
	Type string `json:"type"` // user, synthetic, assistant, idle, agent-switched, model-switched
	Time times  `json:"time"`
	payload

	Agent    string            `json:"agent,omitempty"`
	Model    *modelRef         `json:"model,omitempty"`
	Outcome  string            `json:"outcome,omitempty"` // of idle
	Content  []*content        `json:"content,omitzero"`  // of assistant, as all below
	Snapshot map[string]string `json:"snapshot,omitempty"`
	Finish   string            `json:"finish,omitempty"`
	Cost     *float64          `json:"cost,omitempty"`
	Tokens   *tokens           `json:"tokens,omitempty"`
	Error    *turnError        `json:"error,omitempty"`
}

// payload is the content of a message by a user or a program.
type payload struct {
	Text        string         `json:"text,omitempty"`
	Description string         `json:"description,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
}

// times are Unix times in milliseconds.
type times struct {
	Created   int64 `json:"created"`
	Updated   int64 `json:"updated,omitempty"` // of a session, like Idle
	Idle      int64 `json:"idle,omitempty"`
	Ran       int64 `json:"ran,omitempty"` // of a tool
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

type content struct {
	Type  string     `json:"type"` // text or tool
	Text  string     `json:"text,omitempty"`
	ID    string     `json:"id,omitempty"` // of a tool, as all below
	Name  string     `json:"name,omitempty"`
	State *toolState `json:"state,omitempty"`
	Time  *times     `json:"time,omitempty"`
}

type toolState struct {
	Status   string         `json:"status"` // running, completed, error
	Input    map[string]any `json:"input"`
	Content  []toolText     `json:"content,omitzero"`
	Metadata map[string]any `json:"metadata,omitzero"`
	Error    *turnError     `json:"error,omitempty"`
}

type toolText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (m *message) running() []*content {
	return slices.DeleteFunc(slices.Clone(m.Content), func(c *content) bool {
		return c.Type != "tool" || c.State.Status != "running"
	})
}

func (m *message) said() (text string) {
	for _, c := range m.Content {
		text += c.Text
	}
	return text
}
