package opencode_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

// The server gives the newest messages, oldest first, as many as it is asked for.
func TestMessagesAreLimited(t *testing.T) {
	t.Parallel()
	fake := newFake(t, map[string]http.HandlerFunc{
		"GET /session/{id}/message": func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w, fmt.Sprintf(`[{"info":{"id":"limit %s"}},{"info":{"id":"last"}}]`, r.URL.Query().Get("limit")))
		},
	})
	dir := attach(t, fake.URL, opencode.AttachConfig{}).In("/repo")
	for limit, want := range map[int]string{0: "limit ", 60: "limit 60"} {
		messages, err := dir.Messages(t.Context(), "ses_1", limit)
		if err != nil || len(messages) != 2 || messages[0].Info.ID != want || messages[1].Info.ID != "last" {
			t.Errorf("%d: got %+v, %v", limit, messages, err)
		}
	}
}
