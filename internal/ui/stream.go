package ui

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
	// lookEvery is how often to look whether the state was written. An event is to be on the page within 200 ms.
	lookEvery = 150 * time.Millisecond
	// renewEvery is how often pages are made again where nothing is written: what was killed says nothing.
	renewEvery = 15 * time.Second
)

// changes tells pages when the state may have changed, whoever changes it: by the files that it is in. Pages that are
// made for the same change are made once.
type changes struct {
	mu   sync.Mutex
	next chan struct{}                    // closed with the next one
	made map[string]func() (*Page, error) // since the last change, by address
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

// page gives what makes the page at an address, once for each change, and what is closed with the next one.
func (c *changes) page(address string, build func() (*Page, error)) (made func() (*Page, error), next <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made[address] == nil {
		c.made[address] = sync.OnceValues(build)
	}
	return c.made[address], c.next
}

// version names what a page shows: the number of its newest event, and what the whole of it hashes to, since time
// passes as well.
func (p *Page) version() string {
	h := fnv.New64a()
	for _, section := range p.Sections {
		fmt.Fprintln(h, section.ID, section.Title, section.HTML)
	}
	return fmt.Sprintf("%d.%x", p.Event, h.Sum64())
}

// update is what the script gets: the sections that have changed, and the order of all.
type update struct {
	Order   []string          `json:"order"`
	Changed map[string]string `json:"changed"`
}

// stream sends what changes in a page, from the version on that the browser has. It ends with the connection.
func (s *Site) stream(w http.ResponseWriter, r *http.Request, build func(*http.Request) (*Page, error)) {
	session, err := sse.Upgrade(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	has := r.FormValue("version") // of the page that connects; of one that connects again, what came last
	if session.LastEventID.IsSet() {
		has = session.LastEventID.String()
	}
	address := r.URL.Query()
	address.Del("version")
	had := &Page{}
	err = session.Flush()
	for err == nil {
		made, next := s.changes.page(r.URL.Path+"?"+address.Encode(), func() (*Page, error) {
			p, err := build(r.WithContext(context.WithoutCancel(r.Context()))) // others may wait for it
			if err == nil {
				p.Version = p.version()
			}
			return p, err
		})
		if p, buildErr := made(); buildErr == nil { // else it is made again with the next change
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

// update is what has changed in a page since the one that browsers had before, or none. It is made once for all of them.
func (s *Site) update(had, p *Page) string {
	made, _ := p.updates.LoadOrStore(had.Version, sync.OnceValue(func() string {
		u := update{Order: []string{}, Changed: map[string]string{}}
		for _, section := range p.Sections {
			if u.Order = append(u.Order, section.ID); !slices.Contains(had.Sections, section) {
				u.Changed[section.ID] = string(s.html("section", section))
			}
		}
		data, _ := json.Marshal(u) // texts
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
