// Package providerstest checks that an adapter keeps the contract of [providers.Completer]. Every adapter's test calls
// [Run] with an [Adapter.Wire] for its provider's format. The scenarios and expectations are the same for all.
package providerstest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
)

// Adapter is the adapter that [Run] tests.
type Adapter struct {
	// Provider is the name that the adapter reports in answers and errors.
	Provider string
	// Open creates the adapter for baseURL. It must use client for all requests; Run closes its connections.
	Open func(t testing.TB, baseURL string, key providers.Key, client *http.Client) providers.Completer
	// Wire creates a server for the provider's format. It decodes each completion request, calls respond, and renders
	// the reply. It answers other requests of the protocol (sessions, catalogues) itself. [Protocol] implements it for
	// a provider with a single kind of request.
	Wire func(respond func(Seen) Reply) http.Handler
	// Plain marks a provider that has no output limit and does not report cached or reasoning tokens.
	Plain bool
}

// Seen is a request as the server decoded it.
type Seen struct {
	Key             string
	Model           string
	Effort          string
	System          string
	Messages        []providers.Message
	Schema          json.RawMessage
	MaxOutputTokens int
}

// Reply is the answer that the server must give: a success, or the Fault with RetryAfter and Message.
type Reply struct {
	Text  string
	Cut   bool // at the output limit
	Usage boulder.Usage

	Fault      Fault
	RetryAfter time.Duration
	// Message is the text of the error.
	Message string
}

// Fault is a way to fail.
type Fault string

// A wire renders each in its provider's format.
const (
	FaultNone          Fault = ""
	FaultAuth          Fault = "wrong key"
	FaultQuota         Fault = "no credit"
	FaultRateLimit     Fault = "too many requests"
	FaultOverloaded    Fault = "overloaded"
	FaultContextLength Fault = "prompt too long"
	FaultFiltered      Fault = "filtered"
	FaultUnknownModel  Fault = "unknown model"
	FaultInternal      Fault = "internal server error"
	// FaultCut closes the connection in the middle of the answer.
	FaultCut Fault = "cut connection"
	// FaultMalformed is a complete answer with status 200 that is not JSON.
	FaultMalformed Fault = "malformed answer"
)

// Malformed is the body of [FaultMalformed].
const Malformed = `{"answer": <this is no JSON>`

// Cut sends half of a body and drops the connection, as [FaultCut] does.
func Cut(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler) // the only way for a handler to drop the connection
}

// Protocol implements [Adapter.Wire] for a provider's format. Write it from the wire format, not with an SDK's types:
// there, the same mistake on both sides would go unnoticed.
type Protocol struct {
	// Asks reports whether a request is a completion. Others get 404.
	Asks func(*http.Request) bool
	// Decode reads a request. An error becomes a 400.
	Decode func(*http.Request) (Seen, error)
	// Answer renders a success of the model, in JSON.
	Answer func(model string, reply Reply) []byte
	// Fail renders the faults other than [FaultCut] and [FaultMalformed].
	Fail func(w http.ResponseWriter, reply Reply)
}

// Wire is an [Adapter.Wire].
func (p Protocol) Wire(respond func(Seen) Reply) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.Asks(r) {
			http.NotFound(w, r)
			return
		}
		seen, err := p.Decode(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		reply := respond(seen)
		w.Header().Set("Content-Type", "application/json")
		switch reply.Fault {
		case FaultNone:
			_, _ = w.Write(p.Answer(seen.Model, reply))
		case FaultCut:
			Cut(w, p.Answer(seen.Model, reply))
		case FaultMalformed:
			_, _ = w.Write([]byte(Malformed))
		default:
			p.Fail(w, reply)
		}
	})
}

// SetRetryAfter sets Retry-After, in whole seconds, if the reply has it.
func SetRetryAfter(header http.Header, reply Reply) {
	if reply.RetryAfter > 0 {
		header.Set("Retry-After", fmt.Sprint(int(reply.RetryAfter/time.Second)))
	}
}
