package fakeopencode

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/wildcard"
)

// request is what a tool call asks of the user: a permission or a form.
type request struct {
	form    bool
	id      string
	sent    fields
	session *session
	settled chan struct{} // closed when no longer pending
	pending bool
	err     error  // the decision: nil, errDeclined or a refusal with a text
	answer  fields // of a form
}

// request asks the user and waits, without a limit, for a decision or the end of the call.
func (t *toolCall) request(form bool, sent fields) (*request, error) {
	x, s, prefix := t.step.x, t.server(), "per_"
	if form {
		prefix = "frm_"
	}
	q := &request{form: form, id: s.newID(prefix), sent: sent, session: x, settled: make(chan struct{}), pending: true}
	sent["id"], sent["sessionID"] = q.id, x.Info.ID
	s.asked = append(s.asked, q)
	if form {
		x.live("form.created", fields{"form": sent})
	} else {
		x.live("permission.asked", sent)
	}
	await(t.ctx, s, q.settled)
	if q.pending {
		q.pending, q.err = false, t.ctx.Err()
		if form {
			x.live("form.cancelled", fields{"id": q.id})
		}
	}
	return q, q.err
}

func (q *request) settle(err error, eventType string, told fields) {
	q.pending, q.err = false, err
	q.session.live(eventType, told)
	close(q.settled)
}

// effect returns allow, ask or deny for an action on a resource: the last matching rule decides.
func (x *session) effect(a *agent, action, resource string) string {
	found := "ask"
	for _, r := range x.location().rules(a, x.Info.Permissions...) {
		if wildcard.Match(r.Action, action) && wildcard.Match(r.Resource, resource) {
			found = r.Effect
		}
	}
	return found
}

// ask returns nil once the call may use all resources. It waits for the user if a rule says so.
func (t *toolCall) ask(action string, resources ...string) error {
	effects := map[string]bool{}
	for _, resource := range resources {
		effects[t.step.x.effect(t.step.agent, action, resource)] = true
	}
	switch {
	case effects["deny"]:
		return &turnError{Type: "permission.rejected", Message: "Permission denied: " + action}
	case !effects["ask"]:
		return nil
	}
	_, err := t.request(false, fields{
		"action": action, "resources": resources, "save": resources,
		"source": fields{"type": "tool", "messageID": t.step.message.ID, "id": t.content.ID},
	})
	return err
}

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
	var asked []any
	for i, q := range in.Questions {
		options := []any{}
		for _, o := range q.Options {
			options = append(options, fields{"value": o.Label, "label": o.Label, "description": o.Description})
		}
		asked = append(asked, fields{
			"key": fmt.Sprint("q", i), "type": "string", "title": q.Header, "description": q.Question, "options": options,
			"custom": true,
		})
	}
	form, err := t.request(true, fields{
		"title": "Questions", "fields": asked,
		"metadata": fields{"kind": "question", "tool": fields{"messageID": t.step.message.ID, "id": t.content.ID}},
	})
	if err != nil {
		return result{}, err
	}
	var said []string
	for i, q := range in.Questions {
		said = append(said, fmt.Sprintf("%q=%q", q.Question, fmt.Sprint(form.answer[fmt.Sprint("q", i)])))
	}
	return result{text: "User has answered your questions: " + strings.Join(said, ", ")}, nil
}

func (l *location) listPermissions(*http.Request) (any, error) { return l.listRequests(false) }

func (l *location) listForms(*http.Request) (any, error) { return l.listRequests(true) }

func (l *location) listRequests(forms bool) (any, error) {
	all := []any{}
	for _, q := range l.server.asked {
		if q.pending && q.form == forms && q.session.Info.Location == l.ref {
			all = append(all, q.sent)
		}
	}
	return l.answer(all)
}

// pending returns the request to be answered. An answered form is a conflict; an answered permission is not found.
func (x *session) pending(r *http.Request, form bool) (*request, error) {
	id, asked := r.PathValue("requestID"), x.server.asked
	i := slices.IndexFunc(asked, func(q *request) bool { return q.id == id && q.session == x && q.form == form })
	switch {
	case form && i < 0:
		return nil, notFound("Form", "id", id)
	case i < 0 || !form && !asked[i].pending:
		return nil, notFound("Permission", "requestID", id)
	case !asked[i].pending:
		return nil, &apiError{http.StatusConflict, fields{
			"_tag": "FormAlreadySettledError", "id": id, "message": "Form already settled: " + id,
		}}
	}
	return asked[i], nil
}

func (x *session) replyPermission(r *http.Request) (any, error) {
	q, err := x.pending(r, false)
	if err != nil {
		return nil, err
	}
	in := read[struct{ Decision, Message string }](r)
	decide := func(q *request, outcome error) {
		q.settle(outcome, "permission.replied", fields{"requestID": q.id, "reply": in.Decision})
	}
	switch {
	case in.Decision == "once":
		decide(q, nil)
		return nil, nil
	case in.Decision != "reject":
		return nil, badRequest("decision: expected once or reject")
	case in.Message == "":
		decide(q, errDeclined)
	default:
		decide(q, &turnError{Type: "permission.rejected", Message: in.Message, said: true})
	}
	for _, other := range x.server.asked {
		if other.pending && other.session == x && !other.form {
			decide(other, errDeclined)
		}
	}
	return nil, nil
}

func (x *session) replyForm(r *http.Request) (any, error) {
	q, err := x.pending(r, true)
	if err != nil {
		return nil, err
	}
	if q.answer = read[struct{ Answer fields }](r).Answer; q.answer == nil {
		return nil, badRequest("answer: expected an object")
	}
	q.settle(nil, "form.replied", fields{"id": q.id, "answer": q.answer})
	return nil, nil
}

func (x *session) cancelForm(r *http.Request) (any, error) {
	q, err := x.pending(r, true)
	if err == nil {
		q.settle(errDeclined, "form.cancelled", fields{"id": q.id})
	}
	return nil, err
}
