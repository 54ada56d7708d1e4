package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// place says in which bucket a record belongs. It is written into the journal, so a number never gets another meaning.
type place byte

const (
	inMeta place = iota + 1
	inBoulders
	inCreated
	inRevisions
	inSubTasks
	inAttempts
	inOpen
	inTurns
	inEvents
	places // their number, and one
)

// bucketOf names the buckets of all places. Those from inRevisions on are buckets of a boulder.
var bucketOf = [places][]byte{
	inMeta: bucketMeta, inBoulders: bucketBoulders, inCreated: bucketCreated, inRevisions: bucketRevisions,
	inSubTasks: bucketSubTasks, inAttempts: bucketAttempts, inOpen: bucketOpen, inTurns: bucketTurns,
	inEvents: bucketEvents,
}

// record is a key of a bucket, and what is to be there: nothing if value is nil.
type record struct {
	in    place
	key   []byte
	value []byte
}

// entry is a commit in the journal. It does not change once it is there.
type entry struct {
	number  uint64 // counts the entries of this database, from 1
	id      string // of the boulder
	records []record
}

// badEntry is an entry that cannot be read.
type badEntry struct {
	number uint64
	id     string // of the boulder that it belongs to
	raw    []byte // what is there instead
}

func (d badEntry) err() error {
	return &CorruptError{
		Bucket: string(bucketJournal), Key: fmt.Sprintf("%d/%s", d.number, d.id),
		Err: errors.New("its bytes are not those that were written; the newest changes of the boulder are missing: " +
			"put a copy of the database in its place, or begin the boulder anew (the others are not concerned)"),
	}
}

// An entry in the journal, numbers big-endian:
//
//	0   magic
//	4   checksum of the rest of the header
//	8   checksum of the records
//	12  length of the records, in bytes
//	16  number of the entry
//	24  length of the boulder's id
//	26  length of the id of the entry before
//	28  the boulder's id, and that of the entry before: whose it was if that one cannot be read
//	    the records: place, 1 byte; length of the key, and the key; length of the value and one, or 0 if the record
//	    is to be deleted, and the value. Lengths are varints.
const (
	entryMagic = "mgr1"
	headerSize = 28
)

// entryPage is what an entry begins at a multiple of, in bytes. A later entry is so never written into a page of the
// disk that holds one which was synced: a power cut while it is written could take that away.
const entryPage = 4096

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendTo encodes an entry; before is the id of the one before it in the journal.
func (e *entry) appendTo(out []byte, before string) []byte {
	at := len(out)
	out = append(out, make([]byte, headerSize)...)
	out = append(append(out, e.id...), before...)
	body := len(out)
	for _, r := range e.records {
		out = append(out, byte(r.in))
		out = append(binary.AppendUvarint(out, uint64(len(r.key))), r.key...)
		if r.value == nil {
			out = append(out, 0)
			continue
		}
		out = append(binary.AppendUvarint(out, uint64(len(r.value))+1), r.value...)
	}
	head := out[at:body]
	copy(head, entryMagic)
	binary.BigEndian.PutUint32(head[8:], crc32.Checksum(out[body:], castagnoli))
	binary.BigEndian.PutUint32(head[12:], uint32(len(out)-body))
	binary.BigEndian.PutUint64(head[16:], e.number)
	binary.BigEndian.PutUint16(head[24:], uint16(len(e.id)))
	binary.BigEndian.PutUint16(head[26:], uint16(len(before)))
	binary.BigEndian.PutUint32(head[4:], crc32.Checksum(head[8:], castagnoli))
	return out
}

// size is at least the number of bytes of the encoded entry.
func (e *entry) size(before string) int {
	n := headerSize + len(e.id) + len(before)
	for _, r := range e.records {
		n += 1 + 2*binary.MaxVarintLen32 + len(r.key) + len(r.value)
	}
	return n
}

// header is the beginning of an encoded entry.
type header struct {
	number     uint64
	id, before string
	sum        uint32
	body       []byte // the records, if they are all there
}

// readHeader reads the entry that begins where data does. ok is false if there is none.
func readHeader(data []byte) (h header, ok bool) {
	if len(data) < headerSize || string(data[:4]) != entryMagic {
		return header{}, false
	}
	id := headerSize + int(binary.BigEndian.Uint16(data[24:]))
	body := id + int(binary.BigEndian.Uint16(data[26:]))
	if body > len(data) || crc32.Checksum(data[8:body], castagnoli) != binary.BigEndian.Uint32(data[4:]) {
		return header{}, false
	}
	h = header{
		number: binary.BigEndian.Uint64(data[16:]), id: string(data[headerSize:id]), before: string(data[id:body]),
		sum: binary.BigEndian.Uint32(data[8:]),
	}
	if n := uint64(binary.BigEndian.Uint32(data[12:])); n <= uint64(len(data)-body) {
		h.body = data[body : body+int(n)]
	}
	return h, true
}

func (h header) size() int { return headerSize + len(h.id) + len(h.before) + len(h.body) }

// entry reads the records. What it returns does not point into the data.
func (h header) entry() (*entry, bool) {
	if h.body == nil || crc32.Checksum(h.body, castagnoli) != h.sum {
		return nil, false
	}
	e := &entry{number: h.number, id: h.id}
	for rest := bytes.Clone(h.body); len(rest) > 0; {
		r := record{in: place(rest[0])}
		var isNil, ok bool
		if r.key, rest, _, ok = cut(rest[1:], 0); !ok || r.in == 0 || r.in >= places {
			return nil, false
		}
		if r.value, rest, isNil, ok = cut(rest, 1); !ok {
			return nil, false
		}
		if isNil {
			r.value = nil
		}
		e.records = append(e.records, r)
	}
	return e, true
}

// cut takes a text off that has its length, and more, before it. isNil means that the length says even less.
func cut(data []byte, more uint64) (text, rest []byte, isNil, ok bool) {
	n, used := binary.Uvarint(data)
	switch {
	case used <= 0:
		return nil, nil, false, false
	case n < more:
		return nil, data[used:], true, true
	case n-more > uint64(len(data)-used):
		return nil, nil, false, false
	}
	end := used + int(n-more)
	return data[used:end:end], data[end:], false, true
}

// readEntries reads a journal: what follows entry number last, up to the end, which is where the next one goes.
//
// What cannot be read is the end, unless a later entry follows: then it is damaged. The last entry of all may so be
// taken for one that a crash tore. It is the one of which nobody can tell, as with a meta page of bbolt.
//
// tree gives the boulders that are not over. It is asked where nobody can tell whose an entry was.
func readEntries(
	data []byte, last uint64, tree func() []string,
) (entries []*entry, damaged []badEntry, end int) {
	var ids []string
	for end < len(data) {
		h, ok := readHeader(data[end:])
		if e, whole := h.entry(); ok && whole && h.number == last+1 {
			entries, ids, last = append(entries, e), append(ids, h.id), h.number
			end += pages(h.size())
			continue
		}
		later, at := nextEntry(data, end, last+2) // from here on: it may have taken the place of what is missing
		if at < 0 {
			break
		}
		d := badEntry{number: last + 1, raw: bytes.Clone(data[end:at])}
		if later.number == last+2 {
			d.id = later.before
		}
		damaged, ids, last, end = append(damaged, d), append(ids, later.before), later.number-1, at
	}
	if slices.ContainsFunc(damaged, func(d badEntry) bool { return d.id == "" }) {
		ids = append(ids, tree()...)
	}
	return entries, owned(damaged, ids), end
}

// nextEntry looks for an entry whose number is at least that, from a place on. Without one, at is -1.
func nextEntry(data []byte, from int, number uint64) (h header, at int) {
	for ; from < len(data); from += entryPage {
		if h, ok := readHeader(data[from:]); ok && h.number >= number {
			return h, from
		}
	}
	return header{}, -1
}

// owned gives what nobody can tell the boulder of to all boulders of which it may have been: none of them may go on as if
// nothing were missing.
func owned(damaged []badEntry, ids []string) (all []badEntry) {
	slices.Sort(ids)
	for _, d := range damaged {
		if d.id != "" {
			all = append(all, d)
			continue
		}
		for _, id := range slices.Compact(slices.Clone(ids)) {
			all = append(all, badEntry{number: d.number, id: id, raw: d.raw})
		}
	}
	return all
}

// pages rounds up to a multiple of entryPage.
func pages(n int) int { return (n + entryPage - 1) / entryPage * entryPage }
