package blockers

import (
	"errors"
	"strings"
)

var (
	// ErrOff is returned for what comes up where diversion is switched off. Nothing was recorded.
	ErrOff = errors.New("the blocker diverter is off; nothing was recorded")
	// ErrTooMany is returned for a blocker of a session that has [Config.Max] of them. Nothing was recorded.
	ErrTooMany = errors.New("this session has as many blockers as it may have; nothing was recorded")
	// ErrNotFound is returned for an id that is not there.
	ErrNotFound = errors.New("no such blocker")
	// ErrSettled is returned for an answer to what has one, or was skipped.
	ErrSettled = errors.New("it is settled already")
	// ErrNothingToAllow is returned for a permission given to what did not ask for one.
	ErrNothingToAllow = errors.New("it did not ask for a permission, so there is none to give: answer it with a text")
)

// InputError says what is wrong with a call of the tool, in words for the agent that made it.
type InputError struct {
	Problems []FieldError // in the order of the tool's fields; at least one
}

// FieldError is about one field of a call.
type FieldError struct {
	Field   string // as the tool has it: blocks_progress
	Problem string // a sentence that names the field
}

func (e *InputError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Problem
	}
	return strings.Join(texts, "\n")
}
