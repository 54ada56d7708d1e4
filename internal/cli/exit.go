package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
)

// Exit codes of the command line contract.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2   // usage, bad plan file or bad configuration
	exitPartial     = 3   // finished, but some sub-tasks failed
	exitWaiting     = 4   // stopped, waiting for a person
	exitHeld        = 5   // the state is held by another process
	exitInterrupted = 130 // a signal stopped it, or a person cancelled it
)

var (
	errInterrupted = errors.New("interrupted")
	// errPartial ends a run that is over and not completed. The view has told why.
	errPartial = errors.New("some sub-tasks failed, or a gate does not hold on the final files")
	// errLoopFailed is the same of a loop.
	errLoopFailed = errors.New("the loop ended without success")
	// errSilent ends a command that has said all there is to say.
	errSilent = errors.New("failed")
)

// notCompleted is the error of a boulder that is over and not completed.
func notCompleted(b *boulder.Boulder) error {
	if b.Loop != nil {
		return errLoopFailed
	}
	return errPartial
}

func usagef(format string, args ...any) error {
	return &project.UsageError{Err: fmt.Errorf(format, args...)}
}

// exitCode is the one place that maps errors to exit codes.
func exitCode(err error) int {
	var usage *project.UsageError
	var file *taskledger.FileError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted), errors.Is(err, orchestrator.ErrStopped), errors.Is(err, context.Canceled),
		errors.Is(err, orchestrator.ErrCancelled):
		return exitInterrupted
	case errors.Is(err, store.ErrHeld), errors.Is(err, control.ErrNotReady):
		return exitHeld
	case errors.As(err, &usage), errors.As(err, &file), errors.Is(err, orchestrator.ErrUnstartable),
		errors.Is(err, orchestrator.ErrNoFork):
		return exitUsage
	case errors.Is(err, orchestrator.ErrWaiting), errors.Is(err, boulder.ErrNoCredit):
		return exitWaiting
	case errors.Is(err, errPartial), errors.Is(err, errLoopFailed):
		return exitPartial
	}
	return exitError
}

// message is an error as a person reads it: what was refused only says why.
func message(err error) string {
	text := strings.TrimRight(err.Error(), "\n")
	if _, why, refused := strings.Cut(text, boulder.ErrRefused.Error()+": "); refused {
		return why
	}
	return text
}
