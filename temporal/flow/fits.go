package flow

import (
	"encoding/json"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
)

// Largest is the size limit of a payload, in bytes. By default a server accepts 2 MB, Temporal's own fields included.
const Largest = 2_000_000

// Fits returns a fatal error if payload is too large: the server would refuse it on every retry.
func Fits(what string, payload any) error {
	data, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", boulder.ErrFatal, what, err)
	}
	if len(data) > Largest {
		return fmt.Errorf("%w: %s has %.1f MB, and Temporal takes %.1f MB", boulder.ErrFatal, what, float64(len(data))/1e6, Largest/1e6)
	}
	return nil
}
