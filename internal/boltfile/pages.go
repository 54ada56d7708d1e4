package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// bbolt trusts every page behind its two meta pages. A bit that has rotted in a page header can make the next commit copy
// 5 GB of nothing into the file, and one in the list of free pages makes it write over what belongs to somebody else. So
// all pages are looked at before a file is opened for writing, which reads the file once.

// Flags of pages, and sizes of what is in them, as bbolt has them.
const (
	pageBranch   = 0x01
	pageLeaf     = 0x02
	pageFreelist = 0x10
	leafBucket   = 0x01

	pageHeader  = 16
	elementSize = 16
	bucketSize  = 16
	metaSize    = 64
)

// meta is the head of a tree. There are two in a file, of the newest commit and of the one before.
type meta struct {
	pageSize, root, freelist, high, txid uint64
}

// readMeta reads one of the two; ok is false if it is damaged.
func readMeta(page []byte) (m meta, ok bool) {
	data := page[pageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(data[:metaSize-8])
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(data[at:]) }
	m = meta{
		pageSize: uint64(binary.NativeEndian.Uint32(data[8:])),
		root:     u64(16), freelist: u64(32), high: u64(40), txid: u64(48),
	}
	return m, sum.Sum64() == u64(56)
}

// tree walks the pages of one commit.
type tree struct {
	meta
	file   *os.File
	used   map[uint64]bool // pages that were seen
	faults []error
	visit  func(path [][]byte, key, value []byte, sequence uint64) // value is nil for a bucket
}

func (t *tree) fault(format string, args ...any) {
	t.faults = append(t.faults, fmt.Errorf(format, args...))
}

// walk visits everything that can be read of the tree, and collects what cannot.
func (t *tree) walk() {
	t.used, t.faults = map[uint64]bool{}, nil
	t.page(nil, t.root, nil, nil)
	t.checkFree()
}

// page visits a page and what is below it. Its keys have to be from low on, and below high unless that is nil.
func (t *tree) page(path [][]byte, id uint64, low, high []byte) {
	data := t.read(id, pageBranch|pageLeaf)
	if data == nil {
		return
	}
	t.elements(path, fmt.Sprintf("page %d", id), data, low, high)
}

// read returns a page with those that it goes on in, or nil. Of one with a damaged header it returns the first: most of
// what is in it may be sound.
func (t *tree) read(id uint64, flags uint16) []byte {
	if id < 2 || id >= t.high {
		t.fault("page %d is not one of %d", id, t.high)
		return nil
	}
	data := make([]byte, t.pageSize)
	if _, err := t.file.ReadAt(data, int64(id*t.pageSize)); err != nil {
		t.fault("page %d: %w", id, err)
		return nil
	}
	own, kind := binary.NativeEndian.Uint64(data), binary.NativeEndian.Uint16(data[8:])
	more := uint64(binary.NativeEndian.Uint32(data[12:]))
	if own != id || kind&flags == 0 || kind&(kind-1) != 0 || more >= t.high-id {
		t.fault("page %d says that it is page %d of kind %#x with %d more", id, own, kind, more)
		more = min(more, t.high-id-1)
	}
	if flags != pageFreelist {
		if needed := t.needed(data); needed != more {
			t.fault("page %d has %d more, and needs %d", id, more, needed)
			more = min(more, needed)
		}
	}
	for i := id; i <= id+more; i++ {
		if t.used[i] {
			t.fault("page %d is in two places", i)
			return nil
		}
		t.used[i] = true
	}
	if more == 0 {
		return data
	}
	data = make([]byte, (1+more)*t.pageSize)
	if _, err := t.file.ReadAt(data, int64(id*t.pageSize)); err != nil {
		t.fault("page %d: %w", id, err)
		return nil
	}
	return data
}

// needed is in how many pages more a page goes on, by the ends of its elements.
func (t *tree) needed(data []byte) uint64 {
	end := uint64(pageHeader)
	for _, e := range elementsOf(data) {
		end = max(end, e.end())
	}
	return (end+t.pageSize-1)/t.pageSize - 1
}

// element is where a key is in a page, and its value, or the page below it.
type element struct {
	flags          uint32
	at, key, value uint64 // where the key begins, and how long they are
	child          uint64
}

func (e element) end() uint64 { return e.at + e.key + e.value }

// elementsOf reads the table at the beginning of a page, as far as it is in it.
func elementsOf(data []byte) []element {
	count := min(int(binary.NativeEndian.Uint16(data[10:])), (len(data)-pageHeader)/elementSize)
	all := make([]element, count)
	for i := range all {
		at := pageHeader + i*elementSize
		u32 := func(k int) uint64 { return uint64(binary.NativeEndian.Uint32(data[at+k:])) }
		if binary.NativeEndian.Uint16(data[8:]) == pageBranch {
			all[i] = element{at: uint64(at) + u32(0), key: u32(4), child: binary.NativeEndian.Uint64(data[at+8:])}
		} else {
			all[i] = element{flags: uint32(u32(0)), at: uint64(at) + u32(4), key: u32(8), value: u32(12)}
		}
	}
	return all
}

// elements visits those of a page, or of a small bucket within one, and passes over those that are damaged.
func (t *tree) elements(path [][]byte, name string, data, low, high []byte) {
	kind, count := binary.NativeEndian.Uint16(data[8:]), int(binary.NativeEndian.Uint16(data[10:]))
	all := elementsOf(data)
	if len(all) != count {
		t.fault("%s has %d elements", name, count)
	}
	keys := make([][]byte, len(all))
	for i, e := range all {
		if e.end() > uint64(len(data)) || e.at < pageHeader || e.key == 0 || e.flags > leafBucket {
			t.fault("%s: element %d is not within it", name, i)
			continue
		}
		keys[i] = data[e.at : e.at+e.key : e.at+e.key]
		if bytes.Compare(keys[i], low) < 0 || high != nil && bytes.Compare(keys[i], high) >= 0 ||
			i > 0 && bytes.Compare(keys[i-1], keys[i]) >= 0 {
			t.fault("%s: element %d is not in order", name, i)
		}
	}
	for i, e := range all {
		switch {
		case keys[i] == nil:
		case kind == pageBranch:
			next := high
			if i+1 < len(all) && keys[i+1] != nil {
				next = keys[i+1]
			}
			t.page(path, e.child, keys[i], next)
		case e.flags == leafBucket:
			t.bucket(path, keys[i], data[e.at+e.key:e.end()])
		default:
			t.visit(path, keys[i], data[e.at+e.key:e.end():e.end()], 0)
		}
	}
}

func (t *tree) bucket(path [][]byte, name, value []byte) {
	if len(value) < bucketSize {
		t.fault("bucket %q is cut", name)
		return
	}
	root, sequence := binary.NativeEndian.Uint64(value), binary.NativeEndian.Uint64(value[8:])
	t.visit(path, name, nil, sequence)
	path = append(path[:len(path):len(path)], name)
	switch inline := value[bucketSize:]; {
	case root != 0:
		t.page(path, root, nil, nil)
	case len(inline) < pageHeader || binary.NativeEndian.Uint16(inline[8:]) != pageLeaf:
		t.fault("bucket %q is neither here nor elsewhere", name)
	default:
		t.elements(path, fmt.Sprintf("bucket %q", name), inline, nil, nil)
	}
}

// checkFree wants the list of free pages to name none that is in use.
func (t *tree) checkFree() {
	data := t.read(t.freelist, pageFreelist)
	if data == nil {
		return
	}
	count, ids := uint64(binary.NativeEndian.Uint16(data[10:])), data[pageHeader:]
	if count == 0xFFFF {
		count, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		t.fault("%d pages are free", count)
		return
	}
	for ; count > 0; count-- {
		id := binary.NativeEndian.Uint64(ids)
		ids = ids[8:]
		if id < 2 || id >= t.high || t.used[id] {
			t.fault("page %d is free, and in use or not there", id)
		}
		t.used[id] = true // none is free twice
	}
}

// metas reads both heads, the newer one first; those that are damaged are left out.
func metas(f *os.File) (all []meta) {
	for _, at := range []int64{0, int64(os.Getpagesize())} {
		page := make([]byte, pageHeader+metaSize)
		if _, err := f.ReadAt(page, at); err != nil {
			continue
		}
		if m, ok := readMeta(page); ok && m.pageSize == uint64(os.Getpagesize()) {
			all = append(all, m)
		}
	}
	if len(all) == 2 && all[0].txid < all[1].txid {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

// heal looks at a file that is about to be written. Where a page is damaged, everything that can be read goes into a new
// file that takes its place, and the damaged one is kept beside it.
func heal(path string, opts Options) error {
	look := opts
	look.ReadOnly = true
	db, err := openBolt(path, look) // for its lock
	if err != nil {
		return Explain(err)
	}
	defer func() { _ = db.bolt.Close() }()
	heads := metas(db.file)
	info, err := db.file.Stat()
	if err != nil || len(heads) == 0 || uint64(info.Size()) < heads[0].high*heads[0].pageSize {
		return err // it was cut, or is none of ours: it is refused when it is opened
	}
	if len(heads) == 1 {
		opts.Logger.Warn("a head of the database was damaged: if it was that of the newest commit, this one is missing",
			"path", path)
	}
	var best *tree
	for _, m := range heads {
		t := &tree{meta: m, file: db.file, visit: func([][]byte, []byte, []byte, uint64) {}}
		t.walk()
		if len(t.faults) == 0 || best == nil {
			best = t
		}
		if len(t.faults) == 0 {
			break
		}
	}
	if len(best.faults) == 0 && best.txid == heads[0].txid {
		return nil
	}
	lost := errors.New("the newest commit is missing")
	if len(best.faults) > 0 {
		lost = fmt.Errorf("%w; %d faults in all", best.faults[0], len(best.faults))
	}
	if !schemaIn(best, opts) {
		return fmt.Errorf("%w: %w", ErrUnusable, lost)
	}
	kept := path + ".damaged-" + stamp()
	if err := replace(best, path, kept, opts); err != nil {
		return fmt.Errorf("the database is damaged (%w), and what can be read could not be saved: %w", lost, Explain(err))
	}
	opts.Logger.Warn("the database was damaged: what can be read of it is in a new file, and what is missing is named "+
		"where it is asked for", "path", path, "damaged", kept, "fault", lost)
	return nil
}

// schemaIn reports whether what can be read is a tree of this schema. Others are refused when they are opened.
func schemaIn(t *tree, opts Options) bool {
	found, missing := false, len(opts.Buckets)
	t.visit = func(path [][]byte, key, value []byte, _ uint64) {
		switch {
		case len(path) == 0 && value == nil && string(key) != bucketMeta:
			missing--
		case len(path) == 1 && string(path[0]) == bucketMeta && string(key) == keySchema:
			found = string(value) == fmt.Sprint(opts.Version)
		}
	}
	t.walk()
	return found && missing == 0
}

// replace writes what a tree has into a new file at path, and keeps the old one under another name.
func replace(t *tree, path, kept string, opts Options) (err error) {
	temp := beside(path, "healed")
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(temp)))
		}
	}()
	opts.ReadOnly = false
	db, err := openBolt(temp, opts)
	if err != nil {
		return err
	}
	err = db.bolt.Update(func(tx *bolt.Tx) (err error) {
		t.visit = func(path [][]byte, key, value []byte, sequence uint64) {
			if err := put(tx, path, key, value, sequence); err != nil {
				t.fault("key %q: %w", key, err)
			}
		}
		t.walk()
		return nil
	})
	if err := errors.Join(err, db.bolt.Close(), os.Chmod(temp, 0o600)); err != nil {
		return err
	}
	if err := copyFile(path, kept); err != nil {
		return err
	}
	return errors.Join(os.Rename(temp, path), SyncDir(path))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func put(tx *bolt.Tx, path [][]byte, key, value []byte, sequence uint64) error {
	if len(path) == 0 {
		b, err := tx.CreateBucketIfNotExists(key)
		if err != nil {
			return err
		}
		return b.SetSequence(sequence)
	}
	b := tx.Bucket(path[0])
	for _, name := range path[1:] {
		if b != nil {
			b = b.Bucket(name)
		}
	}
	if b == nil {
		return bolterrors.ErrBucketNotFound
	}
	if value != nil {
		return b.Put(key, value)
	}
	b, err := b.CreateBucketIfNotExists(key)
	if err != nil {
		return err
	}
	return b.SetSequence(sequence)
}

func copyFile(from, to string) error {
	in, err := os.Open(filepath.Clean(from))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
