package opencode_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
	"github.com/bouldermgr/manager/providers/providerstest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// place is a reusable project whose provider's address can change: OpenCode takes half a second for a new project.
type place struct {
	dir string
	at  atomic.Pointer[url.URL]
}

// The suite's server is the model's provider. The real OpenCode is between it and the adapter: it keeps the key, sets
// its own output limits, and passes no headers on.
func TestConformance(t *testing.T) {
	t.Parallel()
	places := make(chan *place, 100) // those not in use
	take := func(c testing.TB, at *url.URL, key string) (dir string) {
		p := &place{}
		select {
		case p = <-places:
		default:
			server := httptest.NewServer(&httputil.ReverseProxy{
				Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(p.at.Load()) }, ErrorLog: log.New(io.Discard, "", 0),
			})
			t.Cleanup(server.Close)
			p.dir = project(t, map[string]string{"opencode.json": localProvider(server.URL, key)})
		}
		p.at.Store(at)
		c.Cleanup(func() { places <- p })
		return p.dir
	}
	providerstest.Run(t, providerstest.Adapter{
		Provider: "local",
		Wire:     wire,
		// The scripted model reports no cached or reasoning tokens; TestUsage has those.
		Plain: true,
		Open: func(c testing.TB, base string, key providers.Key, _ *http.Client) providers.Completer {
			c.Helper()
			at, err := url.Parse(base)
			if err != nil {
				c.Fatal(err)
			}
			completer := &ocprovider.Completer{
				Host: shared.host, Model: opencode.ModelRef{ProviderID: "local", ModelID: "default-model"}, Agent: ocprovider.Agent,
				Timeout: patience,
			}
			if conn, err := net.Dial("tcp", at.Host); err != nil { // OpenCode retries longer than a test should
				completer.Directory = project(c, map[string]string{"opencode.json": localProvider(base, key.Reveal())})
				completer.Timeout = 5 * time.Second
			} else {
				conn.Close()
				completer.Directory = take(c, at, key.Reveal())
			}
			return completer
		},
	})
}

func localProvider(base, key string) string {
	model := map[string]any{"name": "m", "tool_call": true, "limit": map[string]any{"context": 200_000, "output": 8_000},
		"variants": map[string]any{"high": map[string]any{"reasoningEffort": "high"}}}
	config, err := json.Marshal(map[string]any{"provider": map[string]any{"local": map[string]any{
		"name": "Local", "npm": "@ai-sdk/openai-compatible",
		"options": map[string]any{"baseURL": base + "/v1", "apiKey": key},
		"models":  map[string]any{"default-model": model, "some-model": model},
	}}})
	if err != nil {
		panic(fmt.Sprint("strings and numbers always marshal: ", err))
	}
	return string(config)
}

// wire is the model's provider as OpenCode calls it. OpenCode retries failed calls by itself. Retries get the same
// answer at once and do not reach the suite, as the adapter did not make them.
func wire(respond func(providerstest.Seen) providerstest.Reply) http.Handler {
	var mu sync.Mutex
	sessions := map[string]func() providerstest.Reply{}
	return scriptmodel.Routes(func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		seen := providerstest.Seen{Key: r.Key, Model: r.Model, Effort: r.Effort, System: ownSystem(r.System), Schema: r.Schema}
		for _, m := range r.Messages {
			seen.Messages = append(seen.Messages, conversation(m.Text)...)
		}
		mu.Lock()
		answer, again := sessions[r.SessionID]
		if !again {
			answer = sync.OnceValue(func() providerstest.Reply { return respond(seen) })
			sessions[r.SessionID] = answer
		}
		mu.Unlock()
		reply := answer()
		if reply.Fault == providerstest.FaultCut && again {
			reply.Fault = providerstest.FaultInternal // retries wait a minute after cuts, 5 ms after a 500
		}
		if reply.Fault != providerstest.FaultNone {
			return fault(seen, reply)
		}
		said := scriptmodel.Reply{InputTokens: int(reply.Usage.Input), OutputTokens: int(reply.Usage.Output)}
		if r.Kind() == scriptmodel.KindStructured && json.Valid([]byte(reply.Text)) {
			said.JSON = json.RawMessage(reply.Text)
		} else {
			said.Text = reply.Text
		}
		if reply.Cut {
			said.Finish = "length"
		}
		return said
	})
}

// ownSystem returns the last line. Before it is what OpenCode adds: its agent's prompt, the environment, the tool.
func ownSystem(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}

var speaker = regexp.MustCompile(`(?m)^\[(user|assistant)\]\n`)

// conversation parses what the adapter makes of several messages.
func conversation(text string) []providers.Message {
	heads := speaker.FindAllStringSubmatchIndex(text, -1)
	if heads == nil {
		return []providers.Message{{Role: providers.RoleUser, Text: text}}
	}
	var out []providers.Message
	for i, head := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		out = append(out, providers.Message{
			Role: providers.Role(text[head[2]:head[3]]), Text: strings.TrimSuffix(text[head[1]:end], "\n\n"),
		})
	}
	return out
}

func fault(seen providerstest.Seen, reply providerstest.Reply) scriptmodel.Reply {
	switch reply.Fault {
	case providerstest.FaultCut:
		return scriptmodel.Reply{Text: "half of", Cut: true}
	case providerstest.FaultMalformed:
		return scriptmodel.Reply{
			Status: http.StatusOK, Header: map[string]string{"Content-Type": "text/event-stream"},
			Body: "data: " + providerstest.Malformed + "\n\n",
		}
	}
	as := map[providerstest.Fault]struct {
		status int
		code   string
	}{
		providerstest.FaultAuth:          {401, "invalid_api_key"},
		providerstest.FaultQuota:         {429, "insufficient_quota"},
		providerstest.FaultRateLimit:     {429, "rate_limit_exceeded"},
		providerstest.FaultOverloaded:    {503, ""},
		providerstest.FaultContextLength: {400, "context_length_exceeded"},
		providerstest.FaultFiltered:      {400, "content_filter"},
		providerstest.FaultUnknownModel:  {404, "model_not_found"},
		providerstest.FaultInternal:      {500, ""},
	}[reply.Fault]
	// OpenCode waits for the milliseconds and passes both headers on. The suite reads only the seconds.
	header := http.Header{"Retry-After-Ms": {"1"}}
	providerstest.SetRetryAfter(header, reply)
	sent := map[string]string{}
	for name := range header {
		sent[name] = header.Get(name)
	}
	// The key is OpenCode's, so the adapter cannot redact it. It is masked here, as by most providers.
	message := strings.ReplaceAll(reply.Message, cmp.Or(seen.Key, "no key"), "con***789")
	return scriptmodel.Reply{Status: as.status, Header: sent, Body: fmt.Sprintf(
		`{"error":{"message":%q,"type":"error","param":null,"code":%q}}`, message, as.code)}
}
