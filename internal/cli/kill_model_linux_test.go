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
	servers  []string // that asked for an answer to it, by the names that namedServer gives them
	answered int      // of these requests, those that got the whole answer
}

func (k promptKey) resume() bool {
	return strings.HasPrefix(k.text, "[manager] This session was interrupted")
}

// reply is a good agent, which goes by what its conversation says is done, and a judge who believes everything: that a
// turn was cut off has to be seen without it.
func (w *killWorld) reply(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.Kind() == scriptmodel.KindStructured {
		id := subTaskOf(req.Text())
		w.asked("the judge", id)
		return scriptmodel.Reply{JSON: map[string]any{
			"criteria":  []any{map[string]any{"id": "C1", "evidence": "the file", "met": true}},
			"completed": true, "summary": "The file is written.",
		}}
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
	seen.servers = append(seen.servers, req.Key)
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

// listen lets tools and gates say that they run, and go on when what happens then has happened.
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
				w.tells(c)
			})
		}
	})
	w.t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	return l.Addr().String()
}

// tells takes in what a tool or a gate says. One whose server or manager is killed right then goes on for ever, unless
// it is ended.
func (w *killWorld) tells(c net.Conn) {
	line := make([]byte, 64)
	n, err := c.Read(line)
	if err != nil {
		return // it was killed before it said anything
	}
	id := strings.TrimSpace(string(line[:n]))
	w.mu.Lock()
	w.steps[id]++
	pid, ends := w.pid, w.ends
	if w.done[id] {
		w.t.Errorf("a tool runs for %q, which is done", id)
	}
	w.mu.Unlock()
	w.happens("tool or gate: " + id)
	w.mu.Lock()
	orphaned := w.ends != ends
	if id == "gate" {
		orphaned = w.pid != pid
	}
	w.mu.Unlock()
	if orphaned {
		_, _ = c.Read(line) // its end
		return
	}
	_, _ = io.WriteString(c, "go\n")
}
