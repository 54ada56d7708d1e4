package fakeopencode

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// session is one conversation. Fields with a JSON name are stored; see [session.save].
type session struct {
	Info     sessionInfo       `json:"info"`
	Messages []*message        `json:"messages"`
	Inbox    []*message        `json:"inbox"`   // prompts not delivered yet
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
	Time        times          `json:"time"`
	Title       string         `json:"title,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	Permissions []rule         `json:"permissions,omitempty"`
	Location    locationRef    `json:"location"`
}

func (x *session) path() string { return filepath.Join(x.server.data, "session", x.Info.ID+".json") }

func (x *session) save() {
	data, err := json.Marshal(x)
	if err == nil {
		err = os.WriteFile(x.path()+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(x.path()+".new", x.path())
	}
	if err != nil {
		panic(fmt.Sprintf("store a session: %v", err)) // a test cannot continue like that
	}
}

// load reads the sessions of an earlier server. None of them runs.
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

func (x *session) location() *location { return x.server.at(x.Info.Location.Directory) }

func (x *session) children() (all []*session) {
	for _, other := range x.server.sessions {
		if other.Info.ParentID == x.Info.ID {
			all = append(all, other)
		}
	}
	return all
}

func (s *Server) createSession(r *http.Request) (any, error) {
	in := read[sessionInfo](r)
	if s.behaviour.IgnoreRules {
		in.Permissions = nil
	}
	return s.newSession(sessionInfo{
		Title: in.Title, Agent: in.Agent, Model: in.Model, Metadata: in.Metadata, Permissions: in.Permissions,
		Location: locationRef{cmp.Or(in.Location.Directory, s.cfg.Dir)},
	}).Info, nil
}

func (s *Server) newSession(info sessionInfo) *session {
	info.ID, info.ProjectID = s.newID("ses_"), "global"
	info.Time = times{Created: now(), Updated: now()}
	x := &session{server: s, Entries: map[string]string{}, Info: info, Seq: -1}
	s.sessions[info.ID] = x
	created := fields{
		"projectID": info.ProjectID, "location": info.Location, "slug": "stand-in", "version": s.behaviour.Version,
		"parentID": info.ParentID, "title": info.Title, "agent": info.Agent,
	}
	maps.DeleteFunc(created, func(_ string, value any) bool { return value == "" })
	if len(info.Permissions) > 0 {
		created["permissions"] = info.Permissions
	}
	if info.Metadata != nil {
		created["metadata"] = info.Metadata
	}
	if info.Model != nil {
		created["model"] = info.Model
	}
	x.emit("session.created", created)
	return x
}

func (x *session) getSession(*http.Request) (any, error) {
	return x.Info, nil
}

func (s *Server) listSessions(r *http.Request) (any, error) {
	query := r.URL.Query()
	parent, dir := query.Get("parentID"), query.Get("directory")
	var all []*session
	for _, x := range s.sessions {
		if (dir == "" || dir == x.Info.Location.Directory) &&
			strings.Contains(strings.ToLower(x.Info.Title), strings.ToLower(query.Get("search"))) &&
			(parent == "" || parent == x.Info.ParentID || parent == "null" && x.Info.ParentID == "") {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.Info.Time.Updated, b.Info.Time.Updated), cmp.Compare(a.Info.ID, b.Info.ID))
	})
	return paged(s, query, all, func(x *session) (string, any) { return x.Info.ID, x.Info })
}

// paged answers one page of all, in ascending order. item returns an element's id and form. A cursor has order and last
// id.
func paged[T any](s *Server, query url.Values, all []T, item func(T) (string, any)) (any, error) {
	size, err := strconv.Atoi(cmp.Or(query.Get("limit"), "50"))
	if err != nil || size < 1 || size > 200 {
		return nil, badRequest("limit: expected 1 to 200")
	}
	order, after, resumed := strings.Cut(query.Get("cursor"), ":")
	if !resumed {
		order = cmp.Or(query.Get("order"), "desc")
	}
	if order == "desc" {
		all = slices.Clone(all)
		slices.Reverse(all)
	}
	if resumed {
		all = all[slices.IndexFunc(all, func(e T) bool { id, _ := item(e); return id == after })+1:]
	}
	out, next := []any{}, fields{}
	for _, e := range all[:min(size, len(all))] {
		id, sent := item(e)
		out = append(out, sent)
		if len(all) > size || !s.behaviour.LastPage { // by default the last page has a cursor too
			next["next"] = order + ":" + id
		}
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

func (x *session) removeSession(r *http.Request) (any, error) {
	x.stop(errInterrupted)
	for _, child := range x.children() {
		_, _ = child.removeSession(r) // best effort
	}
	_, _ = x.wait(r) // the end of its turn is stored
	x.emit("session.deleted", fields{})
	delete(x.server.sessions, x.Info.ID)
	return nil, os.Remove(x.path())
}

func (x *session) updateSession(r *http.Request) (any, error) {
	in := read[sessionInfo](r)
	x.Info.Metadata = in.Metadata
	x.Info.Permissions = in.Permissions
	x.emit("session.permissions", fields{"permissions": in.Permissions})
	return nil, nil
}

func (x *session) switchAgent(r *http.Request) (any, error) {
	in := read[sessionInfo](r)
	x.Info.Agent = in.Agent
	x.add(&message{Type: "agent-switched", Agent: in.Agent})
	x.emit("session.agent.selected", fields{"agent": in.Agent})
	return nil, nil
}

func (x *session) switchModel(r *http.Request) (any, error) {
	in := read[sessionInfo](r)
	x.Info.Model = in.Model
	x.add(&message{Type: "model-switched", Model: in.Model})
	x.emit("session.model.selected", fields{"model": in.Model})
	return nil, nil
}

// add appends a message, and sets its id and time if it has none. Only prompts count as updates of the session.
func (x *session) add(m *message) *message {
	m.ID = cmp.Or(m.ID, x.server.newID("msg_"))
	m.Time.Created = cmp.Or(m.Time.Created, now())
	x.Messages = append(x.Messages, m)
	if m.Type == "user" || m.Type == "synthetic" {
		x.Info.Time.Updated = now()
	}
	return m
}

func (x *session) listMessages(r *http.Request) (any, error) {
	query, all := r.URL.Query(), x.Messages
	if kind := query.Get("type"); kind != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(m *message) bool { return m.Type != kind })
	}
	return paged(x.server, query, all, func(m *message) (string, any) { return m.ID, m })
}

func (x *session) getMessage(r *http.Request) (any, error) {
	id := r.PathValue("messageID")
	if i := slices.IndexFunc(x.Messages, func(m *message) bool { return m.ID == id }); i >= 0 {
		return x.Messages[i], nil
	}
	missing := notFound("Message", "messageID", id)
	missing.body["sessionID"] = x.Info.ID
	return nil, missing
}

func (x *session) putEntry(r *http.Request) (any, error) {
	x.Entries[r.PathValue("key")] = read[struct{ Value string }](r).Value
	x.save()
	return nil, nil
}

func (x *session) instructions() (text string) {
	for _, key := range slices.Sorted(maps.Keys(x.Entries)) {
		text += "\n" + x.Entries[key]
	}
	return text
}

// tree returns the hash of a git tree of the session's directory, from a repository apart from the project's. It is
// empty outside of git, or if the configuration disables snapshots.
func (x *session) tree() string {
	dir := x.Info.Location.Directory
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil || !x.location().config.Snapshot {
		return ""
	}
	repo := filepath.Join(x.server.data, "snapshot", fmt.Sprintf("%x", sha256.Sum256([]byte(dir))))
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "GIT_") })
		cmd.Env = append(cmd.Env, "GIT_DIR="+repo, "GIT_WORK_TREE="+dir, "GIT_CONFIG_GLOBAL="+os.DevNull)
		out, _ := cmd.Output() // a failed snapshot is empty
		return strings.TrimSpace(string(out))
	}
	if _, err := os.Stat(repo); err != nil {
		git("init", "--quiet")
	}
	git("add", "--all")
	return git("write-tree")
}
