package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/boltfile"
)

// What is wrong with the file, see package boltfile.
var (
	ErrHeld     = boltfile.ErrHeld
	ErrUnusable = boltfile.ErrUnusable
	ErrFull     = boltfile.ErrFull
	ErrMoved    = boltfile.ErrMoved
)

type (
	// VersionError says that the file was written by another manager.
	VersionError = boltfile.VersionError
	// CorruptError names a record that cannot be read.
	CorruptError = boltfile.CorruptError
)

var (
	// ErrConflict is returned by [DB.Commit] for events that do not follow what is stored: the remedy is to load it again.
	ErrConflict = errors.New("the boulder was changed by somebody else in the meantime; resume it to go on")
	// ErrAllArchived is an [boulder.ErrNotFound] of [DB.Resolve]: no boulder is named and all are archived.
	ErrAllArchived = fmt.Errorf("%w: everything that was run here is archived (see `manager list --archived`)",
		boulder.ErrNotFound)
)

// AmbiguousError is returned by [DB.Resolve] for a text that fits more than one boulder.
type AmbiguousError struct {
	Ref        string
	Candidates []string // ids, the newest first
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q fits %d boulders, give more of the id: %s", e.Ref, len(e.Candidates),
		strings.Join(e.Candidates, ", "))
}
