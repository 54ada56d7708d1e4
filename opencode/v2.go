package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// v2 is the back end for OpenCode 2, from 2.0.4 on.
type v2 struct {
	*Client
	dir string // empty: the one in which the server was started
	*v2memory
}

// v2memory holds what the server cannot be asked for. All directories share it.
type v2memory struct {
	retries sync.Map // the [Status] of sessions that wait for a provider, from their newest event
	ours    sync.Map // ids of sessions that no background service works on
	boots   sync.Map // a [directoryBoot] for each directory
}

const (
	v2page      = 200 // the server's maximum
	v2sessions  = 100 // as many as OpenCode 1 returns
	v2pause     = 100 * time.Millisecond
	instruction = "manager" // the key of a session's instructions
)

func (v v2) in(path string) API {
	v.dir = path
	return v
}

func (v v2) caps() Caps { return Caps{Generation: 2, Version: v.version} }

// here returns the query that names the directory. Paths below a session need none.
func (v v2) here() url.Values {
	if v.dir == "" {
		return url.Values{}
	}
	return url.Values{"location[directory]": {v.dir}}
}

// getData is get for an answer that is wrapped in "data".
func getData[T any](ctx context.Context, v v2, op, path string, query url.Values) (T, error) {
	out, err := get[struct{ Data T }](ctx, v, op, path, query)
	return out.Data, err
}

// v2pages iterates over a list page by page, smaller ones after one that was too long: messages hold the images that an
// agent looked at. Even the last page names a next one, which is empty.
func v2pages[T any](ctx context.Context, v v2, op, path string, query url.Values, yield func(T) (more bool)) error {
	for {
		page, err := get[struct {
			Data   []T
			Cursor struct{ Next string }
		}](ctx, v, op, path, query)
		if limit, _ := strconv.Atoi(query.Get("limit")); limit > 1 && errors.Is(err, errTooLong) {
			query.Set("limit", strconv.Itoa(limit/2))
			continue
		}
		if err != nil {
			return err
		}
		for _, one := range page.Data {
			if !yield(one) {
				return nil
			}
		}
		if len(page.Data) == 0 || page.Cursor.Next == "" {
			return nil
		}
		if page.Cursor.Next == query.Get("cursor") {
			return &Error{Op: op, Message: "the server repeats a page"}
		}
		query.Del("order") // the cursor includes it
		query.Set("cursor", page.Cursor.Next)
	}
}

func v2path(sessionID string, rest ...string) string { return "/api" + sessionPath(sessionID, rest...) }

func (v v2) Reload(context.Context) error { return nil }

// endWork interrupts everything on the server, all of it this program's, and waits for the end. A turn that is cut off
// by its server's end would be resumed by the next background service.
func (v v2) endWork(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	return v2poll(ctx, "end all work", func() (done bool, err error) {
		active, err := v.active(ctx)
		for id := range active {
			err = cmp.Or(err, v.interrupt(ctx, id)) // the server ends its commands with itself
		}
		return len(active) == 0, err
	})
}

func v2poll(ctx context.Context, op string, ask func() (done bool, err error)) error {
	for {
		if done, err := ask(); done || err != nil {
			return err
		}
		if pause(ctx, v2pause) != nil {
			return transportError(ctx, op, ctx.Err())
		}
	}
}

func (v v2) active(ctx context.Context) (map[string]struct{}, error) {
	return getData[map[string]struct{}](ctx, v, "get active sessions", "/api/session/active", nil)
}

type v2rule struct {
	Action   string `json:"action"`
	Resource string `json:"resource"`
	Effect   Action `json:"effect"`
}

// v2tools maps the OpenCode 1 names of tools and permissions to those in OpenCode 2, where they differ.
var v2tools = map[string]string{"bash": "shell", "task": "subagent", TodoTool: "manager_todo"}

// v1tool returns the OpenCode 1 name of a tool.
func v1tool(name string) string {
	for old, now := range v2tools {
		if now == name {
			return old
		}
	}
	return name
}

func v2rulesOf(rules []Rule) (all []v2rule) {
	for _, r := range rules {
		all = append(all, v2rule{cmp.Or(v2tools[r.Permission], r.Permission), r.Pattern, r.Action})
	}
	return all
}

func v1rulesOf(rules []v2rule) (all []Rule) {
	for _, r := range rules {
		all = append(all, Rule{v1tool(r.Action), r.Resource, r.Effect})
	}
	return all
}

func (v v2) CreateSession(ctx context.Context, n NewSession) (Session, error) {
	body := struct {
		NewSession
		Model       *sessionModel     `json:"model,omitempty"`
		Location    map[string]string `json:"location,omitempty"`
		Permissions []v2rule          `json:"permissions,omitempty"`
	}{n, modelOf(n.Model, n.Variant), nil, v2rulesOf(n.Rules)}
	body.Metadata, body.Rules = bequeathing(n.Metadata, n.Rules), nil
	if v.dir != "" {
		body.Location = map[string]string{"directory": v.dir}
	}
	var out struct{ Data Session }
	err := v.call(ctx, request{op: "create session", method: http.MethodPost, path: "/api/session", in: body, out: &out})
	if err == nil {
		v.ours.Store(out.Data.ID, true)
	}
	return out.Data, err
}

// bequeaths marks, in the metadata, a session whose sub-agents inherit its denials. OpenCode 1 does that by itself.
const bequeaths = "bequeaths-denials"

func bequeathing(metadata map[string]any, rules []Rule) map[string]any {
	if len(denials(rules)) == 0 || metadata[bequeaths] != nil {
		return metadata
	}
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata[bequeaths] = true
	return metadata
}

func denials(rules []Rule) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.Action != Deny })
}

// inherit gives a sub-agent's session what it lacks of its parent's denials and of exceptions from them, and marks it to
// pass them on. Most versions do so themselves, which the event that tells of the child shows.
func (v v2) inherit(ctx context.Context, child Session) error {
	if child.ParentID == "" || child.Metadata[bequeaths] != nil && len(denials(child.Rules)) > 0 {
		return nil
	}
	parent, err := v.Session(ctx, child.ParentID)
	if err != nil || parent.Metadata[bequeaths] == nil {
		return err
	}
	rules, denied := slices.Clone(child.Rules), false
	for _, r := range parent.Rules {
		denied = denied || r.Action == Deny
		if denied && r.Action != Ask && !slices.Contains(child.Rules, r) {
			rules = append(rules, r)
		}
	}
	if len(rules) == len(child.Rules) && child.Metadata[bequeaths] != nil {
		return nil
	}
	return v.setRules(ctx, child.ID, rules, bequeathing(child.Metadata, rules))
}

func (v v2) setRules(ctx context.Context, sessionID string, rules []Rule, metadata map[string]any) error {
	return v.call(ctx, request{
		op: "set rules", method: http.MethodPatch, path: v2path(sessionID),
		in: map[string]any{"permissions": v2rulesOf(rules), "metadata": metadata},
	})
}

func (v v2) AddRules(ctx context.Context, sessionID string, rules ...Rule) error {
	s, err := v.Session(ctx, sessionID)
	if err != nil {
		return err
	}
	all := slices.Concat(s.Rules, rules)
	return v.setRules(ctx, sessionID, all, bequeathing(s.Metadata, all))
}

func (v v2) Sessions(ctx context.Context, f SessionFilter) (found []Session, err error) {
	query := url.Values{"limit": {strconv.Itoa(v2sessions)}, "order": {"desc"}, "directory": {v.dir}}
	if f.Title != "" {
		query.Set("search", f.Title)
	}
	if f.Roots {
		query.Set("parentID", "null")
	}
	err = v2pages(ctx, v, "list sessions", "/api/session", query, func(s Session) bool {
		if s.Updated.Before(f.UpdatedSince) {
			return false
		}
		found = append(found, s)
		return len(found) < v2sessions
	})
	return found, err
}

func (v v2) Session(ctx context.Context, sessionID string) (Session, error) {
	return getData[Session](ctx, v, "get session", v2path(sessionID), nil)
}

func (v v2) Children(ctx context.Context, sessionID string) (found []Session, err error) {
	query := url.Values{"limit": {strconv.Itoa(v2page)}, "parentID": {sessionID}}
	err = v2pages(ctx, v, "list child sessions", "/api/session", query, func(s Session) bool {
		found = append(found, s)
		return true
	})
	return found, err
}

func (v v2) DeleteSession(ctx context.Context, sessionID string) error {
	return remove(ctx, v, "delete session", v2path(sessionID), nil)
}

// ArchiveSession does nothing: sessions of 2.0.21 have a time of archiving, and no call sets it.
func (v v2) ArchiveSession(context.Context, string, time.Time) error { return nil }

// Statuses reports a session as busy while a sub-agent is, even in the background: it then continues by itself.
func (v v2) Statuses(ctx context.Context) (map[string]Status, error) {
	active, err := v.active(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]Status{}
	for id := range active {
		for ; id != "" && all[id].Type == ""; id, err = v.parent(ctx, id) {
			all[id] = Status{Type: Busy}
			if status, waits := v.retries.Load(id); waits {
				all[id] = status.(Status)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// parent returns the id of a session's parent, or "".
func (v v2) parent(ctx context.Context, sessionID string) (string, error) {
	s, err := v.Session(ctx, sessionID)
	return s.ParentID, ignoreNotFound(err)
}

// Todos returns the input of the newest completed call of the todo tool, since OpenCode 2 has no list of its own.
func (v v2) Todos(ctx context.Context, sessionID string) (todos []Todo, err error) {
	query := url.Values{"limit": {strconv.Itoa(v2page)}, "order": {"desc"}, "type": {"assistant"}}
	err = v2pages(ctx, v, "get todos", v2path(sessionID, "message"), query, func(m v2message) bool {
		for _, c := range slices.Backward(m.Content) {
			if c.Name == v2tools[TodoTool] && c.State.Status == string(ToolCompleted) {
				todos = todosOf(c.State.Input)
				return false
			}
		}
		return true
	})
	return todos, err
}

func todosOf(input json.RawMessage) []Todo {
	var in struct{ Todos []Todo }
	_ = unmarshal(input, &in) // odd input is an empty list
	return in.Todos
}
