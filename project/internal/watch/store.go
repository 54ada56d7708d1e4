package watch

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/store"
)

const (
	// FileName is the database of watched sessions in the state directory: not that of runs, so that both can be open.
	FileName = "watch.db"
	// maxHistory is how many decisions of a session are kept.
	maxHistory = 500
	// schemaVersion is the version of the tree below.
	schemaVersion = 1
)

// The database, as buckets (name/) and keys. Values are JSON.
//
//	meta/
//	    schema                   version of this tree, decimal
//	sessions/
//	    <session id>             Record
//	decisions/
//	    <session id>/
//	        <number, 8 bytes>    Entry, the oldest first
var (
	bucketSessions  = []byte("sessions")
	bucketDecisions = []byte("decisions")
)

// Store keeps the records of watched sessions. One process at a time has it open for writing. Safe for concurrent use.
type Store struct{ file *boltfile.DB }

// OpenStore opens the database at path as [store.Open] does.
func OpenStore(path string, opts store.Options) (*Store, error) {
	file, err := boltfile.Open(path, boltfile.Tree{
		Version: schemaVersion, Buckets: []string{string(bucketSessions), string(bucketDecisions)},
	}, opts)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &Store{file: file}, nil
}

// Close gives the file up.
func (s *Store) Close() error { return s.file.Close() }

// Save stores records, and appends decisions to their sessions' histories, in one transaction that is synced.
func (s *Store) Save(records []Record, entries ...Entry) error {
	err := s.file.Update(context.Background(), func(tx *bolt.Tx) error {
		for _, r := range records {
			if err := s.put(tx.Bucket(bucketSessions), []byte(r.SessionID), r); err != nil {
				return err
			}
		}
		for _, e := range entries {
			b, err := tx.Bucket(bucketDecisions).CreateBucketIfNotExists([]byte(e.SessionID))
			if err != nil {
				return err
			}
			number, err := b.NextSequence()
			if err = errors.Join(err, s.put(b, decisionKey(number), e)); err != nil {
				return err
			}
			if number > maxHistory {
				if err := b.Delete(decisionKey(number - maxHistory)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save %s: %w", s.file.Path(), err)
	}
	return nil
}

func decisionKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

func (s *Store) put(b *bolt.Bucket, key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return b.Put(key, s.file.Clean(data))
}

// Forget removes everything about a session.
func (s *Store) Forget(sessionID string) error {
	return s.file.Update(context.Background(), func(tx *bolt.Tx) error {
		err := tx.Bucket(bucketDecisions).DeleteBucket([]byte(sessionID))
		if err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
			return err
		}
		return tx.Bucket(bucketSessions).Delete([]byte(sessionID))
	})
}

// Records returns all sessions in order of their ids. The error names unreadable ones; the others are still returned.
func (s *Store) Records() ([]Record, error) { return all[Record](s, bucketSessions) }

// History returns the decisions about a session, oldest first; none for an unknown session.
func (s *Store) History(sessionID string) ([]Entry, error) {
	return all[Entry](s, bucketDecisions, []byte(sessionID))
}

func all[T any](s *Store, path ...[]byte) (values []T, err error) {
	var faults []error
	err = s.file.View(context.Background(), func(tx *bolt.Tx) error {
		b := tx.Bucket(path[0])
		for _, name := range path[1:] {
			if b = b.Bucket(name); b == nil {
				return nil
			}
		}
		return b.ForEach(func(key, data []byte) error {
			var v T
			if err := json.Unmarshal(data, &v); err != nil {
				name := string(key)
				if len(path) > 1 { // a number
					name = fmt.Sprintf("%x", key)
				}
				bucket := string(bytes.Join(path, []byte("/")))
				faults = append(faults, &store.CorruptError{Bucket: bucket, Key: name, Err: err})
				return nil
			}
			values = append(values, v)
			return nil
		})
	})
	return values, errors.Join(append(faults, err)...)
}

// Record is what is stored of a watched session.
type Record struct {
	SessionID string         `json:"session_id"`
	Title     string         `json:"title,omitempty"`
	Track     enforcer.Track `json:"track"`
	Cursor    session.Cursor `json:"cursor"`
	// Awaits: it waits for an answer to a blocker, or to be told one.
	Awaits bool `json:"awaits,omitempty"`
	// Intent is the continuation that Track.Pending names; nil: none.
	Intent *Intent `json:"intent,omitempty"`
	// Request is the user's latest request, for a fresh session to continue it; at most 8,000 bytes.
	Request string `json:"request,omitempty"`
	// Asked: the user started it by its id, so it is watched no matter how long it rested.
	Asked bool `json:"asked,omitempty"`
	// Answered are the blockers whose answers the agent knows, or gets with Intent.
	Answered []string `json:"answered,omitempty"`
	// Spent is the session's cost when the loop named by Track.Began started. Budgets count from there.
	Spent     Spent     `json:"spent"`
	UpdatedAt time.Time `json:"updated_at"`
}

// drop forgets the continuation. If it began no turn, its answers are told again: twice is better than never.
func (r *Record) drop(ran bool) {
	if i := r.Intent; i != nil && !ran {
		r.Answered = slices.DeleteFunc(r.Answered, func(id string) bool { return slices.Contains(i.Answered, id) })
	}
	r.Intent = nil
}

// unfinished reports whether the session was left undone within the last day, so that a new watch continues it. A
// session that awaits an answer has no time limit.
func (r *Record) unfinished(now time.Time) bool {
	t := r.Track
	return t.Status == enforcer.Watching &&
		(r.Awaits || (t.Pending != "" || len(t.Open) > 0) && now.Sub(t.LastActivity) < 24*time.Hour)
}

// Spent is an amount of work of models.
type Spent struct {
	Since  time.Time `json:"since,omitzero"` // its Track.Began
	Tokens int64     `json:"tokens,omitempty"`
	Cost   float64   `json:"cost,omitempty"` // US dollars
}

// Intent is a continuation, stored before it is sent and resent after a crash: the server takes a message id once.
type Intent struct {
	MessageID string            `json:"message_id"`
	Text      string            `json:"text"`
	Agent     string            `json:"agent,omitempty"`
	Model     opencode.ModelRef `json:"model"`
	Variant   string            `json:"variant,omitempty"`
	// Fresh: it begins a session of its own, which has the message id in its metadata.
	Fresh bool `json:"fresh,omitempty"`
	// Answered are the blockers whose answers it tells.
	Answered []string `json:"answered,omitempty"`
}

// Entry is one decision about a session, as stored, shown and printed. Later versions only add fields.
type Entry struct {
	Type      string        `json:"type"` // decision
	Time      time.Time     `json:"time"`
	SessionID string        `json:"session_id"`
	Title     string        `json:"title,omitempty"`
	Decision  enforcer.Kind `json:"decision"`
	Gate      enforcer.Gate `json:"gate"`
	Reason    string        `json:"reason"`
	// Iteration counts the continuations since the loop began, including this one.
	Iteration int `json:"iteration"`
	// Failures counts the latest ones in a row without progress.
	Failures  int       `json:"failures,omitempty"`
	Until     time.Time `json:"until,omitzero"`       // the next decision; absent: after the next event
	MessageID string    `json:"message_id,omitempty"` // of send and fresh
	Prompt    string    `json:"prompt,omitempty"`     // of send and fresh
	// DryRun: nothing was done.
	DryRun bool `json:"dry_run,omitempty"`
}

// same reports whether two decisions say the same. Reasons may count seconds; the end of a task is always new.
func (e Entry) same(other Entry) bool {
	ends := (e.Decision == enforcer.Finish || e.Decision == enforcer.LetGo) && !e.DryRun
	return !ends && e.Decision == other.Decision && e.Gate == other.Gate && e.MessageID == other.MessageID &&
		e.Iteration == other.Iteration && e.Failures == other.Failures
}

// Status describes one session to users. Later versions only add fields.
type Status struct {
	Type      string `json:"type"` // watched-session
	SessionID string `json:"session_id"`
	Title     string `json:"title,omitempty"`
	enforcer.Overview
	Reason  string   `json:"reason,omitempty"` // of the status, or of the latest decision
	Watched bool     `json:"watched"`          // by a process, now
	Busy    bool     `json:"busy"`
	Open    []string `json:"open"` // when the newest turn ended
	Newest  *Entry   `json:"newest,omitempty"`
}
