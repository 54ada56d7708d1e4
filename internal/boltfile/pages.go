package boltfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime/debug"
	"slices"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// bbolt trusts all pages behind its two meta pages. A flipped bit in a page header can make the next commit append 5 GB
// of garbage; one in the freelist can make it overwrite another record. So all pages are checked before a file is
// opened for writing, which reads the file once. bbolt's Tx.Check cannot do that: it follows a bad header into unmapped
// memory, in its own goroutine, which ends the process.

// bbolt's format, in the machine's byte order.
type (
	header struct {
		ID           uint64
		Flags, Count uint16
		More         uint32 // overflow pages
	}
	meta struct { // heads a tree; a file has two, of the last two commits
		Magic, Version, PageSize, Flags              uint32
		Root, Sequence, Freelist, High, TxID, Digest uint64
	}
	leaf   struct{ Flags, At, Key, Value uint32 }
	branch struct {
		At, Key uint32
		Child   uint64
	}
	bucket struct{ Root, Sequence uint64 }
)

const (
	branchPage, leafPage, freePage = 0x01, 0x02, 0x10

	headerSize, elementSize, bucketSize, metaSize = 16, 16, 16, 64
)

func decode[T any](data []byte) (v T) {
	if _, err := binary.Decode(data, binary.NativeEndian, &v); err != nil {
		panic(err)
	}
	return v
}

type pages struct {
	meta
	data        []byte          // the file
	used        map[uint64]bool // pages seen so far
	faults      []error
	last, least []byte // of the current bucket: the last key, and the branch key to reach
}

func (t *pages) fault(format string, args ...any) {
	t.faults = append(t.faults, fmt.Errorf(format, args...))
}

// walk collects the faults of the tree, and copies what is readable to a bucket, unless that is nil.
func (t *pages) walk(into *bolt.Bucket) {
	t.used, t.faults = map[uint64]bool{}, nil
	t.page(into, t.Root)
	t.free()
	if lost := int(t.High) - 2 - len(t.used); lost > 0 { // a damaged reference leads to another page
		t.fault("%d pages are neither in use nor free", lost)
	}
}

// take marks a page as used and returns the file from there on, or nil if the page does not exist or is used already.
func (t *pages) take(id uint64) []byte {
	if id < 2 || id >= t.High || t.used[id] {
		t.fault("page %d is in two places, or not one of %d", id, t.High)
		return nil
	}
	t.used[id] = true
	return t.data[id*uint64(t.PageSize):]
}

// page reads a page and its children. If its header is damaged, its content may still be sound.
func (t *pages) page(into *bolt.Bucket, id uint64) {
	data := t.take(id)
	if data == nil {
		return
	}
	h := decode[header](data)
	more := (t.elements(into, data) - 1) / uint64(t.PageSize)
	if h.ID != id || h.Flags != leafPage && h.Flags != branchPage || uint64(h.More) != more {
		t.fault("page %d says that it is page %d of kind %#x with %d more, and needs %d", id, h.ID, h.Flags, h.More, more)
	}
	for i := range min(more, uint64(h.More)) { // either of the two may be damaged
		t.take(id + 1 + i)
	}
}

// elements reads the sound elements of a page, or of an inline bucket, and their children.
func (t *pages) elements(into *bolt.Bucket, data []byte) (end uint64) {
	h := decode[header](data)
	end = headerSize
	for i := range uint64(h.Count) {
		at := headerSize + i*elementSize
		if at+elementSize > uint64(len(data)) {
			t.fault("element %d of %d is not in the file", i, h.Count)
			break
		}
		e, child := decode[leaf](data[at:]), uint64(0)
		if h.Flags == branchPage {
			b := decode[branch](data[at:])
			e, child = leaf{At: b.At, Key: b.Key}, b.Child
		}
		from := at + uint64(e.At)
		middle := from + uint64(e.Key)
		to := middle + uint64(e.Value)
		if to > uint64(len(data)) || e.Key == 0 || e.Flags > 1 {
			t.fault("page %d: element %d is not within it", h.ID, i)
			continue
		}
		end = max(end, to)
		key, value := data[from:middle:middle], data[middle:to:to]
		if i == 0 && from != headerSize+uint64(h.Count)*elementSize {
			t.fault("page %d has another number of elements than %d", h.ID, h.Count)
		}
		if bytes.Compare(key, t.last) <= 0 || bytes.Compare(key, t.least) < 0 {
			t.fault("page %d: element %d is not in order", h.ID, i)
		}
		if h.Flags == branchPage {
			t.least = key
			t.page(into, child)
			continue
		}
		t.last = key
		var err error
		if e.Flags == 1 {
			err = t.bucket(into, key, value)
		} else if into != nil {
			err = into.Put(key, value)
		}
		if err != nil {
			t.fault("key %q: %w", key, err)
		}
	}
	return end
}

func (t *pages) bucket(into *bolt.Bucket, name, value []byte) (err error) {
	if len(value) < bucketSize {
		return errors.New("the bucket is cut")
	}
	b, inline := decode[bucket](value), value[bucketSize:]
	if into != nil {
		if into, err = into.CreateBucketIfNotExists(name); err != nil {
			return err
		}
		if err := into.SetSequence(b.Sequence); err != nil {
			return err
		}
	}
	last, least := t.last, t.least
	defer func() { t.last, t.least = last, least }()
	t.last, t.least = nil, nil
	switch {
	case b.Root != 0:
		t.page(into, b.Root)
	case len(inline) < headerSize || decode[header](inline).Flags != leafPage:
		return errors.New("the bucket is neither here nor elsewhere")
	default:
		t.elements(into, inline)
	}
	return nil
}

// free reads the freelist, which must not contain used pages.
func (t *pages) free() {
	data := t.take(t.Freelist)
	if data == nil {
		return
	}
	h := decode[header](data)
	size := (1 + uint64(h.More)) * uint64(t.PageSize)
	if h.ID != t.Freelist || h.Flags != freePage || size > uint64(len(data)) {
		t.fault("page %d is not the list of free pages", t.Freelist)
		return
	}
	for i := range uint64(h.More) {
		t.take(t.Freelist + 1 + i)
	}
	count, ids := uint64(h.Count), data[headerSize:size]
	if count == 0xFFFF {
		count, ids = decode[uint64](ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		t.fault("%d pages are free", count)
		return
	}
	for i := range count {
		t.take(decode[uint64](ids[8*i:]))
	}
}

// trees returns the trees of the undamaged meta pages, the newest commit first.
func trees(data []byte) (all []*pages) {
	for _, at := range []int{0, os.Getpagesize()} {
		if at+headerSize+metaSize > len(data) {
			break
		}
		text := data[at+headerSize:][:metaSize]
		digest := fnv.New64a()
		_, _ = digest.Write(text[:metaSize-8])
		if m := decode[meta](text); m.Digest == digest.Sum64() && int(m.PageSize) == os.Getpagesize() {
			all = append(all, &pages{meta: m, data: data})
		}
	}
	slices.SortFunc(all, func(a, b *pages) int { return cmp.Compare(b.TxID, a.TxID) })
	return all
}

// repair checks a file before it is opened for writing. If a page is damaged, all readable records go into a new file
// that replaces it, and the damaged file is kept next to it.
func repair(path string, tree Tree, opts Options) (err error) {
	look := opts
	look.ReadOnly = true
	db, err := openBolt(path, look) // to hold its lock
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	info, err := db.file.Stat()
	if err != nil {
		return err
	}
	data, err := syscall.Mmap(int(db.file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, syscall.Munmap(data)) }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a read error of the disk is a memory fault here
	defer db.recoverPanic(&err)
	found := trees(data)
	if len(found) == 0 || uint64(len(data)) < found[0].High*uint64(found[0].PageSize) {
		return nil // truncated or not ours: refused when opened
	}
	if len(found) == 1 {
		opts.Logger.Warn("a head of the database was damaged: if it was that of the newest commit, this one is missing",
			"path", path)
	}
	best := found[0]
	for _, t := range found {
		if t.walk(nil); len(t.faults) == 0 {
			best = t
			break
		}
	}
	lost := errors.New("the newest commit is missing")
	switch {
	case len(best.faults) > 0:
		lost = fmt.Errorf("%w; %d faults in all", best.faults[0], len(best.faults))
	case best == found[0]:
		return nil
	}
	kept := path + ".damaged-" + timestamp()
	replace := func(temp, path string) error {
		if err := os.WriteFile(kept, data, 0o600); err != nil {
			return err
		}
		return os.Rename(temp, path)
	}
	err = write(path, replace, fillWith(opts, func(tx *bolt.Tx) error {
		best.walk(tx.Cursor().Bucket())
		return tree.check(tx)
	}))
	if err != nil {
		return fmt.Errorf("the database is damaged (%w), and what can be read could not be saved: %w", lost, err)
	}
	opts.Logger.Warn("the database was damaged: what can be read of it is in a new file, and what is missing is named "+
		"where it is asked for", "path", path, "damaged", kept, "fault", lost)
	return nil
}
