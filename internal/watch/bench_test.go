package watch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
)

// BenchmarkHour is an hour of a busy session: five events a second, and a turn's end every minute.
func BenchmarkHour(b *testing.B) {
	for b.Loop() {
		db, err := OpenStore(b.TempDir()+"/"+FileName, false, time.Second)
		if err != nil {
			b.Fatal(err)
		}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		w, err := New(Config{
			Project: "/p", Store: db, Now: func() time.Time { return now },
			Attach: func(context.Context) (*opencode.Client, error) { return nil, opencode.ErrUnavailable },
		})
		if err != nil {
			b.Fatal(err)
		}
		info := opencode.Session{ID: main, Directory: "/p"}
		w.watch(info, info)
		s := w.sessions[main]
		s.loaded, w.online = true, true
		take := func(p opencode.Payload) {
			now = now.Add(200 * time.Millisecond)
			w.event(b.Context(), opencode.Event{SessionID: main, Payload: p})
			s.due = time.Time{}
			if err := w.decideAll(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		for minute := range 60 {
			id := fmt.Sprint("m", minute)
			take(opencode.StatusChanged{Status: opencode.Status{Type: opencode.Busy}})
			take(opencode.MessageUpdated{Message: opencode.MessageInfo{ID: id, Role: opencode.RoleAssistant, Created: now}})
			for i := range 297 {
				take(opencode.PartUpdated{Part: opencode.Part{
					ID: fmt.Sprint("p", i/20), MessageID: id, Type: opencode.PartText, Text: strings.Repeat("x", 1000),
				}})
			}
			take(opencode.StatusChanged{Status: opencode.Status{Type: opencode.Idle}})
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
