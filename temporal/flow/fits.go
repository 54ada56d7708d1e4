package flow

import (
	"encoding/json"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
)

// Largest is how many bytes a payload may have. A server takes 2 MB by default, with what Temporal adds.
const Largest = 2_000_000

// Fits is an error for what is too large for a payload: the server would refuse it each time.
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
