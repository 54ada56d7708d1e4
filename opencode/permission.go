package opencode

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// ToolRef identifies the tool call that a request belongs to.
type ToolRef struct {
	MessageID string `json:"messageID"`
	CallID    string `json:"callID"`
}

// Request is a tool call that waits for a permission, or an agent's question. Without a reply it waits for ever.
type Request struct {
	ID        string   `json:"id"`
	SessionID string   `json:"sessionID"`
	Tool      *ToolRef `json:"tool"` // the call that asks; nil: none, or unknown

	Permission string          `json:"permission"` // such as "bash"; empty for a question
	Patterns   []string        `json:"patterns"`   // what is requested, such as the command
	Metadata   json.RawMessage `json:"metadata"`   // of a permission

	Questions []Question `json:"questions"`
}

func (r Request) String() string {
	if r.Permission != "" {
		return fmt.Sprintf("permission %s %v", r.Permission, r.Patterns)
	}
	return "the question " + cmp.Or(r.Asked(), "without words")
}

// Asked returns the words of a question. Several that are asked together are joined.
func (r Request) Asked() string {
	var all []string
	for _, q := range r.Questions {
		all = append(all, cmp.Or(q.Question, q.Header))
	}
	return strings.Join(all, " / ")
}

// PermissionReply answers a [Request] for a permission.
type PermissionReply string

const (
	ReplyOnce   PermissionReply = "once"
	ReplyReject PermissionReply = "reject"
)

// Question is one of the questions that an agent asks together.
type Question struct {
	Header   string   `json:"header"`
	Question string   `json:"question"`
	Options  []Option `json:"options"`
}

// Option is an answer that the agent suggests.
type Option struct {
	Label string `json:"label"`
}
