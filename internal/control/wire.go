package control

import (
	"errors"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// Paths of the requests. The version is that of the whole protocol: a server of another one answers 404.
const (
	pathHolder     = "/v1/holder"
	pathBoulders   = "/v1/boulders"
	pathBoulder    = "/v1/boulder"    // ?id
	pathTurns      = "/v1/turns"      // ?id &sub_task
	pathEvents     = "/v1/events"     // ?id &after &limit &wait
	pathResolve    = "/v1/resolve"    // ?ref
	pathUnfinished = "/v1/unfinished" // the newest
)

// answer is the body of every response. Both parts are there when some records could be read and others not.
type answer[T any] struct {
	Result T          `json:"result"`
	Error  *wireError `json:"error,omitempty"`
}

// wireError carries an error of a [Source] so that errors.Is and errors.As find the same on the other side.
type wireError struct {
	Message    string       `json:"message"`
	NotFound   bool         `json:"not_found,omitempty"`
	Ambiguous  *wireChoice  `json:"ambiguous,omitempty"`
	Unreadable []wireRecord `json:"unreadable,omitempty"`
}

type wireChoice struct {
	Ref        string   `json:"ref"`
	Candidates []string `json:"candidates"`
}

type wireRecord struct {
	Bucket  string `json:"bucket"`
	Key     string `json:"key"`
	Message string `json:"message"`
}

// encodeError returns nil for nil.
func encodeError(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Message: err.Error(), NotFound: errors.Is(err, boulder.ErrNotFound)}
	if a, ok := errors.AsType[*store.AmbiguousError](err); ok {
		w.Ambiguous = &wireChoice{a.Ref, a.Candidates}
	}
	w.addUnreadable(err)
	return w
}

// addUnreadable collects every [store.CorruptError] in the tree of an error; errors.As would find the first.
func (w *wireError) addUnreadable(err error) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *store.CorruptError:
		w.Unreadable = append(w.Unreadable, wireRecord{e.Bucket, e.Key, e.Err.Error()})
	case interface{ Unwrap() error }:
		w.addUnreadable(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			w.addUnreadable(err)
		}
	}
}

// decode is the other end of encodeError.
func (w *wireError) decode() error {
	if w == nil {
		return nil
	}
	e := &remoteError{message: w.Message}
	if w.NotFound {
		e.causes = append(e.causes, boulder.ErrNotFound)
	}
	if w.Ambiguous != nil {
		e.causes = append(e.causes, &store.AmbiguousError{Ref: w.Ambiguous.Ref, Candidates: w.Ambiguous.Candidates})
	}
	for _, r := range w.Unreadable {
		e.causes = append(e.causes, &store.CorruptError{Bucket: r.Bucket, Key: r.Key, Err: errors.New(r.Message)})
	}
	return e
}

// remoteError is an error of the other process: its words, and causes for errors.Is and errors.As.
type remoteError struct {
	message string
	causes  []error
}

func (e *remoteError) Error() string   { return e.message }
func (e *remoteError) Unwrap() []error { return e.causes }
