package project

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// A server takes a boulder up again only if it has the boulder's own judge. No stored model is OpenCode's choice, which
// is a judge like any other. The accepted ones come as far as the closed door.
func TestServerHasTheBouldersJudge(t *testing.T) {
	t.Parallel()
	db, err := store.Open(filepath.Join(t.TempDir(), store.FileName), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for id, judge := range map[string]boulder.Models{"chosen": "openai/judge", "default": ""} {
		s := boulder.NewState()
		_, err := s.Apply(boulder.Event{Time: time.Now(), BoulderID: id, Body: boulder.Created{Boulder: boulder.Boulder{
			ID: id, Task: "Do it", Project: "/project", Settings: boulder.Settings{LedgerModel: judge},
		}}})
		if err == nil {
			err = db.Commit(t.Context(), s, s.TakeEvents())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const stopping = "the server is stopping"
	for _, tt := range []struct {
		server boulder.Models
		resume string
		named  boulder.Models
		says   string
	}{
		{"openai/judge", "chosen", "", stopping},
		{"openai/other", "chosen", "", "with openai/other, boulder chosen with openai/judge"},
		{"", "chosen", "", "with the default model, boulder chosen with openai/judge"},
		{"", "default", "", stopping},
		{"openai/other", "default", "", "with openai/other, boulder efault with the default model"},
		{"openai/other", "chosen", "openai/other", stopping}, // the user chose it
		{"openai/other", "chosen", "openai/third", "with openai/other, not with openai/third"},
	} {
		sv := &service{State: &State{DB: db, p: &Project{ledgers: tt.server}}, closed: true}
		_, err := sv.Submit(t.Context(), Request{Resume: tt.resume, Settings: boulder.Settings{LedgerModel: tt.named}})
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
