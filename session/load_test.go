package session

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

const (
	asked    = `{"info": {"id": "m1", "role": "user", "time": {"created": 1}}, "parts": []}`
	called   = `{"info": {"id": "m2", "role": "assistant", "finish": "tool-calls", "time": {"created": 2, "completed": 3}}, "parts": []}`
	speaks   = `{"info": {"id": "m3", "role": "assistant", "time": {"created": 4}}, "parts": []}`
	finished = `{"info": {"id": "m3", "role": "assistant", "finish": "stop", "tokens": {"output": 1}, "time": {"created": 4, "completed": 5}}, "parts": []}`
)

// A turn that begins or ends between reading messages and statuses must not look cut off, or it would be resumed; nor be
// told with todos from before its end, or it would look as if it had brought nothing.
func TestReadWhileTheTurnMoves(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		messages []string // by call; the last one repeats
		statuses []string
		want     Position
	}{
		"ends while its answer is read": {
			[]string{asked + "," + called + "," + speaks, asked + "," + called + "," + finished}, []string{""},
			Position{Arrived: true, Answered: true},
		},
		"ends after a tool call was read": {
			[]string{asked + "," + called, asked + "," + called + "," + finished}, []string{""},
			Position{Arrived: true, Answered: true},
		},
		"begins after the status was read": {
			[]string{asked, asked + "," + speaks}, []string{"", "busy"}, Position{Busy: true, Arrived: true},
		},
		"was cut off": {[]string{asked + "," + called}, []string{""}, Position{Arrived: true}},
		"never began": {[]string{asked}, []string{""}, Position{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := func(of []string, n *int) string {
				*n++
				return of[min(*n, len(of))-1]
			}
			nMessages, nStatuses := 0, 0
			mux := http.NewServeMux()
			say := func(path string, body func() string) {
				mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, body())
				})
			}
			say("/global/health", func() string { return `{"healthy": true, "version": "1.18.33"}` })
			say("/session/{id}", func() string { return `{"id": "` + root + `"}` })
			say("/session/{id}/message", func() string { return "[" + next(test.messages, &nMessages) + "]" })
			say("/session/{id}/todo", func() string { return fmt.Sprintf(`[{"content": "as of read %d", "status": "pending"}]`, nMessages) })
			for _, empty := range []string{"/session/{id}/children", "/permission", "/question"} {
				say(empty, func() string { return "[]" })
			}
			say("/session/status", func() string {
				if status := next(test.statuses, &nStatuses); status != "" {
					return `{"` + root + `": {"type": "` + status + `"}}`
				}
				return "{}"
			})
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			client, err := opencode.Attach(t.Context(), server.URL, opencode.AttachConfig{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			r, err := Read(t.Context(), client.In(t.TempDir()), root, began)
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("as of read %d", nMessages); len(r.Todos) != 1 || r.Todos[0].Content != want {
				t.Errorf("todos %+v, want those %s", r.Todos, want)
			}
			tree := NewTree(root, Cursor{})
			tree.Load(r)
			got, known := tree.Position("m1")
			if !known || got != test.want {
				t.Errorf("%+v, known %v; want %+v; read %d times:\n%s", got, known, test.want, nMessages, strings.Join(test.messages, "\n"))
			}
		})
	}
}
