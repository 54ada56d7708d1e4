package boulder

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound is what a store returns for a boulder that it does not have.
	ErrNotFound = errors.New("no such boulder")
	// ErrFinished is returned for what cannot be done with a boulder that is over.
	ErrFinished = errors.New("nothing to resume")
	// ErrTrouble marks a fault of nobody (server gone, connection refused, 5xx, rate limit): tried again, and no attempt.
	ErrTrouble = errors.New("infrastructure trouble")
	// ErrSessionLost marks a session that the runner does not know any more.
	ErrSessionLost = errors.New("session lost")
	// ErrFatal marks a fault that ends the run at once, because every further try would end the same way (wrong key,
	// unknown model). The boulder stays resumable.
	ErrFatal = errors.New("cannot go on")
	// ErrNoCredit is an ErrFatal for an account that has no credit left: only a person can help, by topping it up.
	ErrNoCredit = fmt.Errorf("%w: no credit", ErrFatal)
	// ErrNoNewPlan is what a planner returns that was asked for another plan and has none.
	ErrNoNewPlan = errors.New("the Task Ledger has no other plan")
)

// TroubleKind says what sort of fault [ErrTrouble] was.
type TroubleKind string

const (
	TroubleServer     TroubleKind = "server"     // the OpenCode server, or the way to it
	TroubleNetwork    TroubleKind = "network"    // the way to a model, or a 5xx of it
	TroubleRateLimit  TroubleKind = "rate_limit" // too many requests: the model has to cool down
	TroubleOverloaded TroubleKind = "overloaded" // no capacity: the model has to cool down
	TroublePaused     TroubleKind = "paused"     // no fault: a person stopped it for now
	TroubleJudge      TroubleKind = "judge"      // the judge answered, but not in a usable way
)

// TroubleError is an [ErrTrouble] that says more. A plain ErrTrouble counts as [TroubleServer].
type TroubleError struct {
	Kind TroubleKind
	// Model that has to cool down, provider/model; empty: the attempt's own, or for a judgement the ledger's.
	Model string
	// RetryAfter is how long the other side asked to wait, counted from when the error was made. Zero: it did not say.
	RetryAfter time.Duration
	Err        error
}

func (e *TroubleError) Error() string { return e.Err.Error() }

// Unwrap makes it an ErrTrouble, besides what it wraps.
func (e *TroubleError) Unwrap() []error { return []error{ErrTrouble, e.Err} }
