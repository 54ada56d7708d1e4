package executor

import (
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
)

// handOver is a value without secrets: a message as soon as it is read, since a secret that is cut in two is not recognised
// any more; and whatever leaves the executor.
func handOver[T any](e *Executor, v T) T {
	return secret.Each(v, e.cfg.Redact)
}

// reporting gives a report function that tells no secrets.
func (e *Executor) reporting(report func(boulder.Body) error) func(boulder.Body) error {
	return func(b boulder.Body) error { return report(handOver(e, b)) }
}

// cleanedError is an error whose text holds no secrets.
type cleanedError struct {
	error
	text string
}

func (e *cleanedError) Error() string { return e.text }
func (e *cleanedError) Unwrap() error { return e.error }
