package fakeopencode

import (
	"net/http"
	"slices"

	"github.com/bouldermgr/manager/internal/wildcard"
)

// permission is a tool call that waits for a person.
type permission struct {
	ID        string   `json:"id"`
	SessionID string   `json:"sessionID"`
	Action    string   `json:"action"`
	Resources []string `json:"resources"`
	Save      []string `json:"save,omitempty"`
	Source    source   `json:"source"`

	session  *session
	decision chan error // one: nil, errDeclined or a *rejection
}

// source is the tool call that asks.
type source struct {
	Type      string `json:"type"`
	MessageID string `json:"messageID"`
	ID        string `json:"id"`
}

// rejection is a refusal with an explanation.
type rejection struct{ text string }

func (e *rejection) Error() string { return e.text }

// rules are what decides for the session, the last that fits.
func (x *session) rules(a *agent) []rule {
	l := x.server.locations[x.Info.Location.Directory]
	return slices.Concat(defaultRules, l.config.Rules, a.rules, x.Info.Permissions)
}

// effect is what becomes of an action on a resource.
func (x *session) effect(a *agent, action, resource string) string {
	found := "ask"
	for _, r := range x.rules(a) {
		if r.matches(action, resource) {
			found = r.Effect
		}
	}
	return found
}

func (r rule) matches(action, resource string) bool {
	return wildcard.Match(r.Action, action) && wildcard.Match(r.Resource, resource)
}

// ask waits until the call may do something, for ever if need be.
func (t *toolCall) ask(action string, resources ...string) error {
	x, s := t.step.x, t.step.x.server
	s.mu.Lock()
	effects := map[string]bool{}
	for _, resource := range resources {
		effects[x.effect(t.step.agent, action, resource)] = true
	}
	switch {
	case effects["deny"]:
		s.mu.Unlock()
		return &turnError{Type: "permission.rejected", Message: "Permission denied: " + action}
	case !effects["ask"]:
		s.mu.Unlock()
		return nil
	}
	p := &permission{
		ID: s.newID("per_"), SessionID: x.Info.ID, Action: action, Resources: resources, Save: resources,
		Source: source{"tool", t.step.message.ID, t.content.ID}, session: x, decision: make(chan error, 1),
	}
	s.asked = append(s.asked, p)
	x.live("permission.asked", fields{
		"id": p.ID, "action": p.Action, "resources": p.Resources, "save": p.Save, "source": p.Source,
	})
	s.mu.Unlock()
	select {
	case err := <-p.decision:
		return err
	case <-t.ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = slices.DeleteFunc(s.asked, func(o *permission) bool { return o == p })
		return t.ctx.Err()
	}
}

func (l *location) listPermissions(*http.Request) (any, error) {
	return l.answer(l.server.pending(func(p *permission) bool { return p.session.Info.Location == l.ref }))
}

func (s *Server) pending(of func(*permission) bool) any {
	return slices.DeleteFunc(append([]*permission{}, s.asked...), func(p *permission) bool { return !of(p) })
}

// permission is the one that a request names.
func (x *session) permission(r *http.Request) (*permission, error) {
	id, asked := r.PathValue("requestID"), x.server.asked
	i := slices.IndexFunc(asked, func(p *permission) bool { return p.ID == id && p.session == x })
	if i < 0 {
		return nil, notFound("Permission", "requestID", id)
	}
	return asked[i], nil
}

func (x *session) replyPermission(r *http.Request) (any, error) {
	s := x.server
	p, err := x.permission(r)
	if err != nil {
		return nil, err
	}
	in, err := read[struct{ Decision, Message string }](r)
	if err != nil {
		return nil, err
	}
	switch in.Decision {
	case "once":
		s.decide(p, in.Decision, nil)
	case "reject":
		if in.Message == "" {
			s.decide(p, in.Decision, errDeclined)
		} else {
			s.decide(p, in.Decision, &rejection{in.Message})
		}
		for _, other := range slices.Clone(s.asked) {
			if other.session == p.session {
				s.decide(other, in.Decision, errDeclined)
			}
		}
	default:
		return nil, badRequest("decision: expected once or reject")
	}
	return nil, nil
}

func (s *Server) decide(p *permission, reply string, outcome error) {
	s.asked = slices.DeleteFunc(s.asked, func(o *permission) bool { return o == p })
	p.session.live("permission.replied", fields{"requestID": p.ID, "reply": reply})
	p.decision <- outcome
}
