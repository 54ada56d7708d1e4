package providers

import (
	"context"
	"encoding/json"

	"github.com/bouldermgr/manager/boulder"
)

// Completer asks a model for one answer.
//
// Complete makes exactly one attempt: no retries, no waiting for a rate limit to pass; [WithRetry] does that. (An
// adapter may ask a second time within an attempt when an endpoint refuses a feature, such as a response format, that
// it can do without.) It blocks until the answer is whole, the attempt fails or ctx ends. It does not change or keep
// req. It may be called from many goroutines at once.
//
// A non-nil error is always an [*Error]; the [*Response] is then nil, and what the failed attempt cost, where the
// provider told, is in the error's Usage. When ctx was cancelled the kind is [KindCanceled]; when a deadline of ctx
// passed it is [KindNetwork], because the adapter cannot tell the deadline of one attempt from that of the whole work.
//
// The provider is asked to constrain its answer to the Schema as well as it can. That is help, not a promise: callers
// validate, best through [Structured]. An answer that was cut by the output limit is an error of [KindTruncated], a
// refusal of [KindContentFilter].
type Completer interface {
	Complete(ctx context.Context, req *Request) (*Response, error)
}

// Request is one question to a model.
type Request struct {
	// Model is the provider's own name of the model, without the provider. Empty: the one that the Completer was opened
	// for, see [Registry.Completer].
	Model    string
	System   string    // the instruction that stands above the conversation. Empty: none.
	Messages []Message // the conversation, oldest first, ending with a user message. Texts are not empty.
	// Schema is a JSON Schema of the wanted answer; required. Vendors agree only on this much: the root is an object, every
	// property is in "required", optional ones are anyOf with null, additionalProperties is false, no bounds and no
	// patterns. It is sent byte for byte: the order of properties steers generation, so put the reason before the verdict.
	Schema json.RawMessage
	// SchemaName labels the schema for the provider: letters, digits, - and _, at most 64. Defaults to "answer".
	SchemaName      string
	MaxOutputTokens int // limits the answer, reasoning included. Zero: the provider's own limit.
}

// Role says who speaks in a [Message].
type Role string

// The roles of a conversation; the system instruction is [Request.System].
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one turn of a conversation.
type Message struct {
	Role Role
	Text string
}

// Response is a whole answer.
type Response struct {
	Text     string // the answer without the model's reasoning, where the provider keeps them apart
	Provider string // the name under which the adapter was opened, as in [ModelRef]
	// Model is the model that answered, as the provider reports it: often a dated version of the one that was asked.
	Model string
	// Usage is what the call cost. A call that was billed at a price the provider did not tell is Unpriced; Calls are not
	// counted here.
	Usage boulder.Usage
}
