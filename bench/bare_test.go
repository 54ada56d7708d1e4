package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// fake answers like OpenCode as far as [drive] can see. Other sessions become idle as well, before and after.
func fake(t *testing.T, messages string) (url string, calls func() []string) {
	var made []string
	prompted := make(chan string, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /global/event", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `data: {"payload":{"type":"server.connected"}}`+"\n\n")
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case id := <-prompted:
				for _, session := range []string{"ses_other", id, "ses_other"} {
					fmt.Fprintf(w, `data: {"payload":{"type":"session.idle","properties":{"sessionID":"%s"}}}`+"\n\n", session)
				}
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("/session/", func(w http.ResponseWriter, r *http.Request) {
		made = append(made, r.Method+" "+r.URL.String())
		if strings.HasSuffix(r.URL.Path, "/prompt_async") {
			w.WriteHeader(http.StatusNoContent)
			prompted <- strings.Split(r.URL.Path, "/")[2]
			return
		}
		_, _ = io.WriteString(w, messages)
	})
	mux.HandleFunc("POST /session", func(w http.ResponseWriter, r *http.Request) {
		made = append(made, r.Method+" "+r.URL.String())
		_, _ = fmt.Fprintf(w, `{"id":"ses_%d"}`, len(made))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, func() []string { return made }
}

func TestDriveMakesTheCallsOfASession(t *testing.T) {
	t.Parallel()
	url, calls := fake(t, "[{},{}]")
	if err := drive(t.Context(), url, "/a b", 2); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, id := range []string{"ses_1", "ses_5"} {
		want = append(want, "POST /session?directory=%2Fa+b", "POST /session/"+id+"/prompt_async?directory=%2Fa+b",
			"GET /session/"+id+"/message?directory=%2Fa+b", "GET /session/"+id+"/todo?directory=%2Fa+b")
	}
	// The todos of the last session are read before drive returns, so nobody writes the calls any more.
	if got := calls(); !slices.Equal(got, want) {
		t.Errorf("calls:\n%s", strings.Join(got, "\n"))
	}
}

// TestDriveNoticesAMissingAnswer would fail if a server that answers nothing were taken for a fast one.
func TestDriveNoticesAMissingAnswer(t *testing.T) {
	t.Parallel()
	url, _ := fake(t, "[{}]")
	if err := drive(t.Context(), url, "/a", 1); err == nil {
		t.Error("a question without an answer passed")
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	if err := drive(t.Context(), gone.URL, "/a", 1); err == nil {
		t.Error("a server that knows nothing passed")
	}
	for _, args := range [][]string{nil, {url, "/a", "many"}} {
		if err := runBare(t.Context(), args); err == nil {
			t.Errorf("bare %v passed", args)
		}
	}
}
