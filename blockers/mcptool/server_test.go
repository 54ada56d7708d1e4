package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/octest"
)

func TestMain(m *testing.M) {
	octest.Guard()
	os.Exit(octest.CheckLeaks(m.Run()))
}

func newRegister(t *testing.T, change func(*blockers.Config)) *blockers.Register {
	t.Helper()
	root := t.TempDir()
	cfg := blockers.Config{Root: root, Enabled: true}
	if change != nil {
		change(&cfg)
	}
	register, err := blockers.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return register
}

func newServer(t *testing.T, register *blockers.Register) *Server {
	t.Helper()
	s := New(Config{Register: register})
	s.patience = time.Minute // however slow the machine is
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

type bearer struct {
	headers map[string]string
	http.Transport
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range b.headers {
		r.Header.Set(name, value)
	}
	return b.Transport.RoundTrip(r)
}

// connect returns a client of the server, by the official MCP library.
func connect(t *testing.T, s *Server, names ...string) *mcp.ClientSession {
	t.Helper()
	if names == nil {
		names = []string{boulder.BlockerTool}
	}
	tool, err := s.Tools(t.Context(), names...)
	if err != nil {
		t.Fatal(err)
	}
	transport := &bearer{headers: tool.Headers}
	t.Cleanup(transport.CloseIdleConnections)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: tool.URL, HTTPClient: &http.Client{Transport: transport}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func callTool(t *testing.T, session *mcp.ClientSession, arguments string) (text string, failed bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
		Name: ToolName, Arguments: json.RawMessage(arguments),
	})
	if err != nil {
		t.Error(err)
		return "", false
	}
	if len(result.Content) != 1 {
		t.Errorf("%d contents", len(result.Content))
		return "", false
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

const soft = `{"category":"question","question":"Which?","context":"Two names.","blocks_progress":false,` +
	`"options":["a","b","c"],"chosen_option":"b","chosen_reasoning":"shorter"}`

const hard = `{"category":"security","question":"May it be stored?","context":"A token.","blocks_progress":true}`

func input(question string) string {
	data, err := json.Marshal(map[string]any{
		"category": "other", "question": question, "context": "Nothing else.", "blocks_progress": true,
	})
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Agents get one tool, with every field of the input, of which four are required.
func TestTheToolIsOffered(t *testing.T) {
	t.Parallel()
	session := connect(t, newServer(t, newRegister(t, nil)))
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil || len(listed.Tools) != 1 {
		t.Fatalf("%v, %v", listed, err)
	}
	tool := listed.Tools[0]
	schema := tool.InputSchema.(map[string]any)
	want := []string{
		"blocks_progress", "category", "chosen_option", "chosen_reasoning", "context", "options", "question",
	}
	if got := slices.Sorted(maps.Keys(schema["properties"].(map[string]any))); !slices.Equal(got, want) {
		t.Errorf("the schema has %q, what is read is %q", got, want)
	}
	needed := fmt.Sprint(schema["required"])
	if needed != "[category question context blocks_progress]" || schema["additionalProperties"] != false {
		t.Errorf("required: %s, additional: %v", needed, schema["additionalProperties"])
	}
	if tool.Name != "blocker" || !strings.Contains(tool.Description, "three options") {
		t.Errorf("%s: %s", tool.Name, tool.Description)
	}
}

// A set has the tools in its name. A request for a set that OpenCode was not given is refused.
func TestSetsOfTools(t *testing.T) {
	t.Parallel()
	s := newServer(t, newRegister(t, nil))
	for _, names := range [][]string{{opencode.TodoTool}, {boulder.BlockerTool, opencode.TodoTool}, {boulder.BlockerTool}} {
		listed, err := connect(t, s, names...).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tool := range listed.Tools {
			got = append(got, map[string]string{ToolName: boulder.BlockerTool, TodoName: opencode.TodoTool}[tool.Name])
		}
		if !slices.Equal(got, names) {
			t.Errorf("%q has %q", names, got)
		}
	}
}

// A todo list that could be misread is refused. Open items of a valid one are counted.
func TestTodos(t *testing.T) {
	t.Parallel()
	session := connect(t, newServer(t, newRegister(t, nil)), opencode.TodoTool)
	item := `{"content":"a","status":"in_progress","priority":"low"}`
	for arguments, want := range map[string]string{
		`{"todos":[]}`: "Noted: 0 of 0 items are open.",
		`{"todos":[` + item + `,{"content":"b","status":"completed"},{"content":"c","status":"blocked"}]}`: "Noted: 1 of 3 items are open.",
		`{"todos":[` + item + `,{"content":"b","status":"done"}]}`:                                         `todos[1]: the status "done" is none of `,
		`{"todos":[{"status":"pending"}]}`:                                                                 "content",
		`{"items":[]}`:                                                                                     "unexpected additional properties",
		`{"todos":[{"content":"` + strings.Repeat("x", maxArguments) + `","status":"pending"}]}`:           "the list is too long",
	} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: TodoName, Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatal(err)
		}
		text := result.Content[0].(*mcp.TextContent).Text
		if result.IsError != !strings.HasPrefix(want, "Noted") || !strings.Contains(text, want) {
			t.Errorf("%.80s: %v %q", arguments, result.IsError, text)
		}
	}
}

// checkReply calls the tool, and checks what an agent reads: the whole text, or a part of it if want begins with "… ".
func checkReply(t *testing.T, session *mcp.ClientSession, arguments, want string, fails bool) {
	t.Helper()
	text, failed := callTool(t, session, arguments)
	part, partly := strings.CutPrefix(want, "… ")
	if failed != fails || text != want && (!partly || !strings.Contains(text, part)) {
		t.Errorf("%.200s: it was told %v %.200q", arguments, failed, text)
	}
}

func recorded(t *testing.T, register *blockers.Register, n int) []boulder.Blocker {
	t.Helper()
	raised, err := register.List(t.Context(), blockers.Filter{})
	if err != nil || len(raised) != n {
		t.Fatalf("recorded: %+v, %v", raised, err)
	}
	return raised
}

// What an agent reads in each case, and what is recorded of its call.
func TestACall(t *testing.T) {
	t.Parallel()
	register := newRegister(t, func(c *blockers.Config) { c.Max = 2 })
	s := newServer(t, register)
	session := connect(t, s)
	scope := boulder.BlockerScope{SessionID: "ses_1"}
	n := 0
	made := func(arguments, want string, fails bool) {
		t.Helper()
		n++
		s.Called(boulder.BlockerCall{
			BlockerScope: scope, CallID: fmt.Sprintf("call_%d", n), Input: json.RawMessage(arguments),
		})
		checkReply(t, session, arguments, want, fails)
	}
	made(soft, "Great, blocker registered, move on with the next non-blocking issues!", false) // seed 003, FR-009
	made(soft, Registered, false)                                                              // the same again
	if b := recorded(t, register, 1)[0]; b.BlockerScope != scope || b.Hard || b.ChosenOption != "b" {
		t.Errorf("recorded: %+v", b)
	}
	made(`{"category":"question"}`, "… blocks_progress is missing", true)
	made(`{"category":"question", "question":"x"}`, "… Nothing was recorded", true)
	made(hard, Registered, false)
	made(input("A third one?"), "… it has 2", true)
	off := false
	if err := register.Switch(t.Context(), "", &off); err != nil {
		t.Fatal(err)
	}
	made(input("Off?"), Off, false)
	made(`{"category":"question"}`, Off, false)
	recorded(t, register, 2)
	if err := register.Switch(t.Context(), "", nil); err != nil {
		t.Fatal(err)
	}
	scope = boulder.BlockerScope{BoulderID: "b", SubTaskID: "toggle", Attempt: 2, SessionID: "ses_2"} // of a turn that is over
	made(input("Too late?"), "… Not recorded: the turn is over", true)
	recorded(t, register, 2)
	if !strings.HasPrefix(Off, "The blocker diverter is off; nothing was recorded") {
		t.Errorf("while it is off: %q", Off)
	}
}

// A call that no session announced is not recorded. If it is invalid as well, the agent reads what is wrong.
func TestACallOfNobody(t *testing.T) {
	t.Parallel()
	register := newRegister(t, nil)
	s := newServer(t, register)
	s.patience = time.Millisecond
	session := connect(t, s)
	s.Called(callOf("ses_1", "call_0", input("Another question?")))
	checkReply(t, session, hard, Unknown, true)
	checkReply(t, session, `{}`, "… question is missing", true)
	checkReply(t, session, input(strings.Repeat("long ", 50_000)), "… too long", true)
	recorded(t, register, 0)
}

func TestABlockerThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	s := newServer(t, newRegister(t, func(c *blockers.Config) { c.Root = filepath.Join(c.Root, "none") }))
	session := connect(t, s)
	s.Called(callOf("ses_1", "call_0", hard))
	if text, failed := callTool(t, session, hard); !failed || !strings.HasPrefix(text, "The blocker could not be recorded: ") ||
		!strings.Contains(text, "no such file") {
		t.Errorf("%v %q", failed, text)
	}
}

// Requests without the token, from a browser, or under another host name are refused. Large bodies are not read.
func TestTheDoor(t *testing.T) {
	t.Parallel()
	s := newServer(t, newRegister(t, nil))
	tool, err := s.Tools(t.Context(), boulder.BlockerTool)
	if err != nil {
		t.Fatal(err)
	}
	url, headers := tool.URL, tool.Headers
	if !strings.HasPrefix(url, "http://127.0.0.1:") || len(headers["Authorization"]) < len("Bearer ")+20 {
		t.Errorf("served at %s with %d characters of a token", url, len(headers["Authorization"]))
	}
	again, err := s.Tools(t.Context(), boulder.BlockerTool)
	if err != nil || again.URL != url || !maps.Equal(again.Headers, headers) {
		t.Errorf("served again at %s, %v", again.URL, err)
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	authorization := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", value) }
	}
	for _, c := range []struct {
		what   string
		status int
		at     string
		body   string
		change func(*http.Request)
	}{
		{"everything right", http.StatusOK, url, list, func(*http.Request) {}},
		{"no token", http.StatusUnauthorized, url, list, authorization("")},
		{"a shorter token", http.StatusUnauthorized, url, list, authorization(headers["Authorization"][:20])},
		{"another token", http.StatusUnauthorized, url, list, authorization("Bearer " + strings.Repeat("A", 26))},
		{"a page's request", http.StatusForbidden, url, list, func(r *http.Request) { r.Header.Set("Origin", "null") }},
		{"another name for it", http.StatusForbidden, url, list, func(r *http.Request) { r.Host = "a.example" }},
		{"another path", http.StatusNotFound, strings.Replace(url, path, path+"/x", 1), list, func(*http.Request) {}},
		{"other tools", http.StatusBadRequest, url + "," + opencode.TodoTool, list, func(*http.Request) {}},
		{"two megabytes", http.StatusRequestEntityTooLarge, url, strings.Repeat(" ", 2<<20) + list, func(*http.Request) {}},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.at, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"Authorization": {headers["Authorization"]}, "Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"},
		}
		c.change(r)
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s: answered %d, want %d", c.what, resp.StatusCode, c.status)
		}
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	s := New(Config{Register: newRegister(t, nil)})
	tool, err := s.Tools(t.Context(), boulder.BlockerTool)
	if err != nil {
		t.Fatal(err)
	}
	unused := New(Config{Register: newRegister(t, nil)})
	if err := errors.Join(s.Close(), s.Close(), unused.Close()); err != nil {
		t.Error(err)
	}
	if _, err := s.Tools(t.Context(), boulder.BlockerTool); err == nil {
		t.Error("served after it was closed")
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(strings.Split(tool.URL, path)[0], "http://")); err == nil {
		conn.Close()
		t.Error("somebody still listens")
	}
}

// pipes connects a client to ServeStdio. ended gets its result.
func pipes(ctx context.Context, t *testing.T, s *Server) (*mcp.ClientSession, io.WriteCloser, <-chan error) {
	t.Helper()
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- s.ServeStdio(ctx, toServer, fromServer)
		fromServer.Close()
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "an editor/2", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session, in, ended
}

// A client on standard input and output is one session. The server stops when its context ends, although the input is
// open; TestMCP of cmd/internal/cli ends the input.
func TestServeStdio(t *testing.T) {
	t.Parallel()
	register, stop := newRegister(t, nil), errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	session, in, ended := pipes(ctx, t, New(Config{Register: register}))
	checkReply(t, session, soft, Registered, false)
	checkReply(t, session, `{}`, "… question is missing", true)
	if b := recorded(t, register, 1)[0]; b.SessionID != fmt.Sprintf("an_editor_2-%d", os.Getpid()) {
		t.Errorf("recorded: %+v", b)
	}
	cancel(stop)
	if err := <-ended; !errors.Is(err, stop) {
		t.Errorf("it ended with %v", err)
	}
	in.Close() // ends the pending read
	session.Close()
}
