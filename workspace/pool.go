package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// A boulder leases one of the project's directories of slots. When it is over, that goes back into the pool: the next boulder
// finds slots in which only what differs has to be written. Nothing is moved, since programs note absolute paths.
//
// Whose a directory is, is in one file, which is replaced at once, under a lock. What is wrong with a directory at that moment
// does not matter: it is put right before it is leased ([slotsDir.tidy]), and its slots before they are used ([Slot.sweep]).

const poolFile = "pool.json" // in a directory of slots: the leases

// What stays in the pool at most, whatever [Slots.Pool] says.
const (
	poolAge   = 14 * 24 * time.Hour // since it was used: two weeks away from a project, and the disk is yours again
	poolBytes = 8 << 30             // of a project: twice what the copy of the project for the trial may take (ignoredMost)
)

// lease is whose one of the directories is.
type lease struct {
	Boulder string    `json:"boulder,omitempty"` // empty: it is in the pool
	ID      string    `json:"id,omitempty"`      // random, and in the markers of the slots that this boulder has made its own
	Used    time.Time `json:"used"`              // when it was taken or given back
}

// leases are the directories of slots by name: numbers, which no id of a boulder is.
type leases map[string]lease

var leasedName = text.Regexp(`^[1-9][0-9]{0,5}$`)

func (d slotsDir) leases() (all leases) {
	if readJSON(d.path(), poolFile, &all) != nil || all == nil {
		return leases{}
	}
	maps.DeleteFunc(all, func(name string, _ lease) bool { return !leasedName().MatchString(name) })
	return all
}

func (d slotsDir) setLeases(all leases) error {
	if len(all) == 0 {
		err := os.Remove(filepath.Join(d.path(), poolFile))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	data, err := json.Marshal(all)
	if err == nil {
		err = d.write(poolFile, data)
	}
	return err
}

// of returns the directory that a boulder leases; empty if there is none.
func (l leases) of(boulderID string) (name string) {
	for name := range l {
		if boulderID != "" && l[name].Boulder == boulderID {
			return name
		}
	}
	return ""
}

// free returns the directories in the pool, the last used first.
func (l leases) free() []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(l)), func(name string) bool { return l[name].Boulder != "" })
	slices.SortStableFunc(names, func(a, b string) int { return l[b].Used.Compare(l[a].Used) })
	return names
}

// ofBoulder returns the directory of a boulder in d, with the id of its lease: one that is named after it, as in the state
// directory and in earlier versions, or the one that it leases. Empty if there is none.
func (d slotsDir) ofBoulder(boulderID string) (in slotsDir, lease string) {
	if d.has(boulderID) {
		return d.in(boulderID), ""
	}
	all := d.leases()
	if name := all.of(boulderID); name != "" {
		return d.in(name), all[name].ID
	}
	return slotsDir{}, ""
}

// take leases a directory to a boulder, from the pool if one is there.
func (s *Slots) take(d slotsDir, boulderID string) (in slotsDir, id string, err error) {
	defer s.lockDirs()()
	all := d.leases()
	if name := all.of(boulderID); name != "" { // another of its slots was first
		return d.in(name), all[name].ID, nil
	}
	maps.DeleteFunc(all, func(name string, _ lease) bool { return !exists(filepath.Join(d.path(), name)) })
	name := ""
	for _, free := range all.free() {
		if _, err := d.in(free).tidy(); err == nil { // else it stays as it is: it may have files of another user
			name = free
			break
		}
	}
	for n := 1; name == ""; n++ {
		next := strconv.Itoa(n)
		if _, leased := all[next]; !leased && (!exists(filepath.Join(d.path(), next)) || d.in(next).empty()) {
			name = next
		}
	}
	root, err := d.open(name) // before the lease: one without a directory is nobody's
	if err != nil {
		return slotsDir{}, "", err
	}
	defer root.Close()
	all[name] = lease{boulderID, rand.Text(), time.Now()}
	return d.in(name), all[name].ID, d.setLeases(all)
}

// empty reports whether a directory is there and has nothing in it.
func (d slotsDir) empty() bool {
	entries, err := os.ReadDir(d.path())
	return err == nil && len(entries) == 0 && isDir(d.path())
}

// giveBack puts the directory of a boulder into the pool. What is in no ref must be captured before. Without a pool, or if
// something of it cannot stay there, it is removed, except for what git cannot store.
func (s *Slots) giveBack(ctx context.Context, d slotsDir, boulderID string) error {
	defer s.lockDirs()()
	all := d.leases()
	name := all.of(boulderID)
	if name == "" {
		return nil
	}
	in, was := d.in(name), all[name]
	if s.Pool < 1 || !isDir(in.path()) || in.holdsKept() {
		err := d.end(all, name)
		s.trim(d, all)
		return err
	}
	all[name] = lease{Used: time.Now()}
	if err := d.setLeases(all); err != nil {
		return err
	}
	numbers, err := in.tidy()
	for _, n := range numbers {
		if s.sweep(ctx, filepath.Join(in.path(), strconv.Itoa(n))) != nil && err == nil && ctx.Err() == nil {
			err = in.remove(slotNames(n)...)
		}
	}
	if err != nil {
		all[name] = was
		return errors.Join(d.setLeases(all), d.end(all, name))
	}
	s.trim(d, all)
	return context.Cause(ctx)
}

// end removes a directory of slots with its lease, which stays with what has files that are nowhere else.
func (d slotsDir) end(all leases, name string) error {
	if err := d.removeSlots(name); err != nil || exists(filepath.Join(d.path(), name)) {
		return err
	}
	delete(all, name)
	return d.setLeases(all)
}

// trim removes from the pool what is too old or too much, the longest unused first. What cannot be removed stays: gc says why.
func (s *Slots) trim(d slotsDir, all leases) {
	slots, bytes := s.Pool, int64(poolBytes)
	for _, name := range all.free() {
		in, stay := d.in(name), 0
		numbers, err := in.tidy()
		if err != nil || time.Since(all[name].Used) > poolAge {
			numbers = nil
		}
		for _, n := range numbers {
			size := Size(filepath.Join(in.path(), strconv.Itoa(n)))
			if size > bytes || n == combined && stay == 0 || n != combined && slots == 0 {
				_ = in.remove(slotNames(n)...)
				continue
			}
			bytes -= size
			stay++
			if n != combined {
				slots--
			}
		}
		if stay == 0 {
			_ = d.end(all, name)
		}
	}
}

// combined is the slot in which results are tested together: no sub-task works there.
const combined = 0

// slotNames are what a slot consists of: its files, their index, and its marker.
func slotNames(number int) []string {
	n := strconv.Itoa(number)
	return []string{n, n + ".index", n + ".json"}
}

// tidy removes from a directory what does not belong to a slot that is whole. It returns the numbers of those, that of combined
// trees last.
func (d slotsDir) tidy() (numbers []int, err error) {
	root, err := d.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var stays, goes []string
	for _, e := range entries {
		number, ofSlot := strings.CutSuffix(e.Name(), ".json")
		n, err := strconv.Atoi(number)
		if err != nil || !ofSlot || readMarker(root, number).From == "" {
			continue
		}
		files, filesErr := root.Lstat(number)
		if index, err := root.Lstat(number + ".index"); filesErr == nil && files.IsDir() && err == nil && index.Mode().IsRegular() {
			numbers, stays = append(numbers, n), append(stays, slotNames(n)...)
		}
	}
	for _, e := range entries {
		if !slices.Contains(stays, e.Name()) {
			goes = append(goes, e.Name())
		}
	}
	slices.SortFunc(numbers, func(a, b int) int { return cmp.Compare(uint(a-1), uint(b-1)) })
	return numbers, d.remove(goes...)
}

// Pooled is a directory of slots that waits for the next boulder.
type Pooled struct {
	Path  string
	Slots int
	Used  time.Time
}

// Pooled returns what waits for the next boulder.
func (s *Slots) Pooled() (all []Pooled) {
	for _, d := range s.agreed() {
		leases := d.leases()
		for _, name := range leases.free() {
			markers, _ := fs.Glob(os.DirFS(d.in(name).path()), "*.json") // the pattern is valid
			all = append(all, Pooled{d.in(name).path(), len(markers), leases[name].Used})
		}
	}
	return all
}

// EmptyPool removes what waits for the next boulder.
func (s *Slots) EmptyPool() error {
	for _, d := range s.agreed() {
		err := func() error {
			defer s.lockDirs()()
			all := d.leases()
			for _, name := range all.free() {
				if err := d.end(all, name); err != nil {
					return err
				}
			}
			return nil
		}()
		if err := errors.Join(err, s.leave(d)); err != nil {
			return err
		}
	}
	return nil
}
