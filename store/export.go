package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bouldermgr/manager/boulder"
)

const (
	// ExportVersion is the version of [Export] that this code writes and reads.
	ExportVersion = 1
	// MaxExport is the longest export that is read, in bytes. A run of 1,000 sub-tasks with ten turns each takes a fifth.
	MaxExport = 256 << 20
)

// Export is a whole boulder as one document: everything that the database knows about it. The texts that records refer to,
// transcripts and the files of briefs, are not part of it.
type Export struct {
	Version   int                    `json:"manager_export"`
	Boulder   boulder.Boulder        `json:"boulder"`
	Revisions []boulder.PlanRevision `json:"revisions"` // by number
	SubTasks  []boulder.SubTask      `json:"sub_tasks"` // in plan order
	Attempts  []boulder.Attempt      `json:"attempts"`  // in plan order, then by number
	Turns     []boulder.Turn         `json:"turns"`     // in plan order, then by attempt and number
	Events    []boulder.Event        `json:"events"`    // by number, from 1
}

// Export returns a boulder with all its records. Errors wrap [boulder.ErrNotFound], or name every record that cannot be
// read as a [CorruptError]: half a boulder is not exported.
func (db *DB) Export(ctx context.Context, boulderID string) (x Export, err error) {
	err = db.view(ctx, func(s *snapshot) (err error) {
		x, err = export(s, boulderID)
		return err
	})
	if err != nil {
		return Export{}, wrap("export", err)
	}
	return x, nil
}

func export(s *snapshot, id string) (Export, error) {
	d, err := detail(s, id)
	if err != nil {
		return Export{}, err
	}
	w, err := openWork(s, id)
	if err != nil {
		return Export{}, err
	}
	x := Export{Version: ExportVersion, Boulder: d.Boulder, SubTasks: d.SubTasks, Attempts: d.Attempts}
	var revisionErr, turnErr, eventErr error
	x.Revisions, revisionErr = collect(scan[boulder.PlanRevision](w, inRevisions, nil))
	x.Turns, turnErr = collect(scan[boulder.Turn](w, inTurns, nil))
	x.Events, eventErr = collect(scan[boulder.Event](w, inEvents, nil))
	sortByPlan(x.Turns, d.SubTasks, func(t *boulder.Turn) string { return t.SubTaskID })
	x.Revisions, x.SubTasks, x.Attempts = list(x.Revisions), list(x.SubTasks), list(x.Attempts)
	x.Turns, x.Events = list(x.Turns), list(x.Events)
	return x, errors.Join(revisionErr, turnErr, eventErr)
}

// list makes nothing an empty list, in JSON.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
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
	data, err := io.ReadAll(io.LimitReader(r, MaxExport+1))
	if err != nil {
		return Export{}, fmt.Errorf("read the export: %w", err)
	}
	if len(data) > MaxExport {
		return Export{}, badExport("it has more than %d MiB", MaxExport>>20)
	}
	// The version first: a later one may have fields that would be called faults.
	var version struct {
		Version *int `json:"manager_export"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return Export{}, badExport("it is not JSON: %w", err)
	}
	switch {
	case version.Version == nil:
		return Export{}, badExport("it has no \"manager_export\", which says its version: it comes from another program")
	case *version.Version != ExportVersion:
		return Export{}, badExport("it has version %d, and this manager reads version %d: use the manager that wrote it, or a "+
			"newer one", *version.Version, ExportVersion)
	}
	var x Export
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields() // what is not understood would be lost
	if err := dec.Decode(&x); err != nil {
		return Export{}, badExport("%w", err)
	}
	return x, nil
}

// ErrBadExport is returned for an export that cannot be imported. Nothing was stored then.
var ErrBadExport = errors.New("the export cannot be imported")

func badExport(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrBadExport, fmt.Errorf(format, args...))
}
