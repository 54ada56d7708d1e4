package opencode_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
)

// errors.Is distinguishes the faults: infrastructure trouble never passes for a refusal, or a refusal for trouble.
func TestFaultsOfACall(t *testing.T) {
	t.Parallel()
	kinds := []error{
		opencode.ErrUnavailable, opencode.ErrUnauthorized, opencode.ErrNotFound, opencode.ErrUnsupported,
	}
	tests := map[string]struct {
		answer http.HandlerFunc
		want   error // nil: none of the kinds
		says   string
	}{
		"web page": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html;charset=utf-8")
				_, _ = io.WriteString(w, "<!doctype html>")
			}, opencode.ErrUnsupported, "text/html",
		},
		"refused": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"name":"BadRequest","data":{"message":"no such thing"}}`)
			}, nil, "no such thing",
		},
		"not found": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"_tag":"PermissionNotFoundError","message":"gone"}`)
			}, opencode.ErrNotFound, "gone",
		},
		"wrong password": {refuse(http.StatusUnauthorized), opencode.ErrUnauthorized, "401"},
		"internal error": {refuse(http.StatusInternalServerError), opencode.ErrUnavailable, "500"},
		"overload":       {refuse(http.StatusServiceUnavailable), opencode.ErrUnavailable, "503"},
		"garbage":        {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, "{{{") }, nil, "unexpected answer"},
		"hung":           {hang, opencode.ErrUnavailable, "deadline"},
		"connection cut": {
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "1000")
				writeJSON(w, `{"id":`)
				cut(w, r)
			}, opencode.ErrUnavailable, "EOF",
		},
		"answer too long": {endless, nil, "exceeds 64 MiB"},
		"redirect": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
			}, nil, "302",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := patience
			if name == "hung" {
				timeout = 50 * time.Millisecond
			}
			client := newFake(t, opencode.AttachConfig{CallTimeout: timeout}, "GET /session/{id}", test.answer)
			_, err := client.In("/repo").Session(t.Context(), "ses_1")
			callError, ok := errors.AsType[*opencode.Error](err)
			if !ok || callError.Op != "get session" || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %#v: %v", err, err)
			}
			for _, kind := range kinds {
				if got, want := errors.Is(err, kind), errors.Is(kind, test.want); got != want {
					t.Errorf("errors.Is(%v, %q) = %t", err, kind, got)
				}
			}
		})
	}
}

func refuse(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func endless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	for r.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// A list may be long, but no value in it, no error and no white space is held beyond 64 MiB: what a server sends is not
// what manager uses.
func TestEndlessAnswers(t *testing.T) {
	t.Parallel()
	repeated := func(status int, begin, chunk string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, err := io.WriteString(w, begin)
			for chunk = strings.Repeat(chunk, 1<<20/len(chunk)); err == nil; {
				_, err = io.WriteString(w, chunk)
			}
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"a string": repeated(200, `[{"info":{"id":"`, "x"), "a part": repeated(200, `[{"info":{},"parts":[`, "{},"),
		"an unknown key": repeated(200, `[{"z":[`, "1,"), "deep": repeated(200, `[{"z":`, "["), "a number": repeated(200, "[{},1", "1"),
		"white space": repeated(200, "[{},", " "), "before the list": repeated(200, "", "\n"), "an error": repeated(500, `{"message":"`, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			counted := func(w http.ResponseWriter, r *http.Request) { answer(&countedWriter{w, &sent}, r) }
			client := newFake(t, opencode.AttachConfig{}, "GET /session/{id}/message", counted)
			var err error
			for _, err = range client.In("/repo").EachMessage(t.Context(), "ses_1") { // the last one counts
			}
			if callError, ok := errors.AsType[*opencode.Error](err); !ok || callError.Op != "list messages" {
				t.Errorf("the error is %#v", err)
			}
			if sent.Load() > 128<<20 { // the system's buffers may hold some 40 MiB that nobody reads
				t.Errorf("%d MiB were sent", sent.Load()>>20)
			}
		})
	}
}

type countedWriter struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (w *countedWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.sent.Add(int64(n))
	return n, err
}

func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("had enough")
	client := newFake(t, opencode.AttachConfig{}, "GET /session/{id}", func(_ http.ResponseWriter, r *http.Request) {
		cancel(why)
		<-r.Context().Done()
	})
	_, err := client.In("/repo").Session(ctx, "ses_1")
	if !errors.Is(err, why) || errors.Is(err, opencode.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
}

func TestCallsNameTheirDirectory(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	address := fakeServer(t, "GET /session/{id}", func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got <- user + ":" + password + " " + r.URL.Query().Get("directory")
		writeJSON(w, "{}")
	})
	client := attach(t, strings.Replace(address, "http://", "http://me:secret@", 1), opencode.AttachConfig{})
	if _, err := client.In("/ä dir/&x").Session(t.Context(), "ses_1"); err != nil {
		t.Fatal(err)
	}
	if want := "me:secret /ä dir/&x"; <-got != want {
		t.Errorf("the server got another user, password or directory than %q", want)
	}
	if strings.Contains(client.Address(), "secret") {
		t.Errorf("the address shows the password: %s", client.Address())
	}
}

func TestAttachFails(t *testing.T) {
	t.Parallel()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	live := shared.server.Client().Address()
	gone := httptest.NewServer(nil)
	gone.Close()
	tests := map[string]struct {
		url  string
		want error
	}{
		"wrong password": {live, opencode.ErrUnauthorized},
		"nobody there":   {gone.URL, opencode.ErrUnavailable},
		"not OpenCode":   {fakeServer(t, "", nil) + "/other", opencode.ErrNotFound},
	}
	for name, test := range tests {
		_, err := opencode.Attach(waiting(t), test.url, opencode.AttachConfig{Password: "wrong"})
		if !errors.Is(err, test.want) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, address := range []string{"", "127.0.0.1:4096", "ftp://host", "http://", "http://[::1"} {
		if _, err := opencode.Attach(t.Context(), address, opencode.AttachConfig{}); err == nil {
			t.Errorf("attached to %q", address)
		}
	}
}
