package providerstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

// secret matches no vendor's key format, so only an adapter that redacts its own key passes.
const secret = "conformance.secret.0123456789"

const schema = `{"type":"object","properties":{"zebra":{"type":"string"},"apple":{"type":"string"}},` +
	`"required":["zebra","apple"],"additionalProperties":false}`

// Run tests an adapter against the contract of [providers.Completer].
func Run(t *testing.T, a Adapter) {
	t.Run("success", a.success)
	t.Run("prose and usage are passed on", a.prose)
	t.Run("length", a.length)
	t.Run("errors", a.errors)
	t.Run("refused connection", a.refused)
	t.Run("cancelled", a.cancelled)
	t.Run("deadline", a.deadline)
	t.Run("key stays secret", a.secrecy)
	t.Run("many at once", a.concurrent)
}

func (a Adapter) serve(t *testing.T, respond func(Seen) Reply) providers.Completer {
	t.Helper()
	server := httptest.NewServer(a.Wire(respond))
	t.Cleanup(server.Close)
	return a.open(t, server.URL)
}

func (a Adapter) open(t *testing.T, url string) providers.Completer {
	t.Helper()
	return a.Open(t, url, providers.NewKey(secret), adaptertest.HTTPClient(t))
}

func question() *providers.Request {
	return &providers.Request{
		Model:           "some-model",
		Effort:          "high",
		System:          "You are a judge.",
		MaxOutputTokens: 777,
		Schema:          json.RawMessage(schema),
		Messages: []providers.Message{
			{Role: providers.RoleUser, Text: "Is it done?"},
			{Role: providers.RoleAssistant, Text: "Nearly."},
			{Role: providers.RoleUser, Text: "And now?"},
		},
	}
}

func answer(text string) Reply {
	return Reply{Text: text, Usage: boulder.Usage{Input: 20, Output: 5}}
}

func (a Adapter) success(t *testing.T) {
	t.Parallel()
	var seen Seen
	c := a.serve(t, func(s Seen) Reply {
		seen = s
		return answer(`{"zebra":"yes","apple":"all of it"}`)
	})
	req := question()
	resp, err := c.Complete(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(resp.Text), &got); err != nil || got["apple"] != "all of it" {
		t.Errorf("answer %q: %v", resp.Text, err)
	}
	// The order of properties steers generation, so a re-encoded schema with sorted keys is a defect.
	zebra, apple := strings.Index(string(seen.Schema), `"zebra"`), strings.Index(string(seen.Schema), `"apple"`)
	if zebra < 0 || apple < zebra {
		t.Errorf("schema on the wire: %s", seen.Schema)
	}
	if resp.Provider != a.Provider || resp.Model == "" {
		t.Errorf("answered by %q/%q", resp.Provider, resp.Model)
	}
	want := Seen{Key: secret, Model: req.Model, Effort: req.Effort, System: req.System, Messages: req.Messages, Schema: seen.Schema}
	if !a.Plain {
		want.MaxOutputTokens = req.MaxOutputTokens
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("the server saw another request (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(question(), req); diff != "" {
		t.Errorf("the request was changed:\n%s", diff)
	}
}

// The caller checks whether an answer follows the schema, and repairs it. The adapter passes it on.
func (a Adapter) prose(t *testing.T) {
	t.Parallel()
	reply := Reply{Text: "I would rather not use JSON.", Usage: boulder.Usage{Input: 1000, Output: 90}}
	if !a.Plain {
		reply.Usage.CacheRead, reply.Usage.Reasoning = 600, 40
	}
	c := a.serve(t, func(Seen) Reply { return reply })
	resp, err := c.Complete(t.Context(), question())
	if err != nil {
		t.Fatal(err)
	}
	got := resp.Usage
	got.Cost, got.Unpriced = 0, 0 // costs are provider-specific, tested elsewhere
	if diff := cmp.Diff(reply.Usage, got); diff != "" || resp.Text != reply.Text {
		t.Errorf("%q, usage (-want +got):\n%s", resp.Text, diff)
	}
}

func (a Adapter) length(t *testing.T) {
	t.Parallel()
	c := a.serve(t, func(Seen) Reply {
		reply := answer("It all began")
		reply.Cut = true
		return reply
	})
	failure := adaptertest.Fails(t, c, question())
	if failure.Kind != providers.KindTruncated {
		t.Errorf("kind %s: %v", failure.Kind, failure)
	}
	if failure.Usage.Output != 5 {
		t.Errorf("a cut answer is billed, got usage %v", failure.Usage)
	}
}

func (a Adapter) errors(t *testing.T) {
	for fault, kind := range map[Fault]providers.Kind{
		FaultAuth:          providers.KindAuth,
		FaultQuota:         providers.KindQuota,
		FaultRateLimit:     providers.KindRateLimit,
		FaultOverloaded:    providers.KindOverloaded,
		FaultContextLength: providers.KindContextLength,
		FaultFiltered:      providers.KindContentFilter,
		FaultUnknownModel:  providers.KindBadRequest,
		FaultInternal:      providers.KindNetwork,
		FaultCut:           providers.KindNetwork,
		FaultMalformed:     providers.KindNetwork,
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			c := a.serve(t, func(Seen) Reply {
				calls.Add(1)
				return Reply{Fault: fault, RetryAfter: 37 * time.Second, Message: "the provider's own words"}
			})
			failure := adaptertest.Fails(t, c, question())
			if failure.Kind != kind {
				t.Errorf("kind %s, want %s: %v", failure.Kind, kind, failure)
			}
			if failure.Provider != a.Provider || failure.Model != "some-model" {
				t.Errorf("about %q/%q", failure.Provider, failure.Model)
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("%d requests in one attempt", n)
			}
			if fault == FaultRateLimit && failure.RetryAfter != 37*time.Second {
				t.Errorf("retry after %s", failure.RetryAfter)
			}
		})
	}
}

func (a Adapter) refused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	server.Close()
	if failure := adaptertest.Fails(t, a.open(t, url), question()); failure.Kind != providers.KindNetwork {
		t.Errorf("kind %s: %v", failure.Kind, failure)
	}
}

func (a Adapter) cancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	a.givenUp(ctx, t, cancel, providers.KindCanceled)
}

func (a Adapter) deadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	a.givenUp(ctx, t, func() {}, providers.KindNetwork)
}

// givenUp makes a call whose context ends before its answer. The server calls asked on the request.
func (a Adapter) givenUp(ctx context.Context, t *testing.T, asked func(), kind providers.Kind) {
	t.Helper()
	release := make(chan struct{})
	c := a.serve(t, func(Seen) Reply {
		asked()
		<-release
		return answer("too late")
	})
	t.Cleanup(func() { close(release) }) // before the server's Close, which waits for its handlers
	_, err := c.Complete(ctx, question())
	failure, ok := errors.AsType[*providers.Error](err)
	if !ok || failure.Kind != kind || !errors.Is(err, ctx.Err()) {
		t.Errorf("got %v", err)
	}
}

// Servers echo keys in their errors, and callers log errors and completers.
func (a Adapter) secrecy(t *testing.T) {
	t.Parallel()
	c := a.serve(t, func(Seen) Reply {
		return Reply{Fault: FaultAuth, Message: "Incorrect API key provided: " + secret}
	})
	_, err := c.Complete(t.Context(), question())
	for what, printed := range map[string]string{
		"error":         err.Error(),
		"error in full": fmt.Sprintf("%+v %#v", err, err),
		"completer":     fmt.Sprintf("%v %+v %#v", c, c, c),
	} {
		if strings.Contains(printed, secret) {
			t.Errorf("the %s shows the key: %s", what, printed)
		}
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if strings.Contains(fmt.Sprintf("%+v", cause), secret) {
			t.Errorf("%T in the chain shows the key", cause)
		}
	}
}

func (a Adapter) concurrent(t *testing.T) {
	t.Parallel()
	c := a.serve(t, func(s Seen) Reply { return answer(s.Messages[0].Text) })
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			req := question()
			req.Messages = []providers.Message{{Role: providers.RoleUser, Text: fmt.Sprint("caller ", i)}}
			resp, err := c.Complete(t.Context(), req)
			if err != nil || resp.Text != req.Messages[0].Text {
				t.Errorf("caller %d got %+v, %v", i, resp, err)
			}
		})
	}
	callers.Wait()
}
