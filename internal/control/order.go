package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// order answers a POST of an [orderRequest].
func (s *Server) order(w http.ResponseWriter, r *http.Request) {
	take(s, w, r, maxOrder, func(ctx context.Context, steerer Steerer, req orderRequest) (any, error) {
		if err := req.Order.Validate(); err != nil {
			return nil, fmt.Errorf("%w: %w", boulder.ErrRefused, err)
		}
		return nil, steerer.Order(ctx, req.BoulderID, req.Order)
	})
}

// submit answers a POST of a [Submission].
func (s *Server) submit(w http.ResponseWriter, r *http.Request) {
	take(s, w, r, maxSubmission, func(ctx context.Context, steerer Steerer, what Submission) (any, error) {
		submitter, ok := steerer.(Submitter)
		if !ok {
			return nil, ErrNoSubmitter
		}
		return submitter.Submit(ctx, what)
	})
}

// take reads a body and has it carried out. What is not such a body is answered with 400, and nothing is done.
func take[T any](
	s *Server, w http.ResponseWriter, r *http.Request, limit int64, do func(context.Context, Steerer, T) (any, error),
) {
	req, err := readBody[T](w, r, limit)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.answer(w, r, func(*http.Request) (any, error) {
		return s.carryOut(func(ctx context.Context, steerer Steerer) (any, error) { return do(ctx, steerer, req) })
	})
}

// readBody reads strictly: a field that this version does not know could be what the request is about.
func readBody[T any](w http.ResponseWriter, r *http.Request, limit int64) (req T, err error) {
	conn := http.NewResponseController(w)
	if err := conn.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return req, err
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return req, fmt.Errorf("this cannot be read: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return req, errors.New("this cannot be read: there is more behind it")
	}
	return req, conn.SetReadDeadline(time.Time{})
}

// carryOut hands a request on. Once it was received whole it is carried out, even if the client goes away before the
// answer: closing a terminal at that moment takes nothing back. Only a server that closes meanwhile may end it.
func (s *Server) carryOut(do func(context.Context, Steerer) (any, error)) (any, error) {
	s.mu.Lock()
	steerer := s.steerer
	if steerer == nil || s.closing {
		s.mu.Unlock()
		return nil, ErrNotReady
	}
	s.orders.Add(1)
	s.mu.Unlock()
	defer s.orders.Done()
	ctx, cancel := context.WithTimeoutCause(s.patient, orderPatience, errNotHeard)
	defer cancel()
	result, err := do(ctx, steerer)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil, fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return result, err
}

var (
	errClosing  = errors.New("the process that holds the state has ended")
	errNotHeard = errors.New("the process that holds the state is very busy or hangs")
)
