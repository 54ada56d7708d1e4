package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// v2 speaks to OpenCode 2, from 2.0.4 on.
type v2 struct {
	*Client
	dir string // empty: that in which the server was started
	*v2memory
}

// v2memory is what the server does not say when it is asked. It is of all directories.
type v2memory struct {
	retries sync.Map // the [Status] of sessions that wait for a provider, by the newest event
	ours    sync.Map // sessions that no background service works on
}

const (
	v2page      = 200 // the most that a list gives at once
	v2sessions  = 100 // as many as 1.x gives
	v2patience  = 10 * time.Second
	v2pause     = 100 * time.Millisecond
	instruction = "manager" // the key of a session's instructions
)

func (v v2) in(path string) API {
	v.dir = path
	return v
}

func (v v2) caps() Caps { return Caps{Generation: 2, Version: v.version} }

// here is the query that names the directory. What is below a session needs none.
func (v v2) here() url.Values {
	if v.dir == "" {
		return url.Values{}
	}
	return url.Values{"location[directory]": {v.dir}}
}

// getData is a call that reads what an answer has as its data.
func getData[T any](ctx context.Context, v v2, op, path string, query url.Values) (T, error) {
	out, err := get[struct{ Data T }](ctx, v, op, path, query)
	return out.Data, err
}

// v2pages goes through a list page by page: the last one names a next one as well, which is empty.
func v2pages[T any](ctx context.Context, v v2, op, path string, query url.Values, yield func(T) (more bool)) error {
	for {
		page, err := get[struct {
			Data   []T
			Cursor struct{ Next string }
		}](ctx, v, op, path, query)
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
		query.Del("order") // which the cursor has
		query.Set("cursor", page.Cursor.Next)
	}
}

func v2path(sessionID string, rest ...string) string { return "/api" + sessionPath(sessionID, rest...) }

// endWork interrupts what runs on the server, which is all of this program, and waits until it has ended: a turn that ends
// with its server is taken up by the next background service.
func (v v2) endWork(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	return v2poll(ctx, "end all work", func() (done bool, err error) {
		active, err := v.active(ctx)
		for id := range active {
			err = cmp.Or(err, v.Abort(ctx, id))
		}
		return len(active) == 0, err
	})
}

// v2poll asks again and again until it is done.
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

// v2tools are the tools, and permissions, that have another name than in OpenCode 1, by that.
var v2tools = map[string]string{"bash": "shell", "task": "subagent", TodoTool: "manager_todo"}

// v1tool is what a tool is called in OpenCode 1.
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

// bequeaths marks, in the metadata, a session whose sub-agents are to be denied what it is: OpenCode 1 does that by itself.
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

// inherit denies a sub-agent, and those that it has, what its parent is denied.
func (v v2) inherit(ctx context.Context, child Session) error {
	if child.ParentID == "" || child.Metadata[bequeaths] != nil {
		return nil
	}
	parent, err := v.Session(ctx, child.ParentID)
	if err != nil || parent.Metadata[bequeaths] == nil {
		return err
	}
	return v.setRules(ctx, child.ID, denials(parent.Rules), map[string]any{bequeaths: true})
}

// setRules takes the place of the rules and the metadata that a session has.
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

func (v v2) Abort(ctx context.Context, sessionID string) error {
	return ignoreNotFound(post(ctx, v, "abort session", v2path(sessionID, "interrupt"), nil))
}

// Statuses has a session as busy whose sub-agent is, also one in the background: it goes on by itself.
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

// parent is the session whose sub-agent works in this one; empty: it has none.
func (v v2) parent(ctx context.Context, sessionID string) (string, error) {
	s, err := v.Session(ctx, sessionID)
	return s.ParentID, ignoreNotFound(err)
}

// Todos are what the newest call of the list tool says: OpenCode 2 has none of its own.
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
	_ = unmarshal(input, &in) // what is no list is an empty one
	return in.Todos
}
