package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/bouldermgr/manager/boulder"
)

// Detail is one boulder as a view shows it.
type Detail struct {
	Boulder  boulder.Boulder       `json:"boulder"`
	Revision *boulder.PlanRevision `json:"revision,omitempty"` // the current one; nil while planning
	SubTasks []boulder.SubTask     `json:"sub_tasks"`          // in plan order
	Attempts []boulder.Attempt     `json:"attempts"`           // in plan order, then by number
}

// List returns all boulders, the newest first. With a joined error that names the ones that cannot be read as
// [CorruptError], the others are returned all the same.
func (db *DB) List(ctx context.Context) (all []boulder.Boulder, err error) {
	err = db.view(ctx, func(s *snapshot) (err error) {
		all, err = collect(heads(ctx, s))
		return errors.Join(s.damageOf(""), err)
	})
	return all, wrap("list boulders", err)
}

// heads reads the head records, the newest first. It ends early, with an error, when ctx does.
func heads(ctx context.Context, s *snapshot) iter.Seq2[boulder.Boulder, error] {
	return func(yield func(boulder.Boulder, error) bool) {
		for id := range newest(s) {
			if ctx.Err() != nil {
				yield(boulder.Boulder{}, context.Cause(ctx))
				return
			}
			b, err := head(s, id)
			if errors.Is(err, boulder.ErrNotFound) { // its place in the list is there
				err = &CorruptError{Bucket: string(bucketBoulders), Key: id, Err: errMissing}
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// newest lists the ids of all boulders, the newest first.
func newest(s *snapshot) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range s.table(inCreated).backwards() {
			if !yield(createdID(k)) {
				return
			}
		}
	}
}

// Get returns a boulder with its plan, sub-tasks and attempts. Errors wrap [boulder.ErrNotFound]; or they name the
// records that cannot be read as [CorruptError], and what can be read is returned all the same.
func (db *DB) Get(ctx context.Context, boulderID string) (d Detail, err error) {
	err = db.view(ctx, func(s *snapshot) (err error) {
		d, err = detail(s, boulderID)
		return err
	})
	return d, wrap("get", err)
}

func detail(s *snapshot, id string) (Detail, error) {
	w, err := openWork(s, id)
	if err != nil {
		return Detail{}, err
	}
	var d Detail
	var headErr, revisionErr, subTaskErr, attemptErr error
	d.Boulder, headErr = head(s, id)
	d.Revision, revisionErr = w.revision(d.Boulder.Revision)
	d.SubTasks, subTaskErr = collect(scan[boulder.SubTask](w, inSubTasks, nil))
	d.Attempts, attemptErr = collect(scan[boulder.Attempt](w, inAttempts, nil))
	d.sort()
	return d, errors.Join(w.damage, headErr, revisionErr, subTaskErr, attemptErr)
}

// sort puts records that come by id into plan order.
func (d *Detail) sort() {
	slices.SortFunc(d.SubTasks, func(a, b boulder.SubTask) int { return cmp.Compare(a.Position, b.Position) })
	sortByPlan(d.Attempts, d.SubTasks, func(a *boulder.Attempt) string { return a.SubTaskID })
}

// sortByPlan puts records of sub-tasks into plan order; those of one sub-task keep theirs.
func sortByPlan[T any](records []T, plan []boulder.SubTask, subTaskID func(*T) string) {
	position := make(map[string]int, len(plan))
	for i := range plan {
		position[plan[i].ID] = plan[i].Position
	}
	slices.SortStableFunc(records, func(a, b T) int {
		return cmp.Compare(position[subTaskID(&a)], position[subTaskID(&b)])
	})
}

// Turns returns the turns of all attempts of a sub-task, in order: prompts, evidence and verdicts. Errors are those of
// [DB.Get]; a sub-task without turns, or without a record, has none.
func (db *DB) Turns(ctx context.Context, boulderID, subTaskID string) (turns []boulder.Turn, err error) {
	err = db.view(ctx, func(s *snapshot) error {
		w, err := openWork(s, boulderID)
		if err != nil {
			return err
		}
		turns, err = collect(scan[boulder.Turn](w, inTurns, subTaskPrefix(subTaskID)))
		return errors.Join(w.damage, err)
	})
	return turns, wrap("turns of sub-task "+subTaskID, err)
}

// Events returns the events of a boulder that follow number afterSeq, in order, at most limit of them; limit 0 is all.
// Errors are those of [DB.Get].
func (db *DB) Events(
	ctx context.Context, boulderID string, afterSeq uint64, limit int,
) (events []boulder.Event, err error) {
	err = db.view(ctx, func(s *snapshot) error {
		w, err := openWork(s, boulderID)
		if err != nil || afterSeq+1 == 0 {
			return err
		}
		records := scanFrom[boulder.Event](w, inEvents, nil, number64(afterSeq+1))
		events, err = collect(first(limit, records))
		return errors.Join(w.damage, err)
	})
	return events, wrap("events", err)
}

// first ends a sequence after n elements, or never if n is 0.
func first[T any](n int, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	if n <= 0 {
		return seq
	}
	return func(yield func(T, error) bool) {
		i := 0
		for x, err := range seq {
			i++
			if !yield(x, err) || i == n {
				return
			}
		}
	}
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
