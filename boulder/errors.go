package boulder

import "errors"

var (
	// ErrNotFound is what a store returns for a boulder that it does not have.
	ErrNotFound = errors.New("no such boulder")
	// ErrTrouble marks a fault that is nobody's work (server gone, connection refused, 5xx, rate limit): it is tried
	// again, and is not an attempt.
	ErrTrouble = errors.New("infrastructure trouble")
	// ErrSessionLost marks a session that the runner does not know any more.
	ErrSessionLost = errors.New("session lost")
	// ErrFatal marks a fault that ends the run at once, because every further try would end the same way (wrong key,
	// unknown model). The boulder stays resumable.
	ErrFatal = errors.New("cannot go on")
)
