package watch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// The arbiter's answers to what the real OpenCode said, in recorded streams: through the client, the translation and
// the gates. Each scene would change if a sign of life were missed, a late event taken for one, or a prompt for another's.
func TestReplay(t *testing.T) {
	t.Parallel()
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			got := replay(t, s.name)
			want := append([]string{"wait work"}, s.want...)
			if !slices.Equal(got.said, want) {
				t.Errorf("the arbiter said\n\t%s\nwant\n\t%s\nin detail:\n%s", strings.Join(got.said, ", "),
					strings.Join(want, ", "), strings.Join(got.detail, "\n"))
			}
		})
	}
}

// player is the shell of a watch without its doing: it decides after each event and at each due time.
type player struct {
	t      *testing.T
	tree   *session.Tree
	track  enforcer.Track
	now    time.Time
	policy enforcer.Policy

	said   []string // as scene.want
	detail []string
}

// markType is the event that tells the time of the one after it.
const markType = "test.at"

func replay(t *testing.T, name string) *player {
	t.Helper()
	header, lines := load(t, name)
	p := &player{t: t, tree: session.NewTree(header.Session, session.Cursor{}), now: header.Began, policy: enforcer.WatchPolicy()}
	var body bytes.Buffer
	for _, l := range lines {
		fmt.Fprintf(&body, `data: {"payload":{"type":%q,"properties":{"at":%d,"quiet":%d}}}`+"\n\n", markType, l.At, l.Quiet)
		if l.Event != nil {
			fmt.Fprintf(&body, "data: %s\n\n", l.Event)
		}
	}
	fmt.Fprintf(&body, `data: {"payload":{"type":%q,"properties":{"at":-1}}}`+"\n\n", markType)
	client := serving(t, body.Bytes())
	sub := client.Subscribe(opencode.Filter{})
	defer sub.Close()
	var passed time.Duration // in quiet times
	for e, err := range sub.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		switch payload := e.Payload.(type) {
		case opencode.Resync:
			continue // the first; a second one would be a gap, and make the scene another
		case opencode.Unknown:
			var mark struct{ At, Quiet int64 }
			if payload.Type != markType {
				continue
			}
			if err := json.Unmarshal(payload.Properties, &mark); err != nil {
				t.Fatal(err)
			}
			if mark.At < 0 {
				return p
			}
			if at := header.Began.Add(passed + time.Duration(mark.At)*time.Millisecond); at.After(p.now) {
				p.now = at
			}
			if mark.Quiet > 0 {
				before := p.now
				p.rest(p.now.Add(time.Duration(mark.Quiet) * time.Second))
				passed += p.now.Sub(before)
			}
		default:
			for _, event := range p.tree.Take(e, p.now) {
				p.track = enforcer.Apply(p.track, event, p.policy)
			}
			p.decide()
		}
	}
	t.Fatal("the stream has no end")
	return nil
}

// rest lets time pass, as a shell with nothing but due times would. It ends when something is sent: what was recorded
// next is that continuation.
func (p *player) rest(end time.Time) {
	for range 1000 {
		due := p.decide()
		switch {
		case p.track.Pending != "":
			return
		case due.IsZero() || due.After(end):
			p.now = end
			return
		}
		p.now = due
	}
	p.t.Fatalf("it decides again and again: %s", strings.Join(p.detail, "\n"))
}

// decide asks the arbiter and has it remember the answer. It gives the time to ask again; zero: when something happens.
func (p *player) decide() time.Time {
	for {
		s := p.tree.Situation(p.now)
		s.Owned, s.Checked, s.Unmet = true, true, enforcer.OpenItems(p.track, p.tree.Todos())
		d := enforcer.Continue(p.track, s, p.policy, p.now)
		answer := fmt.Sprint(d.Kind, " ", d.Gate)
		if n := len(p.said); n == 0 || p.said[n-1] != answer {
			p.said = append(p.said, answer)
			p.detail = append(p.detail, fmt.Sprintf("%s %s: %s", p.now.Format(time.TimeOnly), answer, d.Reason))
		}
		p.track = enforcer.Apply(p.track, enforcer.Decided{At: p.now, Decision: d, MessageID: "continuation"}, p.policy)
		switch d.Kind {
		case enforcer.Wait, enforcer.Countdown:
			return d.At
		case enforcer.Look:
			return time.Time{} // the prompt of the recording comes when it comes
		}
	}
}

type header struct {
	Began   time.Time `json:"began"`
	Session string    `json:"session"`
}

func load(t *testing.T, name string) (h header, lines []line) {
	t.Helper()
	data, err := os.ReadFile(stream(name))
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(bytes.NewReader(data))
	in.Buffer(nil, len(data)+1)
	for first := true; in.Scan(); first = false {
		if first {
			err = json.Unmarshal(in.Bytes(), &h)
		} else {
			var l line
			err = json.Unmarshal(in.Bytes(), &l)
			lines = append(lines, l)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return h, lines
}

// serving is a client of a server that says what was recorded, and then nothing more.
func serving(t *testing.T, events []byte) *opencode.Client {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/global/health" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"healthy":true,"version":%q}`, opencode.TestedVersion)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"payload":{"type":"server.connected","properties":{}}}`+"\n\n")
		if _, err := w.Write(events); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		<-over
	}))
	client, err := opencode.Attach(t.Context(), server.URL, opencode.AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(over)
		client.Close()
		server.Close()
	})
	return client
}
