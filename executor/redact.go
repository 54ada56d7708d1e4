package executor

import (
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
)

// Redactor takes secrets out of text, whatever an agent or a gate printed. Its methods may be called from any
// goroutine, do not block, and change nothing when they are called again with what they returned.
type Redactor interface {
	// Text gives a text without secrets.
	Text(s string) string
	// JSON does the same to the strings in a JSON text, which stays valid.
	JSON(data []byte) []byte
}

// asItIs is the Redactor that knows no secret.
type asItIs struct{}

func (asItIs) Text(s string) string    { return s }
func (asItIs) JSON(data []byte) []byte { return data }

// handOver is a value without secrets: a message as soon as it is read, since a secret that is cut in two is not recognised
// any more; and whatever leaves the executor.
func handOver[T any](e *Executor, v T) T {
	return secret.Each(v, e.cfg.Redact)
}

// reporting gives a report function that tells no secrets.
func (e *Executor) reporting(report func(boulder.Body) error) func(boulder.Body) error {
	return func(b boulder.Body) error { return report(handOver(e, b)) }
}

// fault is err with a text that holds no secrets.
func (e *Executor) fault(err error) error {
	if err == nil {
		return nil
	}
	return &cleanedError{err, e.cfg.Redact.Text(err.Error())}
}

type cleanedError struct {
	error
	text string
}

func (e *cleanedError) Error() string { return e.text }
func (e *cleanedError) Unwrap() error { return e.error }
