package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// v1 is the back end for OpenCode 1.18 and later 1.x.
type v1 struct {
	*Client
	dir string // empty: the one in which the server was started
}

func (v v1) in(path string) API { return v1{v.Client, path} }

func (v v1) caps() Caps {
	return Caps{Generation: 1, Version: v.version, Todos: true, Diagnostics: true, Toasts: true, Archives: true}
}

func (v v1) events() (path string, read func(data []byte) ([]Event, error)) {
	return "/global/event", readEvent
}

// endWork has OpenCode dispose of everything: turns are aborted and recorded as aborted, tools and language servers are
// killed. It takes a tenth of a second. SIGTERM does none of this: it takes 1.7 s and leaves tools running, because
// each runs in a session of its own, outside the process group.
func (v v1) endWork(ctx context.Context, grace time.Duration) error {
	return v.Client.call(ctx, request{op: "end all work", method: http.MethodPost, path: "/global/dispose", timeout: grace})
}

func (v v1) call(ctx context.Context, r request) error {
	if r.query == nil {
		r.query = url.Values{}
	}
	r.query.Set("directory", v.dir)
	return v.Client.call(ctx, r)
}

func (v v1) Reload(ctx context.Context) error {
	return post(ctx, v, "reload the directory", "/instance/dispose", nil)
}

func (v v1) CreateSession(ctx context.Context, n NewSession) (Session, error) {
	body := struct {
		NewSession
		Model *sessionModel `json:"model,omitempty"`
	}{n, modelOf(n.Model, n.Variant)}
	var out Session
	err := v.call(ctx, request{
		op: "create session", method: http.MethodPost, path: "/session", in: body, out: &out,
	})
	return out, err
}

func (v v1) Sessions(ctx context.Context, f SessionFilter) ([]Session, error) {
	query := url.Values{}
	if f.Title != "" {
		query.Set("search", f.Title)
	}
	if f.Roots {
		query.Set("roots", "true")
	}
	if !f.UpdatedSince.IsZero() {
		query.Set("start", strconv.FormatInt(f.UpdatedSince.UnixMilli(), 10))
	}
	return get[[]Session](ctx, v, "list sessions", "/session", query)
}

func (v v1) Session(ctx context.Context, sessionID string) (Session, error) {
	return get[Session](ctx, v, "get session", sessionPath(sessionID), nil)
}

func (v v1) Children(ctx context.Context, sessionID string) ([]Session, error) {
	return get[[]Session](ctx, v, "list child sessions", sessionPath(sessionID, "children"), nil)
}

func (v v1) AddRules(ctx context.Context, sessionID string, rules ...Rule) error {
	return v.call(ctx, request{
		op: "add rules", method: http.MethodPatch, path: sessionPath(sessionID), in: map[string]any{"permission": rules},
	})
}

func (v v1) DeleteSession(ctx context.Context, sessionID string) error {
	return remove(ctx, v, "delete session", sessionPath(sessionID), nil)
}

// ArchiveSession sends 0 for no time: OpenCode 1.18.33 ignores null.
func (v v1) ArchiveSession(ctx context.Context, sessionID string, at time.Time) error {
	var archived int64
	if !at.IsZero() {
		archived = at.UnixMilli()
	}
	return v.call(ctx, request{
		op: "archive session", method: http.MethodPatch, path: sessionPath(sessionID),
		in: map[string]any{"time": map[string]int64{"archived": archived}},
	})
}

func (v v1) Abort(ctx context.Context, sessionID string) error {
	return post(ctx, v, "abort session", sessionPath(sessionID, "abort"), nil)
}

func (v v1) Statuses(ctx context.Context) (map[string]Status, error) {
	return get[map[string]Status](ctx, v, "get session statuses", "/session/status", nil)
}

func (v v1) Todos(ctx context.Context, sessionID string) ([]Todo, error) {
	return get[[]Todo](ctx, v, "get todos", sessionPath(sessionID, "todo"), nil)
}

func (v v1) Prompt(ctx context.Context, sessionID string, p Prompt) error {
	if v.cfg.Slow != nil {
		v.watched.Do(func() { v.Client.events.inBackground(v.tellSlowServers) })
	}
	return post(ctx, v, "send prompt", sessionPath(sessionID, "prompt_async"), p.wire())
}

type wirePrompt struct {
	Prompt
	Parts  []wirePart     `json:"parts"`
	Format map[string]any `json:"format,omitempty"`
}

type wirePart struct {
	ID       string         `json:"id"`
	Type     PartType       `json:"type"`
	Text     string         `json:"text"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

func (p Prompt) wire() wirePrompt {
	p.MessageID = cmp.Or(p.MessageID, NewMessageID(time.Now()))
	// Without its own id the text would get a new one with each arrival, and the message would hold it twice.
	id := "prt_" + strings.TrimPrefix(p.MessageID, messagePrefix) + "0000"
	return wirePrompt{Prompt: p, Parts: []wirePart{{id, PartText, p.Text, p.Metadata}}}
}

// Messages, too, decodes one message at a time: images that an agent looked at are in the answer, and are not kept.
func (v v1) Messages(ctx context.Context, sessionID string, limit int) (all []Message, err error) {
	for m, err := range v.messages(ctx, sessionID, url.Values{"limit": {strconv.Itoa(limit)}}) {
		if err != nil {
			return nil, err
		}
		all = append(all, m)
		if len(all) > limit { // a server that ignores the limit sends oldest first
			all = append(all[:0], all[1:]...)
		}
	}
	return all, nil
}

func (v v1) EachMessage(ctx context.Context, sessionID string) iter.Seq2[Message, error] {
	return v.messages(ctx, sessionID, nil)
}

func (v v1) messages(ctx context.Context, sessionID string, query url.Values) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		left := false
		scan := func(in *json.Decoder) error {
			if begin, err := in.Token(); err != nil || begin != json.Delim('[') {
				return cmp.Or(err, errors.New("the messages are no list"))
			}
			for in.More() && !left {
				var m Message
				if err := in.Decode(&m); err != nil {
					return err
				}
				left = !yield(m, nil)
			}
			if left {
				return nil
			}
			_, err := in.Token() // the end of the list
			return err
		}
		err := v.call(ctx, request{
			op: "list messages", method: http.MethodGet, path: sessionPath(sessionID, "message"), query: query, scan: scan,
		})
		if err != nil && !left {
			yield(Message{}, err)
		}
	}
}

func (v v1) Message(ctx context.Context, sessionID, messageID string) (Message, error) {
	return get[Message](ctx, v, "get message", sessionPath(sessionID, "message", messageID), nil)
}

func (v v1) Requests(ctx context.Context) ([]Request, error) {
	permissions, err := get[[]Request](ctx, v, "list permission requests", "/permission", nil)
	if err != nil {
		return nil, err
	}
	questions, err := get[[]Request](ctx, v, "list questions", "/question", nil)
	return append(permissions, questions...), err
}

func (v v1) ReplyPermission(ctx context.Context, requestID string, reply PermissionReply, message string) error {
	body := struct {
		Reply   PermissionReply `json:"reply"`
		Message string          `json:"message,omitempty"`
	}{reply, message}
	return post(ctx, v, "reply to permission request", "/permission/"+url.PathEscape(requestID)+"/reply", body)
}

func (v v1) AnswerQuestion(ctx context.Context, requestID string, answers [][]string) error {
	body := map[string]any{"answers": answers}
	return post(ctx, v, "answer question", "/question/"+url.PathEscape(requestID)+"/reply", body)
}

func (v v1) RejectQuestion(ctx context.Context, requestID string) error {
	return post(ctx, v, "reject question", "/question/"+url.PathEscape(requestID)+"/reject", nil)
}

func (v v1) Catalogue(ctx context.Context) (out Catalogue, err error) {
	all, err := get[struct {
		Providers []struct {
			ID, Key string
			Options struct{ APIKey, BaseURL string }
			Models  map[string]struct{ Variants map[string]json.RawMessage }
		}
	}](ctx, v, "list providers", "/config/providers", nil)
	out.Addresses, out.Efforts = map[string]string{}, map[ModelRef][]string{}
	for _, p := range all.Providers {
		out.Keys = append(out.Keys, p.Key, p.Options.APIKey)
		if p.Options.BaseURL != "" {
			out.Addresses[p.ID] = p.Options.BaseURL
		}
		for id, m := range p.Models {
			ref := ModelRef{p.ID, id}
			out.Models = append(out.Models, ref)
			out.Efforts[ref] = slices.Sorted(maps.Keys(m.Variants))
		}
	}
	return out, err
}

func (v v1) DefaultModel(ctx context.Context) (string, error) {
	config, err := get[struct{ Model string }](ctx, v, "get configuration", "/config", nil)
	return config.Model, err
}

func (v v1) Agents(ctx context.Context) (names []string, err error) {
	all, err := get[[]struct{ Name string }](ctx, v, "list agents", "/agent", nil)
	for _, agent := range all {
		names = append(names, agent.Name)
	}
	return names, err
}

func (v v1) AgentRules(ctx context.Context, agent string) ([]Rule, error) {
	if agent == "" {
		config, err := get[struct {
			Default string `json:"default_agent"`
		}](ctx, v, "get configuration", "/config", nil)
		if err != nil {
			return nil, err
		}
		agent = cmp.Or(config.Default, buildAgent)
	}
	all, err := get[[]struct {
		Name  string
		Rules []Rule `json:"permission"`
	}](ctx, v, "list agents", "/agent", nil)
	for _, a := range all {
		if a.Name == agent {
			return a.Rules, err
		}
	}
	return nil, err
}

// buildAgent is the default agent of OpenCode.
const buildAgent = "build"

func (v v1) HasLanguageServer(ctx context.Context) (bool, error) {
	type server struct{ Status string }
	all, err := get[[]server](ctx, v, "list language servers", "/lsp", nil)
	return slices.Contains(all, server{"connected"}), err
}

func (v v1) ShowToast(ctx context.Context, t Toast) error {
	return post(ctx, v, "show toast", "/tui/show-toast", struct {
		Toast
		Milliseconds int64 `json:"duration,omitempty"`
	}{t, t.Duration.Milliseconds()})
}

func (v v1) AddMCP(ctx context.Context, server MCPServer) error {
	const op = "add MCP server"
	config, limit, wait := server.wire()
	config["timeout"] = limit.Milliseconds()
	var out map[string]MCPStatus
	err := v.call(ctx, request{
		op: op, method: http.MethodPost, path: "/mcp", out: &out, timeout: wait,
		in: map[string]any{"name": server.Name, "config": config},
	})
	if err != nil {
		return err
	}
	if s := out[server.Name]; s.Status != MCPConnected {
		return notConnected(op, server.Name, s)
	}
	return nil
}

func (v v1) DisconnectMCP(ctx context.Context, name string) error {
	return ignoreNotFound(post(ctx, v, "disconnect MCP server", "/mcp/"+url.PathEscape(name)+"/disconnect", nil))
}

func (v v1) MCPServers(ctx context.Context) (map[string]MCPStatus, error) {
	return get[map[string]MCPStatus](ctx, v, "list MCP servers", "/mcp", nil)
}

func (v v1) Ask(ctx context.Context, r AskRequest) (Message, error) {
	// The structured answer is itself a tool. If it were denied with the others, it would fail.
	rules := []Rule{{"*", "*", Deny}, {structuredTool, "*", Allow}}
	return v.ask(ctx, v, r, rules, func(ctx context.Context, sessionID string) (reply Message, err error) {
		prompt := Prompt{Agent: r.Agent, Model: r.Model, Variant: r.Variant, System: r.System, Text: r.Text}.wire()
		if len(r.Schema) > 0 {
			prompt.Format = map[string]any{"type": "json_schema", "schema": r.Schema}
		}
		err = v.call(ctx, request{
			op: "ask", method: http.MethodPost, path: sessionPath(sessionID, "message"), in: prompt, out: &reply,
			timeout: cmp.Or(r.Timeout, defaultAskTimeout),
		})
		if failed, ok := errors.AsType[*Error](err); ok && failed.Status == http.StatusInternalServerError {
			// An unknown model or agent causes a bare 500, which would look like a temporary failure.
			err = unknown(ctx, v, r, err)
		}
		return reply, err
	})
}
