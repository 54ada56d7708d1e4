package opencode_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
)

func simpleQuestion() *providers.Request {
	return &providers.Request{Messages: []providers.Message{{Role: providers.RoleUser, Text: "Is it done?"}}}
}

// A start that cannot succeed must not be tried again, and its own words must reach the person.
func TestStartFailures(t *testing.T) {
	t.Parallel()
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "opencode")
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing := filepath.Join(t.TempDir(), "opencode")
	starting := func(binary string) func(context.Context) (*opencode.Server, error) {
		return func(ctx context.Context) (*opencode.Server, error) {
			return opencode.Start(ctx, opencode.ServerConfig{Binary: binary, StartTimeout: 200 * time.Millisecond})
		}
	}
	failing := func(err error) func(context.Context) (*opencode.Server, error) {
		return func(context.Context) (*opencode.Server, error) { return nil, err }
	}
	for name, test := range map[string]struct {
		start func(context.Context) (*opencode.Server, error)
		want  providers.Kind
		says  string
	}{
		"not installed":   {starting(missing), providers.KindSetup, "npm install -g opencode-ai@"},
		"not a program":   {starting(script("\x7fnonsense")), providers.KindSetup, "exec format error"},
		"another version": {failing(opencode.CheckVersion("2.0.0")), providers.KindSetup, "OpenCode 2.0.0 has another API"},
		"ended at once":   {starting(script("#!/bin/sh\necho disk full; exit 3")), providers.KindNetwork, "disk full"},
		"too slow":        {starting(script("#!/bin/sh\nsleep 600")), providers.KindNetwork, "did not get ready in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := opencode.NewHost(test.start)
			defer host.Stop(context.Background())
			failure := fails(t, ocprovider.Config{Host: host, Directory: "/"}, simpleQuestion())
			if failure.Kind != test.want || !strings.Contains(failure.Error(), test.says) {
				t.Errorf("kind %s: %v", failure.Kind, failure)
			}
			if failure.Retryable() != (test.want == providers.KindNetwork) || failure.Usage != (boulder.Usage{}) {
				t.Errorf("retryable %t, usage %v", failure.Retryable(), failure.Usage)
			}
		})
	}
}

func TestStoppedHost(t *testing.T) {
	t.Parallel()
	host := opencode.NewHost(func(context.Context) (*opencode.Server, error) { return nil, errors.New("not reached") })
	host.Stop(t.Context())
	failure := fails(t, ocprovider.Config{Host: host, Directory: "/"}, simpleQuestion())
	if failure.Kind != providers.KindSetup || !errors.Is(failure, opencode.ErrClosed) {
		t.Errorf("kind %s: %v", failure.Kind, failure)
	}
}

func TestCancelWhileTheServerStarts(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	host := opencode.NewHost(func(ctx context.Context) (*opencode.Server, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	defer host.Stop(context.Background())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() {
		_, err := ocprovider.New(ocprovider.Config{Host: host, Directory: "/"}).Complete(ctx, simpleQuestion())
		result <- err
	}()
	<-begun
	cancel()
	failure, ok := errors.AsType[*providers.Error](<-result)
	if !ok || failure.Kind != providers.KindCanceled || !errors.Is(failure, context.Canceled) {
		t.Errorf("got %v", failure)
	}
}

func answers(status int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// fakeServer is a host of a server that answers questions as told.
func fakeServer(t *testing.T, message http.HandlerFunc) *opencode.Host {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /global/health", answers(200, "application/json", `{"healthy":true,"version":"1.18.33"}`))
	mux.HandleFunc("POST /session", answers(200, "application/json", `{"id":"ses_1"}`))
	mux.HandleFunc("DELETE /session/ses_1", answers(200, "application/json", `true`))
	mux.HandleFunc("GET /config/providers", answers(500, "application/json", `{}`))
	mux.HandleFunc("POST /session/ses_1/message", message)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, err := opencode.Attach(t.Context(), server.URL, opencode.AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return opencode.AttachedHost(client)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	host := fakeServer(t, answers(200, "application/json", `{"info":{"id":"msg_1","role":"assistant","finish":"stop","cost":0.25,
		"tokens":{"input":100,"output":30,"reasoning":40,"cache":{"read":600,"write":20}}},"parts":[]}`))
	resp, err := ocprovider.New(ocprovider.Config{Host: host, Directory: "/"}).Complete(t.Context(), simpleQuestion())
	if err != nil {
		t.Fatal(err)
	}
	want := boulder.Usage{Input: 720, CacheRead: 600, CacheWrite: 20, Output: 70, Reasoning: 40, Cost: 0.25}
	if diff := cmp.Diff(want, resp.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// What the real server cannot be made to do on demand.
func TestFaultsOfTheServer(t *testing.T) {
	t.Parallel()
	turn := func(name, message string) http.HandlerFunc {
		return answers(200, "application/json", fmt.Sprintf(
			`{"info":{"id":"msg_1","role":"assistant","error":{"name":%q,"data":{"message":%q}}},"parts":[]}`, name, message))
	}
	for name, test := range map[string]struct {
		message http.HandlerFunc
		want    providers.Kind
		says    string
	}{
		"died": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, providers.KindNetwork, "unavailable",
		},
		"other password":     {answers(401, "text/plain", ""), providers.KindSetup, "server refused the credentials"},
		"other program":      {answers(200, "text/html", "<html>"), providers.KindSetup, "not supported by this server"},
		"session deleted":    {answers(404, "application/json", `{}`), providers.KindNetwork, "not found"},
		"call refused":       {answers(400, "application/json", `{"name":"BadRequest"}`), providers.KindBadRequest, "400"},
		"server's own fault": {answers(500, "application/json", `{}`), providers.KindNetwork, "500"},
		"turn aborted":       {turn(opencode.MessageAborted, "aborted"), providers.KindCanceled, "aborted"},
		"not logged in":      {turn(opencode.ProviderAuth, "log in"), providers.KindAuth, "log in"},
		"output too long":    {turn(opencode.MessageOutputLength, "cut"), providers.KindTruncated, "cut"},
		"filtered":           {turn(opencode.ContentFilter, "blocked"), providers.KindContentFilter, "blocked"},
		"unknown model": {
			turn(opencode.UnknownError, "Model not found: p/m"), providers.KindBadRequest, "`opencode models`",
		},
		"no name for it": {turn(opencode.UnknownError, "fetch failed"), providers.KindNetwork, "fetch failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failure := fails(t, ocprovider.Config{
				Host: fakeServer(t, test.message), Directory: "/project", Model: opencode.ModelRef{ProviderID: "p", ModelID: "m"},
			}, simpleQuestion())
			if failure.Kind != test.want || !strings.Contains(failure.Error(), test.says) {
				t.Errorf("kind %s: %v", failure.Kind, failure)
			}
			if failure.Provider != "p" || failure.Model != "m" {
				t.Errorf("about %s/%s", failure.Provider, failure.Model)
			}
		})
	}
}
