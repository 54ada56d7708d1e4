package fakeopencode

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// session is one conversation. What has a JSON name is stored; see [session.save].
type session struct {
	Info     sessionInfo       `json:"info"`
	Messages []*message        `json:"messages"`
	Inbox    []*inboxItem      `json:"inbox"`
	Seq      int               `json:"seq"`     // of the newest durable event
	Entries  map[string]string `json:"entries"` // instructions

	server *Server
	run    *execution // nil: idle
}

type sessionInfo struct {
	ID          string         `json:"id"`
	ParentID    string         `json:"parentID,omitempty"`
	ProjectID   string         `json:"projectID"`
	Agent       string         `json:"agent,omitempty"`
	Model       *modelRef      `json:"model,omitempty"`
	Cost        float64        `json:"cost"`
	Tokens      tokens         `json:"tokens"`
	Outcome     string         `json:"outcome,omitempty"`
	Time        sessionTime    `json:"time"`
	Title       string         `json:"title,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	Permissions []rule         `json:"permissions,omitempty"`
	Location    locationRef    `json:"location"`
}

type sessionTime struct {
	Created int64 `json:"created"`
	Updated int64 `json:"updated"`
	Idle    int64 `json:"idle,omitempty"`
}

func (x *session) path() string { return filepath.Join(x.server.data, "session", x.Info.ID+".json") }

// save stores the session, in whole, before anybody is told of what changed.
func (x *session) save() {
	data, err := json.Marshal(x)
	if err == nil {
		err = os.WriteFile(x.path()+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(x.path()+".new", x.path())
	}
	if err != nil {
		panic(fmt.Sprintf("store a session: %v", err)) // a test cannot go on like that
	}
}

// load reads the sessions of an earlier server: what ran there does not run here.
func (s *Server) load() error {
	files, err := filepath.Glob(filepath.Join(s.data, "session", "*.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		x := &session{server: s}
		if err := json.Unmarshal(data, x); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		s.sessions[x.Info.ID] = x
	}
	return nil
}

func (s *Server) session(r *http.Request) (*session, error) {
	id := r.PathValue("sessionID")
	if x := s.sessions[id]; x != nil {
		return x, nil
	}
	return nil, notFound("Session", "sessionID", id)
}

type newSession struct {
	ID, Title, Agent, ParentID string // the last for sub-agents alone
	Model                      *modelRef
	Location                   *locationRef
	Metadata                   map[string]any
	Permissions                []rule
}

func (s *Server) createSession(r *http.Request) (any, error) {
	in, err := read[newSession](r)
	if err != nil {
		return nil, err
	}
	if in.ID != "" && !strings.HasPrefix(in.ID, "ses") {
		return nil, badRequest("id: expected a string that begins with ses")
	}
	in.ParentID = ""
	if s.behaviour.IgnoreRules {
		in.Permissions = nil
	}
	if in.Location == nil {
		l, err := s.locate(r)
		if err != nil {
			return nil, err
		}
		in.Location = &l.ref
	}
	x, err := s.newSession(in)
	if err != nil {
		return nil, err
	}
	return x.Info, nil
}

// newSession makes a session. One whose id exists is the old one, whatever else is wanted.
func (s *Server) newSession(in newSession) (*session, error) {
	if old := s.sessions[in.ID]; old != nil {
		return old, nil
	}
	if _, err := s.at(in.Location.Directory); err != nil {
		return nil, err
	}
	x := &session{server: s, Entries: map[string]string{}, Info: sessionInfo{
		ID: cmp.Or(in.ID, s.newID("ses_")), ParentID: in.ParentID, ProjectID: "global", Agent: in.Agent, Model: in.Model,
		Title: in.Title, Metadata: in.Metadata, Permissions: in.Permissions, Location: *in.Location,
		Time: sessionTime{Created: now(), Updated: now()},
	}}
	s.sessions[x.Info.ID] = x
	created := fields{
		"projectID": x.Info.ProjectID, "location": x.Info.Location, "slug": "stand-in", "version": s.behaviour.Version,
	}
	for name, value := range map[string]string{"parentID": in.ParentID, "title": in.Title, "agent": in.Agent} {
		if value != "" {
			created[name] = value
		}
	}
	if in.Model != nil {
		created["model"] = in.Model
	}
	x.emit("session.created", created)
	return x, nil
}

func (x *session) getSession(*http.Request) (any, error) {
	return x.Info, nil
}

func (s *Server) listSessions(r *http.Request) (any, error) {
	query := r.URL.Query()
	var all []*session
	for _, x := range s.sessions {
		parent := query.Get("parentID")
		if dir := query.Get("directory"); (dir == "" || dir == x.Info.Location.Directory) &&
			strings.Contains(strings.ToLower(x.Info.Title), strings.ToLower(query.Get("search"))) &&
			(parent == "" || parent == x.Info.ParentID || parent == "null" && x.Info.ParentID == "") {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.Info.Time.Updated, b.Info.Time.Updated), cmp.Compare(a.Info.ID, b.Info.ID))
	})
	return paged(s, query.Get("limit"), query.Get("order"), query.Get("cursor"), all,
		func(x *session) (string, any) { return x.Info.ID, x.Info })
}

// maxPage is the most that a page holds.
const maxPage = 200

// cursor is where a page begins.
type cursor struct{ Order, After string }

// paged answers one page of a list that is in ascending order. item gives an element's id and what is sent of it.
func paged[T any](s *Server, limit, order, at string, all []T, item func(T) (string, any)) (any, error) {
	size := 50
	if limit != "" {
		var err error
		if size, err = strconv.Atoi(limit); err != nil || size < 1 || size > maxPage {
			return nil, badRequest("limit: expected 1 to %d", maxPage)
		}
	}
	from := cursor{Order: cmp.Or(order, "desc")}
	if at != "" {
		data, err := base64.RawURLEncoding.DecodeString(at)
		if order != "" || err != nil || json.Unmarshal(data, &from) != nil {
			return nil, &apiError{http.StatusBadRequest, fields{"_tag": "InvalidCursorError", "message": "Invalid cursor"}}
		}
	}
	if from.Order == "desc" {
		all = slices.Clone(all)
		slices.Reverse(all)
	}
	if from.After != "" {
		all = all[slices.IndexFunc(all, func(e T) bool { id, _ := item(e); return id == from.After })+1:]
	}
	last := len(all) <= size
	page, out := all[:min(size, len(all))], []any{}
	next := fields{}
	for _, e := range page {
		id, sent := item(e)
		from.After = id
		out = append(out, sent)
	}
	if len(page) > 0 && (!last || !s.behaviour.LastPage) { // without that, the last one has a cursor as well
		data, _ := json.Marshal(from) // strings
		next["next"] = base64.RawURLEncoding.EncodeToString(data)
	}
	return bare{fields{"data": out, "cursor": next}}, nil
}

func (s *Server) active(*http.Request) (any, error) {
	running := fields{}
	for id, x := range s.sessions {
		if x.run != nil {
			running[id] = fields{"type": "running"}
		}
	}
	return running, nil
}

func (x *session) removeSession(*http.Request) (any, error) {
	x.server.remove(x)
	return nil, nil
}

func (s *Server) remove(x *session) {
	for _, child := range s.children(x) {
		s.remove(child)
	}
	x.stop(errInterrupted)
	x.emit("session.deleted", fields{})
	delete(s.sessions, x.Info.ID)
	_ = os.Remove(x.path())
}

func (s *Server) children(x *session) (all []*session) {
	for _, other := range s.sessions {
		if other.Info.ParentID == x.Info.ID {
			all = append(all, other)
		}
	}
	return all
}

func (x *session) updateSession(r *http.Request) (any, error) {
	in, err := read[struct {
		Metadata    map[string]any
		Permissions []rule
	}](r)
	if err != nil || in.Permissions == nil {
		return nil, cmp.Or(err, badRequest("permissions: expected a list"))
	}
	x.Info.Metadata = in.Metadata
	x.Info.Permissions = in.Permissions
	x.emit("session.permissions", fields{"permissions": in.Permissions})
	return nil, nil
}

func (x *session) switchAgent(r *http.Request) (any, error) {
	in, err := read[struct{ Agent string }](r)
	if err != nil || in.Agent == "" {
		return nil, cmp.Or(err, badRequest("agent: expected a string"))
	}
	x.Info.Agent = in.Agent
	x.add(&message{Type: "agent-switched", Agent: in.Agent})
	x.emit("session.agent.selected", fields{"agent": in.Agent})
	return nil, nil
}

func (x *session) switchModel(r *http.Request) (any, error) {
	in, err := read[struct{ Model *modelRef }](r)
	if err != nil || in.Model == nil {
		return nil, cmp.Or(err, badRequest("model: expected an object"))
	}
	x.add(&message{Type: "model-switched", Model: in.Model})
	x.Info.Model = in.Model
	x.emit("session.model.selected", fields{"model": in.Model})
	return nil, nil
}

// add appends a message, with an id and the time where it has none.
func (x *session) add(m *message) *message {
	m.ID = cmp.Or(m.ID, x.server.newID("msg_"))
	m.Time.Created = cmp.Or(m.Time.Created, now())
	x.Messages = append(x.Messages, m)
	x.Info.Time.Updated = now()
	return m
}

func (x *session) listMessages(r *http.Request) (any, error) {
	query, all := r.URL.Query(), x.Messages
	if kind := query.Get("type"); kind != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(m *message) bool { return m.Type != kind })
	}
	return paged(x.server, query.Get("limit"), query.Get("order"), query.Get("cursor"), all,
		func(m *message) (string, any) { return m.ID, m })
}

func (x *session) getMessage(r *http.Request) (any, error) {
	id := r.PathValue("messageID")
	if m := x.message(id); m != nil {
		return m, nil
	}
	missing := notFound("Message", "messageID", id)
	missing.body["sessionID"] = x.Info.ID
	return nil, missing
}

func (x *session) message(id string) *message {
	if i := slices.IndexFunc(x.Messages, func(m *message) bool { return m.ID == id }); i >= 0 {
		return x.Messages[i]
	}
	return nil
}

func (x *session) putEntry(r *http.Request) (any, error) {
	in, err := read[struct{ Value string }](r)
	if err != nil {
		return nil, err
	}
	x.Entries[r.PathValue("key")] = in.Value
	x.save()
	return nil, nil
}

// instructions are a part of the system prompt.
func (x *session) instructions() (text string) {
	for _, key := range slices.Sorted(maps.Keys(x.Entries)) {
		text += "\n" + x.Entries[key]
	}
	return text
}

// tree is the hash of a git tree with the content of the session's directory; empty outside of git, or where the
// configuration wants none. It is kept apart from the project's own repository.
func (x *session) tree() string {
	l := x.server.locations[x.Info.Location.Directory]
	if _, err := os.Stat(filepath.Join(l.ref.Directory, ".git")); err != nil || !l.config.Snapshots {
		return ""
	}
	if _, err := os.Stat(x.snapshots()); err != nil {
		x.git("init", "--quiet")
	}
	x.git("add", "--all")
	return x.git("write-tree")
}

func (x *session) snapshots() string {
	name := sha256.Sum256([]byte(x.Info.Location.Directory))
	return filepath.Join(x.server.data, "snapshot", hex.EncodeToString(name[:8]))
}

func (x *session) git(args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir = x.Info.Location.Directory
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_DIR="+x.snapshots(), "GIT_WORK_TREE="+cmd.Dir, "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, _ := cmd.Output() // a snapshot that could not be made is none
	return strings.TrimSpace(string(out))
}
