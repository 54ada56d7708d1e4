package web

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tmaxmax/go-sse"
)

const (
	// lookEvery is the interval of checks whether the state was written. An event should be on the page within 200 ms.
	lookEvery = 150 * time.Millisecond
	// renewEvery is the interval of updates without a write: a killed process writes nothing.
	renewEvery = 15 * time.Second
)

// changes notices by the files of the state that any process may have changed it. It builds each page once per change.
type changes struct {
	mu   sync.Mutex
	next chan struct{}                    // closed on the next change
	made map[string]func() (*Page, error) // pages since the last change, by address
}

func (c *changes) watch(ctx context.Context, version func() string) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last, renewed := "", time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := version(); now != last || time.Since(renewed) >= renewEvery {
			last, renewed = now, time.Now()
			c.mu.Lock()
			close(c.next)
			c.next, c.made = make(chan struct{}), map[string]func() (*Page, error){}
			c.mu.Unlock()
		}
	}
}

// page returns a function that builds the page at an address, once per change, and a channel closed on the next change.
func (c *changes) page(address string, build func() (*Page, error)) (made func() (*Page, error), next <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made[address] == nil {
		c.made[address] = sync.OnceValues(build)
	}
	return c.made[address], c.next
}

// version identifies the content of a page. Durations change without events, so it also has a hash of the content.
func (p *Page) version() string {
	h := fnv.New64a()
	for _, section := range p.Sections {
		fmt.Fprintln(h, section.ID, section.Title, section.HTML)
	}
	return fmt.Sprintf("%d.%x", p.Event, h.Sum64())
}

// update is what the script gets: the changed sections by id, and the ids of all in order.
type update struct {
	Order   []string          `json:"order"`
	Changed map[string]string `json:"changed"`
}

// stream sends updates of a page, starting from the browser's version, until the connection ends.
func (s *Site) stream(w http.ResponseWriter, r *http.Request, build func(*http.Request) (*Page, error)) {
	session, err := sse.Upgrade(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	has := r.FormValue("version") // of the page; after a reconnect, the last event's id has it
	if session.LastEventID.IsSet() {
		has = session.LastEventID.String()
	}
	address := r.URL.Query()
	address.Del("version")
	had := &Page{}
	err = session.Flush()
	for err == nil {
		made, next := s.changes.page(r.URL.Path+"?"+address.Encode(), func() (*Page, error) {
			p, err := build(r.WithContext(context.WithoutCancel(r.Context()))) // other streams may wait for the page
			if err == nil {
				p.Version = p.version()
			}
			return p, err
		})
		if p, buildErr := made(); buildErr == nil { // else retry on the next change
			if p.Still {
				return
			}
			if p.Version != has {
				err = send(session, s.update(had, p), p.Version)
			}
			has, had = p.Version, p
		}
		select {
		case <-next:
		case <-r.Context().Done():
			return
		}
	}
}

// update returns, as JSON, what changed in p since had, which is empty at first. It is computed once for all browsers.
func (s *Site) update(had, p *Page) string {
	made, _ := p.updates.LoadOrStore(had.Version, sync.OnceValue(func() string {
		u := update{Order: []string{}, Changed: map[string]string{}}
		for _, section := range p.Sections {
			if u.Order = append(u.Order, section.ID); !slices.Contains(had.Sections, section) {
				u.Changed[section.ID] = string(s.html("section", section))
			}
		}
		data, _ := json.Marshal(u) // cannot fail
		return string(data)
	}))
	return made.(func() string)()
}

func send(session *sse.Session, data, version string) error {
	m := &sse.Message{ID: sse.ID(version)}
	m.AppendData(data)
	if err := session.Send(m); err != nil {
		return err
	}
	return session.Flush()
}
