package fakeopencode

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

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

// pendingForm is the one that a request names.
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
