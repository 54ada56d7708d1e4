package providers

import (
	"context"
	"encoding/json"

	"github.com/bouldermgr/manager/boulder"
)

// Completer asks a model for one answer.
//
// Complete makes exactly one attempt; [WithRetry] retries and waits for rate limits. (Within an attempt an adapter may
// ask again without an optional feature that the endpoint refuses, such as a response format.) It blocks until the
// answer is complete, the attempt fails or ctx ends. It neither changes nor keeps req. It is safe for concurrent use.
//
// A non-nil error is always an [*Error], and the [*Response] is then nil. The error's Usage is the cost of the failed
// attempt, if the provider reported it. The kind is [KindCanceled] if ctx was cancelled, but [KindNetwork] if its
// deadline passed: the adapter cannot distinguish the deadline of an attempt from that of the whole work.
//
// The provider is asked to constrain its answer to the Schema as well as it can. That is no guarantee: callers
// validate, best with [Structured]. A cut answer is an error of [KindTruncated], a refusal of [KindContentFilter].
type Completer interface {
	Complete(ctx context.Context, req *Request) (*Response, error)
}

// Request is one question to a model.
type Request struct {
	// Model is the provider's own name of the model. Empty: the Completer's own, see [Registry.Completer].
	Model    string
	System   string    // the system instruction. Empty: none.
	Messages []Message // oldest first, ending with a user message. Texts are not empty.
	// Schema is a JSON Schema of the answer; required. All vendors accept only this: an object as the root, every property
	// in "required", optional ones as anyOf with null, additionalProperties false, no bounds and no patterns. It is sent
	// unchanged: the order of properties steers generation, so put the reason before the verdict.
	Schema json.RawMessage
	Effort string // of reasoning, as the provider names it. Empty: the Completer's own, or the model's default.
	// SchemaName labels the schema for the provider: letters, digits, - and _, at most 64. Defaults to "answer".
	SchemaName      string
	MaxOutputTokens int // includes reasoning. Zero: the provider's own limit.
}

// Role is the speaker of a [Message].
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one message of a conversation.
type Message struct {
	Role Role
	Text string
}

// Response is a complete answer.
type Response struct {
	Text     string // without the model's reasoning, where the provider separates them
	Provider string // the name under which the adapter was opened, as in [ModelRef]
	// Model is the model that answered, as the provider reports it: often a dated version of the requested one.
	Model string
	// Usage is the cost of the call. It is Unpriced if the provider did not report the price; Calls are not counted here.
	Usage boulder.Usage
}
