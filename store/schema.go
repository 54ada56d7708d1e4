package store

import (
	"encoding/binary"
	"fmt"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// The database, as buckets (name/) and keys. Numbers are big-endian, so that their order is the order of the keys;
// every other value is JSON.
//
//	meta/
//	    schema                            version of this tree, decimal
//	    active                            id of the boulder that was begun or taken up last; absent before the first
//	    journal                           number of the newest entry of the journal that is in the tree, 8 bytes; 1 if
//	                                      there may be later ones, or 0; a checksum, 4 bytes; absent before the first
//	boulders/
//	    <boulder id>                      boulder.Boulder, the head
//	created/
//	    <created, µs, 8 bytes><boulder id>  Item, in binary; read backwards it lists the newest boulder first
//	work/
//	    <boulder id>/
//	        revisions/
//	            <number, 4 bytes>         boulder.PlanRevision
//	        sub_tasks/
//	            <sub-task id>             boulder.SubTask
//	        attempts/
//	            <sub-task id> 00 <attempt, 4 bytes>            boulder.Attempt
//	        open/
//	            <sub-task id> 00 <attempt, 4 bytes>            nothing; there while the attempt is not over
//	        turns/
//	            <sub-task id> 00 <attempt, 4 bytes><turn, 4 bytes>  boulder.Turn
//	        events/
//	            <seq, 8 bytes>            boulder.Event
//	journal/
//	    room                              entries that are not in the tree yet; see journal.go
//	damaged/
//	    <number, 8 bytes><boulder id>     what was there instead of an entry of the journal that could not be read
//
// Every record is a key of its own, so that a commit costs what it changes and not what the plan holds. Heads are apart
// from the rest, and what a list shows of them is kept beside the order of the list, so that listing reads nothing else.
// The sequence of the bucket created is the number of boulders. The open index lets [DB.Load] find the few attempts that
// are not over without reading those that are.
//
// Version 2 had no journal. Version 1 had no active boulder, no items, and heads without a tally.
const schemaVersion = 3

var (
	bucketMeta     = []byte("meta")
	bucketBoulders = []byte("boulders")
	bucketCreated  = []byte("created")
	bucketWork     = []byte("work")
	bucketJournal  = []byte("journal")
	bucketDamaged  = []byte("damaged")

	bucketRevisions = []byte("revisions")
	bucketSubTasks  = []byte("sub_tasks")
	bucketAttempts  = []byte("attempts")
	bucketOpen      = []byte("open")
	bucketTurns     = []byte("turns")
	bucketEvents    = []byte("events")

	keySchema  = []byte("schema")
	keyActive  = []byte("active")
	keyJournal = []byte("journal")
	keyRoom    = []byte("room")
)

// initSchema makes the tree of an empty database.
func initSchema(tx *bolt.Tx) error {
	for _, name := range [][]byte{bucketMeta, bucketBoulders, bucketCreated, bucketWork} {
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("make bucket %s: %w", name, err)
		}
	}
	if err := makeRoom(tx); err != nil {
		return err
	}
	return tx.Bucket(bucketMeta).Put(keySchema, []byte(strconv.Itoa(schemaVersion)))
}

// checkSchema gives the version of the tree, and refuses one that this code does not know. 0 is a database without any
// bucket: a new one, or one whose maker crashed before [initSchema].
func checkSchema(tx *bolt.Tx) (version int, err error) {
	if name, _ := tx.Cursor().First(); name == nil {
		return 0, nil
	}
	meta := tx.Bucket(bucketMeta)
	if meta == nil || meta.Get(keySchema) == nil {
		return 0, fmt.Errorf("%w: it belongs to another program", ErrUnusable)
	}
	text := string(meta.Get(keySchema))
	version, err = strconv.Atoi(text)
	if err != nil || version < 1 {
		return 0, fmt.Errorf("%w: its schema version is %q", ErrUnusable, text)
	}
	if version > schemaVersion {
		return 0, &VersionError{Found: version, Known: schemaVersion}
	}
	for _, name := range [][]byte{bucketBoulders, bucketCreated, bucketWork} {
		if tx.Bucket(name) == nil {
			return 0, fmt.Errorf("%w: bucket %s is missing", ErrUnusable, name)
		}
	}
	return version, nil
}

// createdKey orders boulders by age. Microseconds keep every time that JSON can hold, the zero time included, within 63
// bits; the flipped sign puts those before 1970 first.
func createdKey(b *boulder.Boulder) []byte {
	us := uint64(b.CreatedAt.UnixMicro()) ^ 1<<63
	return append(binary.BigEndian.AppendUint64(nil, us), b.ID...)
}

func createdID(key []byte) string { return string(key[min(8, len(key)):]) }

func number32(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func number64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// subTaskPrefix begins the keys of everything that belongs to one sub-task.
func subTaskPrefix(id string) []byte { return append([]byte(id), 0) }

func attemptKey(ref boulder.AttemptRef) []byte {
	return append(subTaskPrefix(ref.SubTaskID), number32(ref.Attempt)...)
}

func turnKey(ref boulder.AttemptRef, number int) []byte {
	return append(attemptKey(ref), number32(number)...)
}

// readable prints a key of one of the buckets of a boulder for people: `parser`, `parser/2`, `parser/2/1`, `17`.
func readable(bucket, key []byte) string {
	tail := map[string]int{
		string(bucketRevisions): 4, string(bucketAttempts): 5, string(bucketOpen): 5, string(bucketTurns): 9,
		string(bucketEvents): 8,
	}[string(bucket)]
	if len(key) < tail || tail == 0 {
		return strconv.Quote(string(key))
	}
	id, numbers := key[:len(key)-tail], key[len(key)-tail:]
	switch tail {
	case 4:
		return strconv.FormatUint(uint64(binary.BigEndian.Uint32(numbers)), 10)
	case 8:
		return strconv.FormatUint(binary.BigEndian.Uint64(numbers), 10)
	}
	text := string(id)
	for n := numbers[1:]; len(n) > 0; n = n[4:] {
		text += "/" + strconv.FormatUint(uint64(binary.BigEndian.Uint32(n)), 10)
	}
	return text
}
