package providerstest

import (
	"fmt"
	"net/http"
	"time"
)

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
