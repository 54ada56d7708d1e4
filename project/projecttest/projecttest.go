// Package projecttest plays the process that holds the state of a project, for tests of what other processes see and do.
package projecttest

import (
	"path/filepath"
	"testing"

	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/internal/control"
	"github.com/bouldermgr/manager/project/internal/watch"
	"github.com/bouldermgr/manager/store"
)

// Server answers other processes. Until SetSteerer is called it takes no orders; Notify tells of new events.
type Server = control.Server

// Serve serves the state of the project in dir as that process, until the test ends.
func Serve(tb testing.TB, dir string, holder project.Holder, db *store.DB) *Server {
	tb.Helper()
	server, err := control.Serve(tb.Context(), Socket(dir), holder, db, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
	return server
}

// Socket returns the path of the socket on which the state of the project in dir is served.
func Socket(dir string) string { return filepath.Join(dir, store.DirName, control.SocketName) }

// Watched stores a decision about a session of the project in dir, as a watch does.
func Watched(tb testing.TB, dir string, decisions ...project.WatchEntry) {
	tb.Helper()
	if _, err := store.EnsureDir(dir); err != nil {
		tb.Fatal(err)
	}
	db, err := watch.OpenStore(filepath.Join(dir, store.DirName, watch.FileName), store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range decisions {
		if err := db.Save([]watch.Record{{SessionID: e.SessionID}}, e); err != nil {
			tb.Error(err)
		}
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
}
