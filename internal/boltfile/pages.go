package boltfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
)

// bbolt trusts every page behind its two meta pages. A bit that has rotted in a page header can make the next commit copy
// 5 GB of nothing into the file, and one in the list of free pages makes it write over another record. So all pages are
// checked before a file is opened for writing, which reads the file once. bbolt's own Tx.Check cannot do it: it follows
// such a header into memory that is not there, in a goroutine of its own, and ends the process.

// What bbolt writes, in the byte order of the machine.
type (
	header struct {
		ID           uint64
		Flags, Count uint16
		More         uint32 // pages that it goes on in
	}
	// meta heads a tree. There are two in a file: of the newest commit, and of the one before.
	meta struct {
		Magic, Version, PageSize, Flags              uint32
		Root, Sequence, Freelist, High, TxID, Digest uint64
	}
	leaf struct{ Flags, At, Key, Value uint32 }

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

// decode reads what stands at the beginning of data, which has to be long enough.
func decode[T any](data []byte) (v T) {
	if _, err := binary.Decode(data, binary.NativeEndian, &v); err != nil {
		panic(err)
	}
	return v
}

// tree is what one commit left.
type tree struct {
	meta
	data   []byte          // the file up to its end
	used   map[uint64]bool // pages that were seen
	faults []error
}

func (t *tree) fault(format string, args ...any) {
	t.faults = append(t.faults, fmt.Errorf(format, args...))
}

// walk collects what cannot be read of the tree. What can be read is put into a bucket, unless that is nil.
func (t *tree) walk(into *bolt.Bucket) {
	t.used, t.faults = map[uint64]bool{}, nil
	t.page(into, t.Root, nil, nil)
	t.checkFree()
	if lost := int(t.High) - 2 - len(t.used); lost > 0 { // a reference was damaged and leads to another page
		t.fault("%d pages are neither in use nor free", lost)
	}
}

// at is the file from a page on; empty if there is no such page.
func (t *tree) at(id uint64) []byte {
	if id < 2 || id >= t.High {
		t.fault("page %d is not one of %d", id, t.High)
		return nil
	}
	return t.data[id*uint64(t.PageSize):]
}

// take marks pages as used; false if one is already.
func (t *tree) take(id, more uint64) bool {
	for i := id; i <= id+more; i++ {
		if i >= t.High || t.used[i] {
			t.fault("page %d is in two places, or not in the file", i)
			return false
		}
		t.used[i] = true
	}
	return true
}

// page reads a page and what is below it. Its keys have to be from low on, and below high unless that is nil. Where its
// header is damaged, what is in it may still be sound.
func (t *tree) page(into *bolt.Bucket, id uint64, low, high []byte) {
	data := t.at(id)
	if data == nil {
		return
	}
	h := decode[header](data)
	all, end := t.elements(fmt.Sprintf("page %d", id), data, low, high)
	more := (end - 1) / uint64(t.PageSize)
	if h.ID != id || h.Flags != leafPage && h.Flags != branchPage || uint64(h.More) != more {
		t.fault("page %d says that it is page %d of kind %#x with %d more, and needs %d", id, h.ID, h.Flags, h.More, more)
	}
	if t.take(id, min(more, uint64(h.More))) { // either of the two may be what is damaged
		t.visit(into, all, high)
	}
}

// element of a page: a key with what belongs to it.
type element struct {
	key, value []byte
	isBucket   bool
	child      uint64 // the page below; 0 in a leaf
}

// elements reads those of a page, or of a small bucket within one, and leaves out what is damaged. end is where they end.
func (t *tree) elements(name string, data, low, high []byte) (all []element, end uint64) {
	h := decode[header](data)
	end = headerSize
	for i := range int(h.Count) {
		at := headerSize + i*elementSize
		if at+elementSize > len(data) {
			t.fault("%s has %d elements", name, h.Count)
			break
		}
		l, e := decode[leaf](data[at:]), element{}
		if h.Flags == branchPage {
			b := decode[branch](data[at:])
			l, e.child = leaf{At: b.At, Key: b.Key}, b.Child
		}
		from := uint64(at) + uint64(l.At)
		value := from + uint64(l.Key)
		to := value + uint64(l.Value)
		if to > uint64(len(data)) || l.Key == 0 || l.Flags > 1 {
			t.fault("%s: element %d is not within it", name, i)
			continue
		}
		if i == 0 && from != headerSize+uint64(h.Count)*elementSize {
			t.fault("%s has another number of elements than %d", name, h.Count)
		}
		e.key, e.value, e.isBucket = data[from:value:value], data[value:to:to], l.Flags == 1
		if c := bytes.Compare(e.key, low); c < 0 || c == 0 && i > 0 || high != nil && bytes.Compare(e.key, high) >= 0 {
			t.fault("%s: element %d is not in order", name, i)
		}
		low, end, all = e.key, max(end, to), append(all, e)
	}
	return all, end
}

// visit reads what is below the elements of a page, and puts those of a leaf into the bucket.
func (t *tree) visit(into *bolt.Bucket, all []element, high []byte) {
	for i, e := range all {
		switch {
		case e.child != 0 && i+1 < len(all):
			t.page(into, e.child, e.key, all[i+1].key)
		case e.child != 0:
			t.page(into, e.child, e.key, high)
		case e.isBucket:
			t.bucket(into, e.key, e.value)
		case into != nil:
			if err := into.Put(e.key, e.value); err != nil {
				t.fault("key %q: %w", e.key, err)
			}
		}
	}
}

func (t *tree) bucket(into *bolt.Bucket, name, value []byte) {
	if len(value) < bucketSize {
		t.fault("bucket %q is cut", name)
		return
	}
	b := decode[bucket](value)
	if into != nil {
		var err error
		if into, err = into.CreateBucketIfNotExists(name); err == nil {
			err = into.SetSequence(b.Sequence)
		}
		if err != nil {
			t.fault("bucket %q: %w", name, err)
			return
		}
	}
	switch inline := value[bucketSize:]; {
	case b.Root != 0:
		t.page(into, b.Root, nil, nil)
	case len(inline) < headerSize || decode[header](inline).Flags != leafPage:
		t.fault("bucket %q is neither here nor elsewhere", name)
	default:
		all, _ := t.elements(fmt.Sprintf("bucket %q", name), inline, nil, nil)
		t.visit(into, all, nil)
	}
}

// checkFree reads the list of free pages, which names none that is in use.
func (t *tree) checkFree() {
	data := t.at(t.Freelist)
	if data == nil {
		return
	}
	h := decode[header](data)
	if h.ID != t.Freelist || h.Flags != freePage || !t.take(t.Freelist, uint64(h.More)) {
		t.fault("page %d is not the list of free pages", t.Freelist)
		return
	}
	count, ids := uint64(h.Count), data[headerSize:(1+uint64(h.More))*uint64(t.PageSize)]
	if count == 0xFFFF {
		count, ids = decode[uint64](ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		t.fault("%d pages are free", count)
		return
	}
	for i := range count {
		if id := decode[uint64](ids[8*i:]); t.at(id) != nil {
			t.take(id, 0)
		}
	}
}

// trees reads both heads, that of the newest commit first; those that are damaged are left out.
func trees(data []byte) (all []*tree) {
	for _, at := range []int{0, os.Getpagesize()} {
		if at+headerSize+metaSize > len(data) {
			break
		}
		text := data[at+headerSize:][:metaSize]
		digest := fnv.New64a()
		_, _ = digest.Write(text[:metaSize-8])
		if m := decode[meta](text); m.Digest == digest.Sum64() && int(m.PageSize) == os.Getpagesize() {
			all = append(all, &tree{meta: m, data: data})
		}
	}
	slices.SortFunc(all, func(a, b *tree) int { return cmp.Compare(b.TxID, a.TxID) })
	return all
}

// heal looks at a file that is about to be written. Where a page is damaged, everything that can be read goes into a new
// file that takes its place, and the damaged one is kept beside it.
func heal(path string, opts Options) (err error) {
	look := opts
	look.ReadOnly = true
	db, err := openBolt(path, look) // for its lock
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
	defer db.guard(&err, new(bool))() // a disk that cannot read is a fault of memory here

	found := trees(data)
	if len(found) == 0 || uint64(len(data)) < found[0].High*uint64(found[0].PageSize) {
		return nil // it was cut, or is none of ours: it is refused when it is opened
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
	kept := path + ".damaged-" + stamp()
	temp, err := build(path, opts, func(tx *bolt.Tx) error {
		best.walk(tx.Cursor().Bucket())
		return checkSchema(tx, opts)
	})
	if err == nil {
		err = errors.Join(os.WriteFile(kept, data, 0o600), os.Rename(temp, path), SyncDir(path))
	}
	if err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("the database is damaged (%w), and what can be read could not be saved: %w", lost, err)
	}
	opts.Logger.Warn("the database was damaged: what can be read of it is in a new file, and what is missing is named "+
		"where it is asked for", "path", path, "damaged", kept, "fault", lost)
	return nil
}

// stamp makes the name of a file unique: a copy never replaces another one.
func stamp() string { return time.Now().UTC().Format("20060102T150405.000000000Z") }
