package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const (
	exportVersion = 3 // of [Export], read and written
	// maxExport is the size limit for reading, in bytes. 1,000 sub-tasks with ten turns each take a fifth of it.
	maxExport = 256 << 20
)

// Export is a boulder as one document: its log, without the transcripts and brief files that the log refers to.
type Export struct {
	Version int             `json:"manager_export"`
	Events  []boulder.Event `json:"events"` // by number, from 1
}

// NewExport returns the document for a whole log.
func NewExport(events []boulder.Event) Export { return Export{exportVersion, events} }

// State returns the state that the events lead to. The error wraps [ErrBadExport]: the log is incomplete, an event does
// not fit, the records are inconsistent, or an id is not safe as a file name.
func (x *Export) State() (*boulder.State, error) {
	s := boulder.NewState()
	for i, e := range x.Events {
		if err := s.Replay(e); err != nil {
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

var safeID = text.Regexp(`^[a-zA-Z0-9_-]{1,64}$`)

func checkID(what, id string) error {
	if !safeID().MatchString(id) {
		return fmt.Errorf("the id %.80q of %s may only have 1 to 64 characters: letters, digits, - and _", id, what)
	}
	return nil
}

// Write writes the document, indented, with a final newline.
func (x *Export) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(x)
}

// ReadExport reads what [Export.Write] wrote, and refuses unknown fields. [Export.State] checks the records.
func ReadExport(r io.Reader) (Export, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxExport+1))
	if err != nil {
		return Export{}, fmt.Errorf("read the export: %w", err)
	}
	if len(data) > maxExport {
		return Export{}, badExport("it has more than %d MiB", maxExport>>20)
	}
	// Check the version first: the fields of a later one would be reported as mistakes.
	var version struct {
		Version *int `json:"manager_export"`
	}
	switch err := json.Unmarshal(data, &version); {
	case err != nil:
		return Export{}, badExport("it is not JSON: %w", err)
	case version.Version == nil:
		return Export{}, badExport("it has no \"manager_export\", which says its version: it comes from another program")
	case *version.Version != exportVersion:
		return Export{}, badExport("it has version %d, and this manager reads version %d: use the manager that wrote it, or a "+
			"newer one", *version.Version, exportVersion)
	}
	var x Export
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields() // unknown data would be lost
	if err := dec.Decode(&x); err != nil {
		return Export{}, badExport("%w", err)
	}
	return x, nil
}

// ErrBadExport is returned for an export that cannot be imported. Nothing is stored then.
var ErrBadExport = errors.New("the export cannot be imported")

func badExport(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrBadExport, fmt.Errorf(format, args...))
}

// ErrExists is returned by [DB.Import] for a boulder whose id is taken.
var ErrExists = errors.New("a boulder with this id is here already; nothing was imported")

// Import stores the whole log of a boulder like [DB.Commit], without making it the active one. s is the state that the
// events lead to ([Export.State]). The error wraps [ErrExists] if the boulder exists.
func (db *DB) Import(ctx context.Context, s *boulder.State, events []boulder.Event) error {
	err := db.commit(ctx, s, events, true)
	if errors.Is(err, ErrConflict) {
		err = ErrExists
	}
	if err != nil {
		return fmt.Errorf("import boulder %s: %w", s.Boulder.ID, err)
	}
	return nil
}

// Adopt moves the boulder of an export into a project, and returns its state and its original project. An unfinished
// boulder is paused. Its live attempts end as lost and uncounted, since their sessions are out of reach: a resume
// starts fresh ones. No session of it waits here, so what is not answered is asked again.
//
// project is an absolute directory; now is the time of the added events. Errors wrap [ErrBadExport] and leave x
// unchanged.
func (x *Export) Adopt(project string, now time.Time) (s *boulder.State, from string, err error) {
	if s, err = x.State(); err != nil {
		return nil, "", err
	}
	events := slices.Clone(x.Events)
	created := events[0].Body.(boulder.Created)
	from, created.Boulder.Project = created.Boulder.Project, project
	events[0].Body, s.Boulder.Project = created, project
	if !s.Boulder.Status.Terminal() {
		apply := func(body boulder.Body) {
			if err == nil {
				_, err = s.Apply(boulder.Event{Time: now, BoulderID: s.Boulder.ID, Body: body})
			}
		}
		apply(boulder.Resumed{}) // the time since the export does not count
		for _, body := range leftBehind(s) {
			apply(body)
		}
		if s.Boulder.Status != boulder.Paused {
			apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "imported"})
		}
	}
	if err != nil {
		return nil, "", badExport("boulder %s cannot be paused: %w", s.Boulder.ID, err)
	}
	x.Events = slices.Concat(events, s.TakeEvents())
	return s, from, nil
}

const askedElsewhere = "imported: its questions to the user stayed where they were, and are asked again"

// leftBehind ends the live attempts and books the usage of their turns, except for an attempt that asked for a replan:
// its turn is over. It also reopens parked sub-tasks that wait for an answer.
func leftBehind(s *boulder.State) (bodies []boulder.Body) {
	for _, o := range s.Live() {
		ref := o.Attempt.AttemptRef
		if r := s.Boulder.Replan; r != nil && r.AttemptRef == ref {
			continue
		}
		if used := o.Attempt.Running(); used != (boulder.Usage{}) {
			bodies = append(bodies, boulder.UsageReport{
				SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Source: boulder.UsageAttempt, Model: o.Attempt.Model, Usage: used,
			})
		}
		retry := boulder.Retry{
			AttemptRef: ref, Status: boulder.AttemptLost, Uncounted: true, Next: ref.Attempt + 1,
			Reason: "imported: its session stayed where it was",
		}
		if len(o.SubTask.AwaitedBy(ref.Attempt)) > 0 { // without the answer, only the user may continue it
			retry.Status, retry.Reason = boulder.AttemptCancelled, askedElsewhere
		}
		bodies = append(bodies, retry)
	}
	for _, t := range s.SubTasks {
		if t.Parked && len(t.AwaitedBy(t.Attempts)) > 0 {
			bodies = append(bodies, boulder.Reopened{SubTaskID: t.ID, Reason: askedElsewhere})
		}
	}
	return bodies
}
