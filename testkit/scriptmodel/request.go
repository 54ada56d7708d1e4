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

// Names that OpenCode 1.18.33 uses on the wire (observed).
const (
	// structuredTool is the tool that OpenCode adds, with tool choice "required", to a prompt with a json_schema
	// format. Its parameters are the schema.
	structuredTool = "StructuredOutput"
	// schemaWords precede the schema in our prompts to OpenCode 2, which has no formats: see package opencode.
	schemaWords = "Answer with JSON alone, of this schema:"
	// titlePrompt starts the system prompt of the request for the title of an untitled session. It is sent alongside
	// the first real request, without tools, and its first user message is OpenCode's own.
	titlePrompt   = "You are a title generator"
	sessionHeader = "X-Session-Id" // on every request: the id of the OpenCode session
)

// Kind is the purpose of a request, as far as the request shows it.
type Kind string

const (
	KindAgent Kind = "agent" // a step of an agent, a plain question, and everything else
	// KindStructured asks for JSON: by response_format, OpenCode's StructuredOutput tool, or schemaWords.
	KindStructured Kind = "structured"
	KindTitle      Kind = "title" // OpenCode asks for the title of an untitled session
)

// kindCheck is the kind by which a rule of a script names the requests that [Request.IsCheck] is about.
const kindCheck Kind = "check"

// Request is a parsed chat completion request.
type Request struct {
	Model     string
	Effort    string          // of reasoning, as OpenAI names it; empty: the model's default
	Key       string          // the bearer token
	SessionID string          // of OpenCode; empty from another caller
	System    string          // text of all system and developer messages
	Messages  []Message       // without system messages
	Tools     []string        // names of the offered tools
	Schema    json.RawMessage // of a structured request; nil for response_format json_object

	stream, structured bool
}

// Message is a message of the conversation.
type Message struct {
	Role string // user, assistant or tool
	// Text joins the text parts with line feeds. OpenCode sends several parts of a prompt as one user message.
	Text string
}

// Kind returns the kind of r.
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

// AsksFacts reports whether a structured request is the Task Ledger's first question: what the task demands.
func (r Request) AsksFacts() bool {
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	_ = json.Unmarshal(r.Schema, &schema) // without one there are no properties
	return schema.Properties["request"] != nil && schema.Properties["needs_plan"] != nil
}

// IsCheck reports whether a ledger is asked if a whole request is met, after all sub-tasks: by the fields that it wants.
func (r Request) IsCheck() bool {
	var schema struct {
		Properties struct{ Request, Missing, Answer json.RawMessage }
	}
	p := &schema.Properties
	return r.structured && json.Unmarshal(r.Schema, &schema) == nil && p.Request != nil && p.Missing != nil && p.Answer != nil
}

// FirstUser returns the text of the first user message, which in an agent's session is its task.
func (r Request) FirstUser() string {
	for _, m := range r.Messages {
		if m.Role == "user" {
			return m.Text
		}
	}
	return ""
}

// LastUser returns the text of the last user message, however many steps the agent has made since.
func (r Request) LastUser() string {
	if i := r.lastUser(); i >= 0 {
		return r.Messages[i].Text
	}
	return ""
}

// AssistantTurns counts the assistant messages in the conversation, which are 0 in the first request of a session.
func (r Request) AssistantTurns() int { return assistantTurns(r.Messages) }

// TurnsSinceUser counts the assistant messages after the last user message.
func (r Request) TurnsSinceUser() int { return assistantTurns(r.Messages[r.lastUser()+1:]) }

// Text returns everything that a model would read: the system prompt and all messages.
func (r Request) Text() string {
	var b strings.Builder
	b.WriteString(r.System)
	for _, m := range r.Messages {
		b.WriteByte('\n')
		b.WriteString(m.Text)
	}
	return b.String()
}

// lastUser returns the index of the last user message, or -1.
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

// wireRequest keeps the order of properties in schemas.
type wireRequest struct {
	openai.ChatCompletionRequest
	Tools []struct {
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

func parseRequest(body io.Reader) (Request, error) {
	var wire wireRequest
	data, err := io.ReadAll(body) // to its end: net/http detects a closed connection only then
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
		Model: wire.Model, Effort: wire.ReasoningEffort, stream: wire.Stream,
		structured: wire.ResponseFormat != nil && wire.ResponseFormat.Type != openai.ChatCompletionResponseFormatTypeText,
	}
	r.addMessages(wire.Messages)
	if r.structured && wire.ResponseFormat.JSONSchema != nil {
		r.Schema, _ = wire.ResponseFormat.JSONSchema.Schema.(json.RawMessage)
	}
	if _, after, asked := strings.Cut(r.LastUser(), schemaWords); asked {
		r.structured = true
		_ = json.NewDecoder(strings.NewReader(after)).Decode(&r.Schema) // ignores what follows the schema
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
