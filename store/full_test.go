package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// actorT is the tb of a process that plays a role.
type actorT struct{}

func (actorT) Helper()                           {}
func (actorT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// commitUntilFull commits until there is no room, looks at what is left, makes room and goes on. It is a play for another
// process: the room is that process's.
func commitUntilFull(dir string, room func() error) error {
	path, t := filepath.Join(dir, FileName), actorT{}
	db, err := Open(path, Options{})
	if err != nil {
		return err
	}
	w := newWorld(t, "id", epoch, spec("a"))
	stored := ""
	for n := 0; ; n++ {
		err = db.Commit(context.Background(), w.State, w.TakeEvents())
		if err != nil && n > 1 {
			break
		}
		if err != nil || n > 1000 {
			return fmt.Errorf("commit %d: %w", n, err)
		}
		stored = picture(t, w.State)
		for range 10 {
			w.must(t, boulder.Noted{Text: strings.Repeat("done. ", 600)})
		}
	}
	if !errors.Is(err, ErrFull) {
		return fmt.Errorf("the commit ended with: %w", err)
	}
	if got := picture(t, restore(t, db, "id")); got != stored {
		return fmt.Errorf("on the full disk there is\n%s\nwanted was\n%s", got, stored)
	}
	if err := room(); err != nil {
		return err
	}
	w = &world{State: restore(t, db, "id"), id: "id", now: w.now}
	w.start(t, ref("a", 1))
	w.commit(t, db)
	if err := db.Close(); err != nil {
		return err
	}
	if db, err = Open(path, Options{}); err != nil {
		return err
	}
	if got, want := picture(t, restore(t, db, "id")), picture(t, w.State); got != want {
		return fmt.Errorf("with room there is\n%s\nwanted was\n%s", got, want)
	}
	return db.Close()
}

// ballast takes up room that can be given back.
func ballast(dir string, size int) (release func() error, err error) {
	path := filepath.Join(dir, "ballast")
	return func() error { return os.Remove(path) }, os.WriteFile(path, make([]byte, size), 0o600)
}

// noRoomForANewOne tries to make a database. What could not be made whole is not left for the next try to stumble over.
func noRoomForANewOne(dir string) error {
	path := filepath.Join(dir, FileName)
	db, err := Open(path, Options{})
	if err == nil {
		return errors.Join(errors.New("a database was made without room for it"), db.Close())
	}
	if !errors.Is(err, ErrFull) {
		return fmt.Errorf("open without room: %w", err)
	}
	if left, err := os.ReadDir(dir); len(left) > 1 || err != nil { // the ballast
		return fmt.Errorf("something was left of a database that could not be made: %v, %w", left, err)
	}
	return nil
}
