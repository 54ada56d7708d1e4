package project

import "fmt"

// UsageError is a request, plan file or configuration that cannot be used. What is wrong is in its text, with what to do.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *UsageError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error { return &UsageError{Err: fmt.Errorf(format, args...)} }
