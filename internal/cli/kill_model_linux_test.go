package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// promptKey names a prompt as the model sees it.
type promptKey struct {
	session string
	place   int // among the user messages of its session
	text    string
}

// promptSeen is what came of a prompt at the model.
type promptSeen struct {
	lives    []int // of the server, in which requests began a turn with it
	answered int   // of these requests, those that got the whole answer
}

func (k promptKey) resume() bool {
	return strings.HasPrefix(k.text, "[manager] This session was interrupted")
}

// reply is a good agent, which goes by what its conversation says is done, and a fair judge.
func (w *killWorld) reply(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.Kind() == scriptmodel.KindStructured {
		id := subTaskOf(req.Text())
		w.asked("the judge", id)
		completed := strings.Contains(req.Text(), "Finished with "+id+".txt.")
		reply := map[string]any{
			"criteria":  []any{map[string]any{"id": "C1", "evidence": "the final message", "met": completed}},
			"completed": completed, "summary": "The file is looked at.", "is_progress": true,
		}
		if !completed {
			reply["remaining"] = []any{"Finish the work"}
		}
		return scriptmodel.Reply{JSON: reply}
	}
	id := subTaskOf(req.FirstUser())
	w.begins(id, req)
	w.asked(fmt.Sprintf("step %d", req.AssistantTurns()), id)
	w.mu.Lock()
	reply := scriptmodel.Reply{Delay: time.Duration(w.delays.Int64N(int64(40 * time.Millisecond)))}
	w.mu.Unlock()
	switch {
	case !wrote(req):
		reply.Text = "I begin with the file."
		reply.ToolCalls = []scriptmodel.ToolCall{
			{Name: "write", Args: map[string]any{"filePath": id + ".txt", "content": id + "\n"}},
		}
	case !slices.ContainsFunc(req.Messages, func(m scriptmodel.Message) bool {
		return m.Role == "tool" && strings.Contains(m.Text, "The step of "+id+" is done.")
	}):
		reply.ToolCalls = []scriptmodel.ToolCall{
			{Name: "bash", Args: map[string]any{"command": "bash ./step.sh " + id, "description": "Make a step"}},
		}
	default:
		reply.Text = "Finished with " + id + ".txt."
	}
	return reply
}

// asked checks that nobody asks for what is done.
func (w *killWorld) asked(what, id string) {
	w.mu.Lock()
	done := w.done[id]
	w.mu.Unlock()
	if done || !slices.Contains(killIDs, id) {
		w.t.Errorf("the model was asked for %q (%s), which is done, or is none", id, what)
	}
	w.happens("request: " + what + " of " + id)
}

// begins counts a request that begins a turn of an agent.
func (w *killWorld) begins(id string, req scriptmodel.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.seen[id], req.SessionID) {
		w.seen[id] = append(w.seen[id], req.SessionID)
	}
	delete(w.current, req.SessionID)
	if req.TurnsSinceUser() > 0 {
		return
	}
	key := promptKey{session: req.SessionID, text: req.LastUser()}
	for _, m := range req.Messages {
		if m.Role == "user" {
			key.place++
		}
	}
	seen := w.prompts[key]
	if seen == nil {
		seen = &promptSeen{}
		w.prompts[key] = seen
	}
	seen.lives = append(seen.lives, w.lives)
	w.current[req.SessionID] = seen
}

// answered notes that the session has got the whole answer.
func (w *killWorld) answered(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seen := w.current[session]; seen != nil {
		seen.answered++
		delete(w.current, session)
	}
}

// proxy stands before the model and lets things happen in the middle of its answers, and after them.
func (w *killWorld) proxy(model string) (address string) {
	w.t.Helper()
	target, err := url.Parse(model)
	if err != nil {
		w.t.Fatal(err)
	}
	quiet := &http.Transport{DisableKeepAlives: true}
	proxy := &httputil.ReverseProxy{
		Transport: quiet, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host },
		ModifyResponse: func(r *http.Response) error {
			data, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			r.Body.Close()
			ctx, session := r.Request.Context(), r.Request.Header.Get("X-Session-Id")
			r.Body = io.NopCloser(io.MultiReader(
				bytes.NewReader(data[:len(data)/2]),
				moment(func() { w.happens("half of an answer was sent") }),
				bytes.NewReader(data[len(data)/2:]),
				moment(func() {
					if ctx.Err() == nil {
						w.answered(session)
					}
					w.happens("all of an answer was sent")
				}),
			))
			return nil
		},
		ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, _ error) { rw.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(proxy)
	w.t.Cleanup(server.Close)
	return server.URL + target.Path
}

// moment is an empty reader: what is before it has been sent when it is read.
type moment func()

func (m moment) Read([]byte) (int, error) {
	m()
	return 0, io.EOF
}

// listen lets tools and gates say that they run.
func (w *killWorld) listen() (address string) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			conns.Go(func() {
				defer c.Close()
				line := make([]byte, 64)
				n, err := c.Read(line)
				if err != nil {
					return // it was killed before it said anything
				}
				id := strings.TrimSpace(string(line[:n]))
				w.mu.Lock()
				w.steps[id]++
				if w.done[id] {
					w.t.Errorf("a tool runs for %q, which is done", id)
				}
				w.mu.Unlock()
				w.happens("tool or gate: " + id)
				_, _ = io.WriteString(c, "go\n")
			})
		}
	})
	w.t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	return l.Addr().String()
}
