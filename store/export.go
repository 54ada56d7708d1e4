package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const (
	// exportVersion is the version of [Export] that this code writes and reads.
	exportVersion = 2
	// maxExport is the longest export that is read, in bytes. A run of 1,000 sub-tasks with ten turns each takes a fifth.
	maxExport = 256 << 20
)

// Export is a whole boulder as one document: its log. The texts that events refer to, transcripts and the files of briefs,
// are not part of it.
type Export struct {
	Version int              `json:"manager_export"`
	Events  []boulder.Logged `json:"events"` // by number, from 1
}

// Export returns a boulder with everything that happened to it. Errors wrap [boulder.ErrNotFound], or name what cannot be
// read as a [CorruptError]: half a boulder is not exported.
func (db *DB) Export(ctx context.Context, boulderID string) (Export, error) {
	events, err := db.Events(ctx, boulderID, 0, 0)
	if err == nil {
		_, err = db.Load(ctx, boulderID) // which misses an event that is not there
	}
	if err != nil {
		return Export{}, fmt.Errorf("export: %w", err)
	}
	x := Export{Version: exportVersion}
	for _, e := range events {
		x.Events = append(x.Events, boulder.Logged{Event: e})
	}
	return x, nil
}

// State is what the events lead to. An error says why the export cannot be imported: the log does not begin with the
// beginning, misses an event or has one that does not follow the others, or an id would be no safe name of a file. It
// wraps [ErrBadExport].
func (x *Export) State() (*boulder.State, error) {
	if err := checkVersion(x.Version); err != nil {
		return nil, err
	}
	s := boulder.NewState()
	for i := range x.Events {
		if err := s.Replay(x.Events[i].Event); err != nil {
			return nil, badExport("event %d: %w", i+1, err)
		}
	}
	err := checkID("the boulder", s.Boulder.ID)
	for i, t := range s.SubTasks {
		err = errors.Join(err, checkID(fmt.Sprintf("sub-task %d", i+1), t.ID))
	}
	if err = errors.Join(err, s.Check()); err != nil {
		return nil, badExport("%w", err)
	}
	return s, nil
}

// safeID matches ids that can be names of directories.
var safeID = text.Regexp(`^[a-zA-Z0-9_-]{1,64}$`)

func checkID(what, id string) error {
	if !safeID().MatchString(id) {
		return fmt.Errorf("the id %.80q of %s may only have 1 to 64 characters: letters, digits, - and _", id, what)
	}
	return nil
}

// Write writes the document, indented, with a line break at its end.
func (x *Export) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(x)
}

// ReadExport reads what [Export.Write] wrote, and refuses what it does not know. It checks the form; what the records say
// is checked by [DB.Import].
func ReadExport(r io.Reader) (Export, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxExport+1))
	if err != nil {
		return Export{}, fmt.Errorf("read the export: %w", err)
	}
	if len(data) > maxExport {
		return Export{}, badExport("it has more than %d MiB", maxExport>>20)
	}
	// The version first: a later one may have fields that would be called faults.
	var version struct {
		Version *int `json:"manager_export"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return Export{}, badExport("it is not JSON: %w", err)
	}
	if version.Version == nil {
		return Export{}, badExport("it has no \"manager_export\", which says its version: it comes from another program")
	}
	if err := checkVersion(*version.Version); err != nil {
		return Export{}, err
	}
	var x Export
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields() // what is not understood would be lost
	if err := dec.Decode(&x); err != nil {
		return Export{}, badExport("%w", err)
	}
	return x, nil
}

func checkVersion(found int) error {
	if found == exportVersion {
		return nil
	}
	return badExport("it has version %d, and this manager reads version %d: use the manager that wrote it, or a newer one",
		found, exportVersion)
}

// ErrBadExport is returned for an export that cannot be imported. Nothing was stored then.
var ErrBadExport = errors.New("the export cannot be imported")

func badExport(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrBadExport, fmt.Errorf(format, args...))
}
