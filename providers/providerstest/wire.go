// Package providerstest checks that an adapter keeps the contract of [providers.Completer]. Every adapter's test calls
// [Run] with a [Wire] that speaks its provider's format; the scenarios and what is expected of them are the same for
// all.
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

// Adapter is what [Run] tests.
type Adapter struct {
	// Provider is the name that the adapter reports in answers and errors.
	Provider string
	// Open makes the adapter for a server at baseURL. client is to be used for all requests; Run closes its connections.
	Open func(t testing.TB, baseURL string, key providers.Key, client *http.Client) providers.Completer
	// Wire makes a server that speaks the provider's format: it decodes each request for a completion, calls respond,
	// and renders the reply. Whatever else the protocol needs (sessions, catalogues) it answers by itself. [Protocol]
	// makes one for a provider with a single kind of request.
	Wire func(respond func(Seen) Reply) http.Handler
	// Plain is for a provider that limits no answer, and tells neither cached nor reasoning tokens.
	Plain bool
}

// Seen is a request as the server read it off the wire.
type Seen struct {
	Key             string
	Model           string
	System          string
	Messages        []providers.Message
	Schema          json.RawMessage
	MaxOutputTokens int
}

// Reply is what the server shall answer. With a Fault the other fields say how to fail, without one how to succeed.
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

// A wire renders each the way its provider does.
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
	// FaultCut: the answer breaks off in its middle and the connection is closed.
	FaultCut Fault = "cut connection"
	// FaultMalformed: the answer is whole, has status 200, and is not JSON.
	FaultMalformed Fault = "malformed answer"
)

// Malformed is the body for wires to render [FaultMalformed] with.
const Malformed = `{"answer": <this is no JSON>`

// Cut sends half of a body that claims to be whole, for wires to render [FaultCut] with.
func Cut(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler) // the one way in which net/http lets a handler drop the connection
}

// Protocol is a provider's format of requests and answers, to make an [Adapter.Wire] from. It is to be written from the
// wire format and not with an SDK's types, so that a mistake there cannot cancel itself out.
type Protocol struct {
	// Asks reports whether a request is one for a completion. All others are answered with 404.
	Asks func(*http.Request) bool
	// Decode reads a request. The server answers an error with 400.
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

// SetRetryAfter sets the header that tells when to come back, in whole seconds, if the reply does.
func SetRetryAfter(header http.Header, reply Reply) {
	if reply.RetryAfter > 0 {
		header.Set("Retry-After", fmt.Sprint(int(reply.RetryAfter/time.Second)))
	}
}
