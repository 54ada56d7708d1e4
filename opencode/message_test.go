package opencode_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

// paged serves a session of n messages as the real server does: the newest page
// first, each page oldest first, with a cursor while there is more.
func paged(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		end := n
		if before := r.URL.Query().Get("before"); before != "" {
			end, _ = strconv.Atoi(before)
		}
		start := max(0, end-limit)
		page := []any{}
		for i := start; i < end; i++ {
			page = append(page, map[string]any{"info": map[string]any{"id": strconv.Itoa(i)}, "parts": []any{}})
		}
		if start > 0 {
			w.Header().Set("X-Next-Cursor", strconv.Itoa(start))
		}
		body, _ := json.Marshal(page) // numbers and strings always marshal
		writeJSON(w, string(body))
	}
}

func TestMessagesComeInPages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ total, limit, want int }{
		{0, 0, 0}, {1, 0, 1}, {100, 0, 100}, {101, 0, 101}, {250, 0, 250},
		{250, 1, 1}, {250, 100, 100}, {250, 101, 101}, {250, 300, 250},
	} {
		t.Run(fmt.Sprintf("%d of %d", test.limit, test.total), func(t *testing.T) {
			t.Parallel()
			fake := newFake(t, map[string]http.HandlerFunc{"GET /session/{id}/message": paged(test.total)})
			client := attach(t, fake.URL, opencode.AttachConfig{})
			messages, err := client.In("/repo").Messages(t.Context(), "ses_1", test.limit)
			if err != nil || len(messages) != test.want {
				t.Fatalf("got %d messages, %v", len(messages), err)
			}
			for i, m := range messages {
				if want := strconv.Itoa(test.total - test.want + i); m.Info.ID != want {
					t.Fatalf("message %d is %s, want %s", i, m.Info.ID, want)
				}
			}
		})
	}
}
