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
	pathExport     = "/v1/export"     // ?id
	pathResolve    = "/v1/resolve"    // ?ref
	pathUnfinished = "/v1/unfinished" // the newest
	pathOrder      = "/v1/order"      // POST, an [orderRequest]
	pathSubmit     = "/v1/submit"     // POST, a [Submission]
)

// maxOrder bounds the body of an order, in bytes. A note of 4,000 characters has at most 48,000, each of them escaped.
const maxOrder = 64 << 10

// orderRequest is the body of an order.
type orderRequest struct {
	BoulderID string        `json:"boulder_id"`
	Order     boulder.Order `json:"order"`
}

// answer is the body of every response. Both parts are there when some records could be read and others not.
type answer[T any] struct {
	Result T          `json:"result"`
	Error  *wireError `json:"error,omitempty"`
}

// wireError carries an error of a [Source] or a [Steerer] so that errors.Is and errors.As find the same on the other
// side.
type wireError struct {
	Message    string       `json:"message"`
	NotFound   bool         `json:"not_found,omitempty"`
	Refused    bool         `json:"refused,omitempty"`
	Finished   bool         `json:"finished,omitempty"`
	NotReady   bool         `json:"not_ready,omitempty"`
	Unanswered bool         `json:"unanswered,omitempty"`
	NoFurther  bool         `json:"no_further,omitempty"`
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
	w := &wireError{Message: err.Error()}
	for sentinel, said := range w.sentinels() {
		*said = errors.Is(err, sentinel)
	}
	if a, ok := errors.AsType[*store.AmbiguousError](err); ok {
		w.Ambiguous = &wireChoice{a.Ref, a.Candidates}
	}
	w.addUnreadable(err)
	return w
}

// sentinels are the errors that are told by a flag each.
func (w *wireError) sentinels() map[error]*bool {
	return map[error]*bool{
		boulder.ErrNotFound: &w.NotFound, boulder.ErrRefused: &w.Refused, boulder.ErrFinished: &w.Finished,
		ErrNotReady: &w.NotReady, ErrUnanswered: &w.Unanswered, ErrNoSubmitter: &w.NoFurther,
	}
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
	for sentinel, said := range w.sentinels() {
		if *said {
			e.causes = append(e.causes, sentinel)
		}
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
