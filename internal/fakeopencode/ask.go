package fakeopencode

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

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

// form is a set of questions that waits for a person, or was answered.
type form struct {
	ID        string `json:"id"`
	SessionID string `json:"sessionID"`
	Title     string `json:"title"`
	Metadata  fields `json:"metadata"`
	Fields    []any  `json:"fields"`

	session *session
	status  string // pending, answered or cancelled
	answer  fields
	settled chan struct{} // closed when status is not pending any more
}

// question asks the user, and waits.
func (t *toolCall) question() (result, error) {
	var in struct {
		Questions []struct {
			Question, Header string
			Options          []struct{ Label, Description string }
		}
	}
	data, _ := json.Marshal(t.input) // it came in as JSON
	if err := json.Unmarshal(data, &in); err != nil || len(in.Questions) == 0 {
		return result{}, failed("questions: expected a list that is not empty")
	}
	if err := t.ask("question", "*"); err != nil {
		return result{}, err
	}
	x, s := t.step.x, t.step.x.server
	f := &form{
		SessionID: x.Info.ID, Title: "Questions", session: x, status: "pending", settled: make(chan struct{}),
		Metadata: fields{"kind": "question", "tool": fields{"messageID": t.step.message.ID, "id": t.content.ID}},
	}
	for i, q := range in.Questions {
		options := []any{}
		for _, o := range q.Options {
			options = append(options, fields{"value": o.Label, "label": o.Label, "description": o.Description})
		}
		f.Fields = append(f.Fields, fields{
			"key": fmt.Sprint("q", i), "type": "string", "title": q.Header, "description": q.Question, "options": options,
			"custom": true,
		})
	}
	s.mu.Lock()
	f.ID = s.newID("frm_")
	s.forms = append(s.forms, f)
	x.live("form.created", fields{"form": f})
	s.mu.Unlock()
	select {
	case <-f.settled:
	case <-t.ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		f.settle("cancelled", nil)
		return result{}, t.ctx.Err()
	}
	if f.status == "cancelled" {
		return result{}, errDeclined
	}
	var said []string
	for i, q := range in.Questions {
		said = append(said, fmt.Sprintf("%q=%q", q.Question, fmt.Sprint(f.answer[fmt.Sprint("q", i)])))
	}
	return result{text: "User has answered your questions: " + strings.Join(said, ", ")}, nil
}

func (l *location) listForms(*http.Request) (any, error) {
	return l.answer(slices.DeleteFunc(append([]*form{}, l.server.forms...), func(f *form) bool {
		return f.status != "pending" || f.session.Info.Location != l.ref
	}))
}

func (x *session) replyForm(r *http.Request) (any, error) {
	f, err := x.pendingForm(r)
	if err != nil {
		return nil, err
	}
	in, err := read[struct{ Answer fields }](r)
	if err != nil || in.Answer == nil {
		return nil, cmp.Or(err, badRequest("answer: expected an object"))
	}
	f.settle("answered", in.Answer)
	return nil, nil
}

func (x *session) cancelForm(r *http.Request) (any, error) {
	f, err := x.pendingForm(r)
	if err == nil {
		f.settle("cancelled", nil)
	}
	return nil, err
}

func (x *session) pendingForm(r *http.Request) (*form, error) {
	id, forms := r.PathValue("formID"), x.server.forms
	i := slices.IndexFunc(forms, func(f *form) bool { return f.ID == id && f.session == x })
	switch {
	case i < 0:
		return nil, notFound("Form", "id", id)
	case forms[i].status != "pending":
		return nil, &apiError{http.StatusConflict, fields{
			"_tag": "FormAlreadySettledError", "id": id, "message": "Form already settled: " + id,
		}}
	}
	return forms[i], nil
}

func (f *form) settle(status string, answer fields) {
	if f.status != "pending" {
		return
	}
	f.status, f.answer = status, answer
	close(f.settled)
	told := fields{"id": f.ID}
	if answer != nil {
		told["answer"] = answer
	}
	f.session.live("form."+map[string]string{"answered": "replied", "cancelled": "cancelled"}[status], told)
}
