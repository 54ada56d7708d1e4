package notify_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project/internal/notify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func message() notify.Message {
	return notify.Message{
		Event: notify.Failed, Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), BoulderID: "01k3", Status: boulder.Partial,
		Title: "Boulder 01k3 is over", Project: "app", Tally: boulder.Tally{Planned: 3, Completed: 2, Failed: 1},
		ExitCode: new(3), Report: ".manager/runs/01k3/report.md",
	}
}

const wire = `{"type":"notification","event":"failed","time":"2026-03-04T05:06:07Z","boulder_id":"01k3",` +
	`"status":"partial","title":"Boulder 01k3 is over","project":"app",` +
	`"sub_tasks":{"planned":3,"completed":2,"failed":1},"awaited":0,"exit_code":3,` +
	`"report":".manager/runs/01k3/report.md"}`

func notifier(t *testing.T, n notify.Notifier) *notify.Notifier {
	t.Helper()
	n.RetryWait = time.Nanosecond
	n.Logger = cmp.Or(n.Logger, slog.New(slog.DiscardHandler))
	return &n
}

// The command gets the message on standard input and in variables. During a run the exit code is empty.
func TestCommand(t *testing.T) {
	t.Parallel()
	running := message()
	running.ExitCode = nil
	for code, m := range map[string]notify.Message{"3": message(), "": running} {
		dir := t.TempDir()
		script := `cat > body; echo "$MANAGER_EVENT|$MANAGER_BOULDER_ID|$MANAGER_STATUS|$MANAGER_TITLE|$MANAGER_EXIT_CODE|` +
			`$MANAGER_REPORT|$TOKEN|$1" > said; echo printed`
		var logged bytes.Buffer
		n := notifier(t, notify.Notifier{
			Command: []string{"sh", "-c", script, "sh", "an argument"}, Dir: dir,
			Env:    []string{"PATH=" + os.Getenv("PATH"), "TOKEN=x"},
			Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if err := n.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		body, _ := os.ReadFile(filepath.Join(dir, "body"))
		want := strings.Replace(wire, `"exit_code":3`, `"exit_code":`+cmp.Or(code, "null"), 1)
		if diff := gocmp.Diff(want, string(body)); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
		said, _ := os.ReadFile(filepath.Join(dir, "said"))
		want = "failed|01k3|partial|Boulder 01k3 is over|" + code + "|.manager/runs/01k3/report.md|x|an argument\n"
		if diff := gocmp.Diff(want, string(said)); diff != "" {
			t.Errorf("variables (-want +got):\n%s", diff)
		}
		if !strings.Contains(logged.String(), "printed") {
			t.Errorf("its output is not in the diagnostics: %s", logged.String())
		}
	}
}

// A command that fails does not keep the webhook from being called.
func TestCommandThatFails(t *testing.T) {
	t.Parallel()
	address, bodies := recorder(t, func(http.ResponseWriter, *http.Request) {})
	for name, test := range map[string]struct {
		command []string
		says    string
	}{
		"exits":   {[]string{"sh", "-c", "echo secret; exit 7"}, "the notification command sh failed: exit status 7"},
		"missing": {[]string{"/nosuch/notifier"}, "the notification command /nosuch/notifier was not found: correct notify.command"},
		"missing in a line": {
			[]string{"sh", "-c", "nosuch-notifier done"}, "the notification command nosuch-notifier was not found",
		},
		"missing in a longer line": {
			[]string{"sh", "-c", "TOKEN=secret nosuch-notifier done"},
			"the notification command nosuch-notifier was not found",
		},
		"a secret for a program": {[]string{"sh", "-c", "TOKEN=sec; ${TOKEN}ret"}, "the notification command sh failed: exit"},
		// Neither unread input nor more output than is kept is an error.
		"prints": {[]string{"sh", "-c", "head -c 300000 /dev/zero"}, ""},
	} {
		n := notify.Notifier{Command: test.command, Env: []string{"PATH=" + os.Getenv("PATH")}, Webhook: hook(t, address)}
		err := notifier(t, n).Send(t.Context(), message())
		switch {
		case len(bodies()) != 1:
			t.Errorf("%s: the webhook was not told once", name)
		case test.says == "" && err != nil, test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: %v", name, err)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: what it printed is in the error: %v", name, err)
		}
	}
}

// A command that hangs is killed at the timeout, with all its children.
func TestCommandThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Both processes hold the FIFO open: its end of file proves, without polling, that both have ended.
	if err := syscall.Mkfifo(filepath.Join(dir, "alive"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := notifier(t, notify.Notifier{
		Command: []string{"sh", "-c", `exec 3> alive; sh -c 'trap "" TERM; while :; do sleep 600; done'`}, Dir: dir,
		Env: []string{"PATH=" + os.Getenv("PATH")}, Timeout: 300 * time.Millisecond,
	})
	ended := make(chan error, 1)
	go func() {
		alive, err := os.Open(filepath.Join(dir, "alive"))
		if err == nil {
			_, err = io.Copy(io.Discard, alive)
			alive.Close()
		}
		ended <- err
	}()
	err := n.Send(t.Context(), message())
	if err == nil || !strings.Contains(err.Error(), "it did not end within 300ms (notify.timeout), and was stopped") {
		t.Errorf("%v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// recorder is a server that records its requests.
func recorder(t *testing.T, answer http.HandlerFunc) (address string, bodies func() []string) {
	t.Helper()
	got := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() (all []string) {
		for len(got) > 0 {
			all = append(all, <-got)
		}
		return all
	}
}

const token = "/hook/T0P-S3CR3T"

func hook(t *testing.T, server string) *url.URL {
	t.Helper()
	u, err := notify.ParseWebhook(server + token)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	other, followed := recorder(t, func(http.ResponseWriter, *http.Request) {})
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		sent   int
		says   string // empty: no error
	}{
		"taken":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, 1, ""},
		"refused":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, 1, "403 Forbidden"},
		"trouble":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, 2, "502 Bad Gateway"},
		"too many": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, 2, "429"},
		"trouble once": {func(w http.ResponseWriter, _ *http.Request) {
			if calls.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, 2, ""},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Close()
		}, 2, "EOF"},
		"moved": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == token {
				http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
			}
		}, 2, ""},
		"moved for good, as a GET": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/new", http.StatusFound)
		}, 1, "it asks to fetch something instead"},
		// The other host would learn of the run, and the message would not arrive.
		"moved to somebody else": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other+"/stolen", http.StatusTemporaryRedirect)
		}, 1, "it leads to " + other},
		"moves for ever": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, token, http.StatusPermanentRedirect)
		}, 4, "there are more than 3"},
	} {
		address, bodies := recorder(t, test.answer)
		err := notifier(t, notify.Notifier{Webhook: hook(t, address)}).Send(t.Context(), message())
		sent := bodies()
		if len(sent) != test.sent {
			t.Errorf("%s: sent %d times, want %d: %v", name, len(sent), test.sent, sent)
		}
		for _, s := range sent {
			if !strings.HasPrefix(s, "POST /") || !strings.HasSuffix(s, " application/json "+wire) {
				t.Errorf("%s: %s", name, s)
			}
		}
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
		checkSecret(t, err)
	}
	if sent := followed(); len(sent) > 0 {
		t.Errorf("it was followed: %v", sent)
	}
}

// checkSecret checks that no error in the chain has the webhook's address, a credential. The host may be shown.
func checkSecret(t *testing.T, err error) {
	t.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(e.Error(), "S3CR3T") {
			t.Errorf("the address is in the error: %v", e)
		}
	}
}

// Send gives up at the timeout if the server never answers.
func TestWebhookThatHangs(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	n := notifier(t, notify.Notifier{Webhook: hook(t, "http://"+listener.Addr().String()), Timeout: 50 * time.Millisecond})
	err = n.Send(t.Context(), message())
	if err == nil || !strings.Contains(err.Error(), "it did not end within 50ms (notify.timeout)") {
		t.Errorf("%v", err)
	}
	checkSecret(t, err)
}

// A run that is aborted does not wait for its notification.
func TestCancelled(t *testing.T) {
	t.Parallel()
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	address, _ := recorder(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(cause)
		<-r.Context().Done()
	})
	if err := notifier(t, notify.Notifier{Webhook: hook(t, address)}).Send(ctx, message()); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "ftp://S3CR3T", "https://", "S3CR3T", "https://x:S3CR3T/", "https://$S3CR3T/", "http://[::1/S3CR3T",
	} {
		_, err := notify.ParseWebhook(address)
		if err == nil {
			t.Errorf("%s was taken", address)
		}
		checkSecret(t, err)
	}
}
