package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
)

// Item is one boulder as a list shows it: a part of its head, kept ready so that a list of thousands costs little more
// than reading them.
type Item struct {
	BoulderID  string         `json:"boulder_id"`
	Task       string         `json:"task"` // the request; its first 1,000 characters
	Status     boulder.Status `json:"status"`
	Reason     string         `json:"reason,omitempty"`
	Active     bool           `json:"active"` // see [DB.Active]
	Tally      boulder.Tally  `json:"tally"`
	Usage      boulder.Usage  `json:"usage"`
	CreatedAt  time.Time      `json:"created_at"`
	UpdatedAt  time.Time      `json:"updated_at"`
	ArchivedAt time.Time      `json:"archived_at,omitzero"`
}

// maxListed is how many characters of a request a list keeps. One line of a terminal shows fewer; a head is rewritten
// with every commit, and its item with it.
const maxListed = 1000

// ItemOf is what a list shows of a boulder, apart from whether it is the active one.
func ItemOf(b *boulder.Boulder) Item {
	return Item{
		BoulderID: b.ID, Task: firstChars(b.Task, maxListed), Status: b.Status, Reason: b.Reason, Tally: b.Tally,
		Usage: b.Usage, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, ArchivedAt: b.ArchivedAt,
	}
}

// firstChars is the beginning of a text; a cut shows.
func firstChars(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n--; n == 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// Listing returns all boulders as a list shows them, the newest first, without reading their heads: for 10,000 of them
// it takes a twentieth of the time (BenchmarkListOf10000). Errors are those of [DB.List].
func (db *DB) Listing(ctx context.Context) (all []Item, err error) {
	err = db.view(ctx, func(s *snapshot) (err error) {
		all, err = listing(ctx, s)
		return err
	})
	return all, wrap("list boulders", err)
}

func listing(ctx context.Context, s *snapshot) ([]Item, error) {
	created := s.table(inCreated)
	// The sequence counts the boulders. A damaged one must not ask for all memory.
	all := make([]Item, 0, min(created.file.Sequence(), 1<<16))
	active := activeID(s)
	heads := s.table(inBoulders)
	var kept texts
	var faults []error
	for k, v := range created.backwards() {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		all = append(all, Item{})
		item := &all[len(all)-1]
		err := item.decode(k, v, &kept)
		if err != nil || v[0] == itemWithoutSum && heads.get([]byte(item.BoulderID)) == nil {
			*item, err = itemOfHead(s, createdID(k))
		}
		if err != nil {
			faults, all = append(faults, err), all[:len(all)-1]
			continue
		}
		item.Active = item.BoulderID == active
	}
	return all, errors.Join(append(faults, s.damageOf(""))...)
}

// itemOfHead makes an item where there is none that can be read: schema 1 has none, and in a damaged file the head may be
// readable where its item is not.
func itemOfHead(s *snapshot, id string) (Item, error) {
	b, err := head(s, id)
	if errors.Is(err, boulder.ErrNotFound) { // but something is in the list
		err = &CorruptError{Bucket: string(bucketCreated), Key: id, Err: errors.New("there is no boulder with this id")}
	}
	return ItemOf(&b), err
}

// texts copies bytes into strings. Many of them share one piece of memory, which is kept as long as any of them is.
type texts struct{ strings.Builder }

func (t *texts) copy(parts ...[]byte) string {
	const piece = 16 << 10
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if t.Cap()-t.Len() < n {
		t.Reset()
		t.Grow(max(piece, n))
	}
	at := t.Len()
	for _, p := range parts {
		t.Write(p)
	}
	return t.String()[at:]
}

// redacted takes over the texts of the head as it is stored: secrets were taken out of that, and must not come in again
// by the list.
func (it *Item) redacted(head []byte) error {
	var stored struct{ Task, Reason string }
	if err := json.Unmarshal(head, &stored); err != nil {
		return fmt.Errorf("read the head back: %w", err)
	}
	it.Task, it.Reason = firstChars(stored.Task, maxListed), stored.Reason
	return nil
}

// What an encoded item begins with. An item of another format is read from the head instead.
const (
	itemWithoutSum = 2 // of schema 2
	itemFormat     = 3
)

// encode writes an item in binary: numbers as varints, texts with their lengths before them, and a checksum of the key and
// of all that. Decoding it takes 0.2 µs, a twentieth of what JSON takes.
func (it *Item) encode(key []byte) []byte {
	out := append(make([]byte, 0, 160+len(it.Task)+len(it.Reason)), itemFormat)
	for _, s := range []string{it.Task, string(it.Status), it.Reason} {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}
	for _, n := range it.numbers() {
		out = binary.AppendVarint(out, *n)
	}
	for _, n := range it.counts() {
		out = binary.AppendVarint(out, int64(*n))
	}
	out = binary.BigEndian.AppendUint64(out, math.Float64bits(it.Usage.Cost))
	for _, t := range it.times() {
		out = binary.AppendVarint(out, t.Unix())
		out = binary.AppendUvarint(out, uint64(t.Nanosecond()))
	}
	return binary.BigEndian.AppendUint32(out, itemSum(key, out))
}

func itemSum(key, item []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, item)
}

func (it *Item) numbers() [7]*int64 {
	u := &it.Usage
	return [...]*int64{&u.Input, &u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning, &u.Calls, &u.Unpriced}
}

func (it *Item) counts() [7]*int {
	t := &it.Tally
	return [...]*int{&t.Planned, &t.InProgress, &t.Completed, &t.Skipped, &t.Failed, &t.Blocked, &t.Cancelled}
}

func (it *Item) times() [3]*time.Time {
	return [...]*time.Time{&it.CreatedAt, &it.UpdatedAt, &it.ArchivedAt}
}

var errItem = errors.New("it is not an item of a list")

// decode reads an encoded item. What it keeps is in kept, and does not point into key or value.
func (it *Item) decode(key, value []byte, kept *texts) error {
	end := len(value)
	switch {
	case end == 0:
		return errItem
	case value[0] == itemWithoutSum:
	case value[0] != itemFormat || end < 5:
		return errItem
	default:
		end -= 4
		if binary.BigEndian.Uint32(value[end:]) != itemSum(key, value[:end]) {
			return errItem
		}
	}
	id, r := key[min(8, len(key)):], itemReader{data: value[1:end]}
	task, status, reason := r.text(), r.text(), r.text()
	all := kept.copy(id, task, status, reason)
	next := func(n int) (text string) {
		text, all = all[:n], all[n:]
		return text
	}
	it.BoulderID, it.Task = next(len(id)), next(len(task))
	it.Status, it.Reason = boulder.Status(next(len(status))), next(len(reason))
	for _, n := range it.numbers() {
		*n = r.varint()
	}
	for _, n := range it.counts() {
		*n = int(r.varint())
	}
	it.Usage.Cost = math.Float64frombits(r.bits())
	for _, t := range it.times() {
		if sec, nsec := r.varint(), r.uvarint(); sec != zeroUnix || nsec != 0 {
			*t = time.Unix(sec, int64(nsec)).UTC()
		}
	}
	if r.bad || r.at < len(r.data) {
		return errItem
	}
	return nil
}

// zeroUnix is the zero time.
var zeroUnix = time.Time{}.Unix()

// itemReader takes an encoded item apart. After a fault it gives zeros.
type itemReader struct {
	data []byte
	at   int
	bad  bool
}

func (r *itemReader) text() []byte {
	n := r.uvarint()
	if n > uint64(len(r.data)-r.at) {
		r.bad = true
		return nil
	}
	from := r.at
	r.at += int(n)
	return r.data[from:r.at]
}

func (r *itemReader) uvarint() uint64 {
	var n uint64
	for i, shift := r.at, 0; i < len(r.data) && shift < 7*binary.MaxVarintLen64; i, shift = i+1, shift+7 {
		b := r.data[i]
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			r.at = i + 1
			return n
		}
	}
	r.bad = true
	return 0
}

func (r *itemReader) varint() int64 {
	n := r.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

func (r *itemReader) bits() uint64 {
	if len(r.data)-r.at < 8 {
		r.bad = true
		return 0
	}
	r.at += 8
	return binary.BigEndian.Uint64(r.data[r.at-8:])
}
