package scriptmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sashabaranov/go-openai"

	"github.com/bouldermgr/manager/internal/text"
)

// Names that OpenCode 1.18.33 uses on the wire. All were seen in its requests.
const (
	// structuredTool is the tool that OpenCode adds, with tool choice "required", when a prompt asks for a
	// json_schema format; the tool's parameters are the schema.
	structuredTool = "StructuredOutput"
	// schemaWords come before a JSON schema in a prompt of ours to OpenCode 2, which has no formats: see package opencode.
	schemaWords = "Answer with JSON alone, of this schema:"
	// titlePrompt starts the system prompt of the request that names a session created without a title. It
	// goes out next to the first real request, without tools, and its first user message is OpenCode's own.
	titlePrompt = "You are a title generator"
	// sessionHeader carries the id of the OpenCode session on every request.
	sessionHeader = "X-Session-Id"
)

// Kind is what a request is for, as far as it can be told from outside.
type Kind string

// The kinds of request.
const (
	// KindAgent is a step of an agent, or a plain question: everything that is not one of the other two.
	KindAgent Kind = "agent"
	// KindStructured asks for JSON: by response_format, by OpenCode's StructuredOutput tool, or in the words in which
	// OpenCode 2 is asked.
	KindStructured Kind = "structured"
	// KindTitle is OpenCode asking for the title of an untitled session.
	KindTitle Kind = "title"
)

// Request is one parsed chat completion request.
type Request struct {
	Model string
	// Key is the bearer token that came with the request.
	Key string
	// SessionID is the OpenCode session, or empty when somebody else calls.
	SessionID string
	// System is the text of all system and developer messages.
	System string
	// Messages is the conversation without the system messages.
	Messages []Message
	// Tools are the names of the offered tools.
	Tools []string
	// Schema describes the wanted JSON of a structured request. It is nil for response_format json_object.
	Schema json.RawMessage

	stream, structured bool
}

// Message is one message of the conversation.
type Message struct {
	// Role is user, assistant or tool.
	Role string
	// Text joins the text parts of the message with line feeds. OpenCode sends several parts of one prompt as
	// one user message.
	Text string
}

// Kind reports what r is for.
func (r Request) Kind() Kind {
	switch {
	case r.structured:
		return KindStructured
	case len(r.Tools) == 0 && strings.HasPrefix(r.System, titlePrompt):
		return KindTitle
	default:
		return KindAgent
	}
}

// FirstUser is the text of the first user message, which in a session of an agent is its task.
func (r Request) FirstUser() string {
	for _, m := range r.Messages {
		if m.Role == "user" {
			return m.Text
		}
	}
	return ""
}

// LastUser is the text of the last user message, however many steps the agent has made since.
func (r Request) LastUser() string {
	if i := r.lastUser(); i >= 0 {
		return r.Messages[i].Text
	}
	return ""
}

// AssistantTurns counts the assistant messages in the conversation: 0 in the first request of a session, 1 after the
// first answer was recorded.
func (r Request) AssistantTurns() int { return assistantTurns(r.Messages) }

// TurnsSinceUser counts the assistant messages after the last user message.
func (r Request) TurnsSinceUser() int { return assistantTurns(r.Messages[r.lastUser()+1:]) }

// Text is everything that a model would read: the system prompt and all messages.
func (r Request) Text() string {
	var b strings.Builder
	b.WriteString(r.System)
	for _, m := range r.Messages {
		b.WriteByte('\n')
		b.WriteString(m.Text)
	}
	return b.String()
}

// lastUser is the index of the last user message, or -1.
func (r Request) lastUser() int {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" {
			return i
		}
	}
	return -1
}

func assistantTurns(messages []Message) int {
	n := 0
	for _, m := range messages {
		if m.Role == "assistant" {
			n++
		}
	}
	return n
}

// wireRequest is a request whose schemas keep the order of their properties.
type wireRequest struct {
	openai.ChatCompletionRequest
	Tools []struct {
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

// parseRequest reads the body of a chat completion request.
func parseRequest(body io.Reader) (Request, error) {
	var wire wireRequest
	data, err := io.ReadAll(body) // to its end: before that it is not noticed when the caller goes
	if err == nil {
		err = json.Unmarshal(data, &wire)
	}
	if err != nil {
		return Request{}, fmt.Errorf("parse chat completion request: %w", err)
	}
	if len(wire.Messages) == 0 {
		return Request{}, errors.New("parse chat completion request: it has no messages")
	}
	r := Request{
		Model: wire.Model, stream: wire.Stream,
		structured: wire.ResponseFormat != nil && wire.ResponseFormat.Type != openai.ChatCompletionResponseFormatTypeText,
	}
	r.addMessages(wire.Messages)
	if r.structured && wire.ResponseFormat.JSONSchema != nil {
		r.Schema, _ = wire.ResponseFormat.JSONSchema.Schema.(json.RawMessage)
	}
	if _, after, asked := strings.Cut(r.LastUser(), schemaWords); asked {
		r.structured = true
		_ = json.NewDecoder(strings.NewReader(after)).Decode(&r.Schema) // what follows it is no part of it
	}
	for _, tool := range wire.Tools {
		r.Tools = append(r.Tools, tool.Function.Name)
		if tool.Function.Name == structuredTool {
			r.structured, r.Schema = true, tool.Function.Parameters
		}
	}
	return r, nil
}

func (r *Request) addMessages(messages []openai.ChatCompletionMessage) {
	var system []string
	for _, wire := range messages {
		m := Message{Role: wire.Role, Text: wire.Content}
		for i, part := range wire.MultiContent {
			m.Text += text.If(i > 0, "\n") + part.Text
		}
		if m.Role == openai.ChatMessageRoleSystem || m.Role == openai.ChatMessageRoleDeveloper {
			system = append(system, m.Text)
			continue
		}
		r.Messages = append(r.Messages, m)
	}
	r.System = strings.Join(system, "\n")
}
