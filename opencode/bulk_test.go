package opencode_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
)

// A model says 10 MB. The event is cut and says so, the turn ends, and the message has it all.
func TestTenMegabytesOfText(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789\n", 10<<20/11)
	s := newScene(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		return scriptmodel.Reply{Text: text, InputTokens: 10, OutputTokens: 10} // no reason to compact
	})
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	messageID := s.send(session.ID, "talk")
	events := await(s.ctx, t, sub, status(opencode.Idle))
	cut := false
	for _, e := range events {
		p, ok := e.Payload.(opencode.PartUpdated)
		if !ok || p.Part.Type != opencode.PartText {
			continue
		}
		if len(p.Part.Text) > 64<<10 {
			t.Errorf("an event brought %d bytes", len(p.Part.Text))
		}
		cut = cut || p.Part.Cut && strings.HasPrefix(text, p.Part.Text)
	}
	if !cut {
		t.Errorf("no event told of the cut text: %s", kinds(events))
	}
	messages, err := s.dir.Messages(s.ctx, session.ID, 1)
	if err != nil || len(messages) != 1 || messages[0].Info.ParentID != messageID || messages[0].Text() != text {
		t.Errorf("%d messages, %v", len(messages), err)
	}
	last := ""
	for m, err := range s.dir.EachMessage(s.ctx, session.ID) {
		if err != nil {
			t.Fatal(err)
		}
		last = m.Text()
	}
	if last != text {
		t.Errorf("one at a time, the text has %d bytes", len(last))
	}
}

// An agent writes a file of 4 MB: the arguments of the call are cut in events and whole in the message.
func TestFourMegabytesOfArguments(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("line of a file\n", 4<<20/15)
	s := newScene(t, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.TurnsSinceUser() > 0 {
			return scriptmodel.Reply{Text: "done", InputTokens: 10}
		}
		reply := call("write", map[string]any{"filePath": "big.txt", "content": content})
		reply.InputTokens, reply.OutputTokens = 10, 10
		return reply
	})
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	s.send(session.ID, "write")
	events := await(s.ctx, t, sub, tool(opencode.ToolCompleted))
	part := events[len(events)-1].Payload.(opencode.PartUpdated).Part
	if !part.Cut || len(part.Tool.Input) > 80<<10 || !strings.Contains(string(part.Tool.Input), `"filePath":"big.txt"`) {
		t.Errorf("cut: %t, %d bytes of arguments", part.Cut, len(part.Tool.Input))
	}
	await(s.ctx, t, sub, status(opencode.Idle))
	written, err := os.ReadFile(filepath.Join(s.dir.Path(), "big.txt"))
	if err != nil || string(written) != content {
		t.Errorf("the file has %d bytes, %v", len(written), err)
	}
	message, err := s.dir.Message(s.ctx, session.ID, part.MessageID)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range message.Parts {
		if p.Tool != nil && (p.Cut || len(p.Tool.Input) < len(content)) {
			t.Errorf("the message has %d bytes of arguments, cut: %t", len(p.Tool.Input), p.Cut)
		}
	}
}

// A session of 30 MB: all of it comes, whole or one message at a time, and who has seen enough can leave.
func TestThirtyMegabytesOfMessages(t *testing.T) {
	t.Parallel()
	const each, n = 100 << 10, 300
	output := strings.Repeat("x", each)
	fake := newFake(t, map[string]http.HandlerFunc{
		"GET /session/{id}/message": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for i := range n {
				fmt.Fprintf(w, `%c{"info":{"id":"m%d"},"parts":[{"id":"p","type":"tool","state":{"output":%q}}]}`,
					"[,"[min(i, 1)], i, output)
			}
			_, _ = io.WriteString(w, "]")
		},
	})
	dir := attach(t, fake.URL, opencode.AttachConfig{}).In("/repo")
	all, err := dir.Messages(t.Context(), "ses_1", 0)
	if err != nil || len(all) != n || all[n-1].Info.ID != "m299" || all[n-1].Parts[0].Tool.Output != output {
		t.Fatalf("%d messages, %v", len(all), err)
	}
	seen := 0
	for m, err := range dir.EachMessage(t.Context(), "ses_1") {
		if err != nil || m.Info.ID != all[seen].Info.ID || m.Parts[0].Tool.Output != output {
			t.Fatalf("message %d is %s, %v", seen, m.Info.ID, err)
		}
		if seen++; seen == n-1 {
			break
		}
	}
	if seen != n-1 {
		t.Errorf("%d messages came", seen)
	}
}

// Messages that are cut off, broken or none are an error, after what came before.
func TestMessagesThatBreakOff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body string
		cut  bool // the connection breaks after it
		want error
	}{
		"connection cut": {`[{"info":{"id":"m1"},"parts":[]},{"info":`, true, opencode.ErrUnavailable},
		"unfinished":     {`[{"info":{"id":"m1"},"parts":[]}`, false, nil},
		"no JSON":        {`[{"info":{"id":"m1"},"parts":[]}{{{`, false, nil},
		"no list":        {`{}`, false, nil},
		"no object":      {`[7]`, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := newFake(t, map[string]http.HandlerFunc{
				"GET /session/{id}/message": func(w http.ResponseWriter, _ *http.Request) {
					writeJSON(w, test.body)
					if test.cut {
						_ = http.NewResponseController(w).Flush()
						panic(http.ErrAbortHandler)
					}
				},
			})
			dir := attach(t, fake.URL, opencode.AttachConfig{}).In("/repo")
			_, err := dir.Messages(t.Context(), "ses_1", 0)
			if err == nil || errors.Is(err, opencode.ErrUnavailable) != (test.want != nil) {
				t.Errorf("all at once: %v", err)
			}
			var last error
			for _, last = range dir.EachMessage(t.Context(), "ses_1") {
			}
			if last == nil || errors.Is(last, opencode.ErrUnavailable) != (test.want != nil) {
				t.Errorf("one at a time: %v", last)
			}
		})
	}
}

// A server that takes calls and never answers holds nobody up for longer than the timeout, whatever the call.
func TestHungServer(t *testing.T) {
	t.Parallel()
	fake := newFake(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // before that it is not noticed when the caller goes
		hang(w, r)
	}})
	client := attach(t, fake.URL, opencode.AttachConfig{CallTimeout: 50 * time.Millisecond})
	d, ctx := client.In("/repo"), t.Context()
	calls := map[string]func() error{
		"create":   func() error { _, err := d.CreateSession(ctx, opencode.NewSession{}); return err },
		"session":  func() error { _, err := d.Session(ctx, "s"); return err },
		"children": func() error { _, err := d.Children(ctx, "s"); return err },
		"delete":   func() error { return d.DeleteSession(ctx, "s") },
		"abort":    func() error { return d.Abort(ctx, "s") },
		"statuses": func() error { _, err := d.Statuses(ctx); return err },
		"todos":    func() error { _, err := d.Todos(ctx, "s"); return err },
		"messages": func() error { _, err := d.Messages(ctx, "s", 0); return err },
		"each message": func() (last error) {
			for _, last = range d.EachMessage(ctx, "s") {
			}
			return last
		},
		"message":       func() error { _, err := d.Message(ctx, "s", "m"); return err },
		"prompt":        func() error { return d.Prompt(ctx, "s", opencode.Prompt{}) },
		"ask":           func() error { _, err := d.Ask(ctx, opencode.AskRequest{Timeout: time.Second}); return err },
		"permissions":   func() error { _, err := d.Permissions(ctx); return err },
		"reply":         func() error { return d.ReplyPermission(ctx, "p", opencode.ReplyReject, "no") },
		"questions":     func() error { _, err := d.Questions(ctx); return err },
		"answer":        func() error { return d.AnswerQuestion(ctx, "q", nil) },
		"reject":        func() error { return d.RejectQuestion(ctx, "q") },
		"catalogue":     func() error { _, err := d.Catalogue(ctx); return err },
		"default model": func() error { _, err := d.DefaultModel(ctx); return err },
		"agents":        func() error { _, err := d.Agents(ctx); return err },
		"toast":         func() error { return d.ShowToast(ctx, opencode.Toast{}) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := call(); !errors.Is(err, opencode.ErrUnavailable) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A server that sends the beginning of a list and then nothing is hung as well.
func TestHungInTheMiddleOfMessages(t *testing.T) {
	t.Parallel()
	fake := newFake(t, map[string]http.HandlerFunc{
		"GET /session/{id}/message": func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w, `[{"info":{"id":"m1"},"parts":[]},`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	})
	dir := attach(t, fake.URL, opencode.AttachConfig{CallTimeout: 200 * time.Millisecond}).In("/repo")
	came := 0
	var last error
	for m, err := range dir.EachMessage(t.Context(), "ses_1") {
		if last = err; err == nil && m.Info.ID == "m1" {
			came++
		}
	}
	if came != 1 || !errors.Is(last, opencode.ErrUnavailable) {
		t.Errorf("%d messages, %v", came, last)
	}
}

// Events of 12 MB that nobody needs, and one of 12 MB that somebody does, between small ones: all small ones come.
func TestHugeEvents(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 12<<20)
	part := fmt.Sprintf(`{"part":{"id":"p","sessionID":"ses_1","messageID":"m","type":"text","text":%q}}`, text)
	sub := subscribe(t, stream(hello,
		todoEvent("first"),
		`data: {"payload":{"type":"sync","syncEvent":{"data":`+part+"}}}\n\n",
		rawEvent("/repo", "message.part.delta", part),
		rawEvent("/repo", "message.part.updated", part),
		rawEvent("/repo", "message.part.updated",
			`{"part":{"id":"p","type":"tool","state":{"status":"completed","input":{"a":[`+strings.Repeat(`"x",`, 1<<20)+`1]}}}}`),
		`data: {"payload":{"type":"todo.updated","properties":{"todos":[`+"\n\n", // breaks off
		todoEvent("last"),
	), opencode.AttachConfig{})
	events := await(waiting(t), t, sub, func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.TodosUpdated)
		return ok && p.Todos[0].Content == "last"
	})
	if len(events) != 5 {
		t.Fatalf("events: %s", kinds(events))
	}
	if p := events[2].Payload.(opencode.PartUpdated).Part; !p.Cut || p.Text != text[:64<<10] {
		t.Errorf("of the text came %d bytes, cut: %t", len(p.Text), p.Cut)
	}
	p := events[3].Payload.(opencode.PartUpdated).Part
	if !p.Cut || p.Tool.Input != nil || p.Tool.State != opencode.ToolCompleted {
		t.Errorf("of the long list came %d bytes, cut: %t", len(p.Tool.Input), p.Cut)
	}
}
