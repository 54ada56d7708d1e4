package fakeopencode

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

type event struct {
	ID       string       `json:"id"`
	Created  int64        `json:"created"` // milliseconds
	Type     string       `json:"type"`
	Durable  *durable     `json:"durable,omitempty"`
	Location *locationRef `json:"location,omitempty"`
	Data     fields       `json:"data"`
}

// durable numbers a session's events without gaps. They are not stored, since nothing replays them, and lack a version.
type durable struct {
	AggregateID string `json:"aggregateID"`
	Seq         int    `json:"seq"`
}

type fields map[string]any

const (
	backlog = 4096             // events that a reader may lag behind before it is disconnected
	silence = 15 * time.Second // between heartbeats
)

// emit publishes a durable event, and stores the session.
func (x *session) emit(eventType string, data fields) {
	x.Seq++
	x.publish(event{Type: eventType, Durable: &durable{x.Info.ID, x.Seq}, Data: data})
	x.save()
}

// live publishes an event without a number.
func (x *session) live(eventType string, data fields) {
	x.publish(event{Type: eventType, Data: data})
}

func (x *session) publish(e event) {
	if e.Data["form"] == nil {
		e.Data["sessionID"] = x.Info.ID
	}
	if !strings.HasPrefix(e.Type, "session.execution.") || x.server.behaviour.EventLocations {
		e.Location = &x.Info.Location
	}
	x.server.publish(e)
}

// publish sends an event to all listeners, and disconnects those that lag too far behind.
func (s *Server) publish(e event) {
	data := s.encode(e)
	for l := range s.listeners {
		select {
		case l <- data:
		default:
			delete(s.listeners, l)
			close(l)
		}
	}
}

func (s *Server) encode(e event) []byte {
	e.ID, e.Created = s.newID("evt_"), now()
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // what came in as JSON goes out as JSON
	}
	return data
}

type listener chan []byte

// eventStream streams all events from now on.
func (s *Server) eventStream(w http.ResponseWriter, r *http.Request) {
	l := make(listener, backlog)
	s.mu.Lock()
	l <- s.encode(event{Type: "server.connected", Data: fields{}})
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, l)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	heartbeat := time.NewTicker(silence)
	defer heartbeat.Stop()
	for out.Flush() == nil {
		select {
		case data, open := <-l:
			if !open {
				return
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
		case <-heartbeat.C:
			_, _ = io.WriteString(w, ": heartbeat\n\n")
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}
