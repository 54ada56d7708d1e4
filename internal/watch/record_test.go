package watch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// record writes the streams of enforcer/testdata/streams anew, from the real OpenCode:
//
//	go test ./internal/watch -run TestRecordStreams -record
var record = flag.Bool("record", false, "record the streams of enforcer/testdata anew")

// line is one line of a recorded stream: an event as it came, or a time in which nothing would have happened and which
// nobody waited for when it was recorded.
type line struct {
	At    int64           `json:"ms"`               // since the recording began
	Quiet int64           `json:"quiet_s,omitzero"` // seconds
	Event json.RawMessage `json:"event,omitempty"`
}

func TestRecordStreams(t *testing.T) {
	if !*record {
		t.Skip("the streams are recorded with -record; TestReplay plays them")
	}
	r := newRecorder(t)
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) { r.scene(t, s) })
	}
}

// recorder has a real server, and everything that it says.
type recorder struct {
	client *opencode.Client

	cast octest.Cast

	mu    sync.Mutex
	lines []line
	began time.Time
	more  chan struct{} // closed and made anew with each line
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{more: make(chan struct{})}
	model := octest.Model(t, r.cast.Reply)
	home := t.TempDir()
	// The client keeps the server's password to itself; the wrapper tells it.
	secret := filepath.Join(home, "password")
	wrapper := filepath.Join(home, "opencode.sh")
	script := fmt.Sprintf("#!/bin/sh\nprintf %%s \"$OPENCODE_SERVER_PASSWORD\" > '%s'\nexec '%s' \"$@\"\n", secret, octest.Binary(t))
	if err := os.WriteFile(wrapper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := opencode.Start(t.Context(), opencode.ServerConfig{Binary: wrapper, Dir: home, Env: octest.Env(t, model.URL())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop(context.Background()) })
	r.client = server.Client()
	password, err := os.ReadFile(secret)
	if err != nil {
		t.Fatal(err)
	}
	r.listen(t, string(password))
	return r
}

// listen takes in what the server says as it is.
func (r *recorder) listen(t *testing.T, password string) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.client.URL()+"/global/event", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("opencode", password)
	resp, err := http.DefaultClient.Do(req) //nolint:bodyclose // by the goroutine that reads it
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer resp.Body.Close()
		in := bufio.NewReader(resp.Body)
		for {
			text, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			if data, ok := bytes.CutPrefix(text, []byte("data: ")); ok {
				r.add(line{Event: bytes.TrimSpace(data)})
			}
		}
	}()
}

func (r *recorder) add(l line) {
	if kind := typeOf(l.Event); dropped(kind) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.At = time.Since(r.began).Milliseconds()
	r.lines = append(r.lines, l)
	close(r.more)
	r.more = make(chan struct{})
}

// dropped are those that the client passes over unread, which are most of a stream, and those of an instance that boots.
func dropped(kind string) bool {
	switch kind {
	case "sync", "message.part.delta", "server.heartbeat", "plugin.added", "catalog.updated", "integration.updated",
		"reference.updated":
		return true
	}
	return strings.HasPrefix(kind, "session.next.")
}

func typeOf(event json.RawMessage) string {
	var e struct{ Payload struct{ Type string } }
	_ = json.Unmarshal(event, &e)
	return e.Payload.Type
}

// stage is where a scene is played.
type stage struct {
	*recorder
	t       *testing.T
	ctx     context.Context
	mark    string
	dir     *opencode.Directory
	session string
	seen    int // lines that were waited for
	release chan struct{}
}

func (r *recorder) scene(t *testing.T, s scene) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	st := &stage{recorder: r, t: t, ctx: ctx, mark: "[" + s.name + "]", release: make(chan struct{})}
	r.cast.Play(st.mark, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply { return s.model(st, req) })
	st.dir = r.client.In(octest.Repo(t, map[string]string{"README.md": "hello\n"}))
	if _, err := st.dir.Catalogue(ctx); err != nil { // boots the instance
		t.Fatal(err)
	}
	r.mu.Lock()
	r.began, r.lines = time.Now(), nil
	r.mu.Unlock()
	session, err := st.dir.CreateSession(ctx, opencode.NewSession{Title: "Scene " + s.name, Rules: s.rules})
	if err != nil {
		t.Fatal(err)
	}
	st.session = session.ID
	s.play(st)
	st.settle()
	st.write(s.name)
}

// person sends a prompt as OpenCode's terminal interface does.
func (s *stage) person(text string) { s.prompt(opencode.TextPart{Text: s.mark + " " + text}) }

// manager sends one that is marked as the manager's.
func (s *stage) manager(text string) {
	s.prompt(opencode.TextPart{Text: s.mark + " " + text, Metadata: map[string]any{session.TagKey: "continuation"}})
}

func (s *stage) prompt(part opencode.TextPart) {
	s.t.Helper()
	s.promptModel(opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: scriptmodel.ModelAgent}, part)
}

func (s *stage) promptModel(model opencode.ModelRef, part opencode.TextPart) {
	s.t.Helper()
	err := s.dir.Prompt(s.ctx, s.session, opencode.Prompt{
		MessageID: opencode.NewMessageID(time.Now()), Agent: "build", Model: model, Parts: []opencode.TextPart{part},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.status("busy") // or the late second idle of an abort would be taken for the end of this turn
}

// await waits for an event of a type that holds a text, after those that were waited for before. It returns the event.
func (s *stage) await(kind, text string) json.RawMessage {
	s.t.Helper()
	for {
		s.mu.Lock()
		lines, more := s.lines, s.more
		s.mu.Unlock()
		for ; s.seen < len(lines); s.seen++ {
			if e := lines[s.seen].Event; typeOf(e) == kind && bytes.Contains(e, []byte(text)) {
				s.seen++
				return e
			}
		}
		select {
		case <-more:
		case <-s.ctx.Done():
			s.t.Fatalf("no %s with %q came", kind, text)
		}
	}
}

// idle waits for the end of the session's turn, and for what OpenCode says after it.
func (s *stage) idle() {
	s.t.Helper()
	s.status("idle")
	s.settle()
}

// status waits for a status of the session itself.
func (s *stage) status(want string) {
	s.t.Helper()
	for !bytes.Contains(s.await("session.status", `"`+want+`"`), []byte(s.session)) {
	}
}

// settle waits until the server has said nothing for a second.
func (s *stage) settle() {
	for {
		s.mu.Lock()
		more := s.more
		s.mu.Unlock()
		select {
		case <-more:
		case <-time.After(time.Second):
			return
		}
	}
}

// quiet stands for a time in which nothing happens.
func (s *stage) quiet(d time.Duration) {
	s.settle()
	s.add(line{Quiet: int64(d / time.Second)})
}

// request waits for something that is asked, and gives its id.
func (s *stage) request(kind string) string {
	s.t.Helper()
	var e struct {
		Payload struct{ Properties struct{ ID string } }
	}
	if err := json.Unmarshal(s.await(kind, s.session), &e); err != nil {
		s.t.Fatal(err)
	}
	return e.Payload.Properties.ID
}

// write stores what was recorded, without the paths of this machine.
func (s *stage) write(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"began":%q,"session":%q}`+"\n", s.began.UTC().Format(time.RFC3339Nano), s.session)
	for _, l := range s.lines {
		if l.Quiet == 0 && !bytes.Contains(l.Event, []byte(s.dir.Path())) && !bytes.Contains(l.Event, []byte(s.session)) {
			continue // of another scene, or of the server as a whole
		}
		data, err := json.Marshal(l)
		if err != nil {
			s.t.Fatal(err)
		}
		out.Write(bytes.ReplaceAll(data, []byte(s.dir.Path()), []byte("/project")))
		out.WriteByte('\n')
	}
	if err := os.WriteFile(stream(name), out.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func stream(name string) string {
	return filepath.Join("../../enforcer/testdata/streams", name+".jsonl")
}
