package taskledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// factsAnswer is the model's answer to the first question about a task: what it demands. It is asked before any split, since
// a list that is made afterwards describes the plan.
type factsAnswer struct {
	Request   []answerRow      `json:"request"`
	Facts     boulder.Facts    `json:"facts"`
	Questions []answerQuestion `json:"questions" also:"question"`
	Reason    string           `json:"reason"`
	NeedsPlan *bool            `json:"needs_plan"` // nil: not said; then it is needed
}

type answerRow struct {
	Text string `json:"text"`
	From string `json:"from"`
	Kind string `json:"kind"`
}

const (
	maxRows = 20  // of a request
	maxRow  = 300 // characters
)

// obligations turns the rows of an answer into those of a plan, or tells the model what is wrong with them.
func (a *factsAnswer) obligations(req boulder.PlanRequest) (rows []boulder.Obligation, told []string) {
	if len(a.Request) > maxRows {
		told = append(told, fmt.Sprintf("request has %d rows: give at most %d, and join what is checked together", len(a.Request), maxRows))
	}
	for i, row := range a.Request {
		o := boulder.Obligation{ID: fmt.Sprintf("r%d", i+1), Text: text.Cut(oneLine(row.Text), maxRow), From: oneLine(row.From)}
		switch kind := strings.ToLower(strings.TrimSpace(row.Kind)); {
		case strings.HasPrefix(kind, "forbid"):
			o.Kind = boulder.Forbids
		case strings.HasPrefix(kind, "wish"):
			o.Kind = boulder.Wish
		}
		switch {
		case o.Text == "":
			told = append(told, fmt.Sprintf("request row %d has no text", i+1))
		case !quotes(o.From, append(slices.Clone(req.Constraints), req.Task)):
			told = append(told, fmt.Sprintf("request row %d: %q is not in the task: copy into from the words of the task that ask for it, and leave out rows that nothing in the task asks for",
				i+1, text.Cut(o.From, maxNote)))
		}
		rows = append(rows, o)
	}
	return rows, told
}

// quotes reports whether words are copied from one of some texts. White space, case, quotation marks and what an ellipsis
// leaves out do not count.
func quotes(words string, from []string) bool {
	plain := func(s string) string {
		return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
			return strings.ContainsRune(" \t\r\n\"'`“”‘’«»*_", r)
		}), " ")
	}
	return slices.ContainsFunc(from, func(whole string) bool {
		whole = plain(whole)
		found := false
		for part := range strings.SplitSeq(strings.ReplaceAll(words, "...", "…"), "…") {
			if part = strings.Trim(plain(part), " .,;:!?"); part == "" {
				continue
			}
			_, after, ok := strings.Cut(whole, part)
			if !ok {
				return false
			}
			whole, found = after, true
		}
		return found
	})
}

// answerOwner says what the plan does about a row of the request.
type answerOwner struct {
	ID       string `json:"id" also:"row,request"`
	Owner    string `json:"owner" also:"sub_task*,subtask*"`
	ShownBy  string `json:"shown_by"`
	Deferred string `json:"deferred"`
}

// own gives the rows of a request the owners that the answer names, and says what is missing or wrong. Rows stay as they were
// listed: what the answer says of others does not count. What it does not settle stays without an owner.
func (a *answer) own(p *boulder.Plan, req boulder.PlanRequest) (told []string) {
	for i := range p.Request {
		o := &p.Request[i]
		if s := specOf(p, o.Owner); o.Deferred != "" || s != nil && (o.ShownBy != "" || o.Kind != boulder.Asks) { // settled before
			continue
		}
		if at := slices.IndexFunc(a.Owners, func(w answerOwner) bool { return strings.EqualFold(strings.TrimSpace(w.ID), o.ID) }); at >= 0 {
			told = append(told, a.ownRow(o, a.Owners[at], p.SubTasks, req)...)
		}
		if o.Kind == boulder.Asks && o.Owner == "" && o.Deferred == "" {
			told = append(told, fmt.Sprintf("nobody does %s (%s): name in owners the sub-task that does it, and add the work to it or add a sub-task",
				o.ID, text.Cut(o.Text, maxNote)))
		}
	}
	return told
}

func (a *answer) ownRow(o *boulder.Obligation, says answerOwner, specs []boulder.Spec, req boulder.PlanRequest) (told []string) {
	if words := oneLine(says.Deferred); words != "" {
		if quotes(words, append(slices.Clone(req.Constraints), req.Task)) {
			o.Deferred = words
			return nil
		}
		told = append(told, fmt.Sprintf("owners: %s: %q is not in the task, which alone can put something off: leave deferred empty",
			o.ID, text.Cut(words, maxNote)))
	}
	name := strings.TrimSpace(says.Owner)
	if name == "" {
		return told
	}
	id := a.meant(name, specs)
	at := slices.IndexFunc(specs, func(s boulder.Spec) bool { return s.ID == id })
	if at < 0 {
		return append(told, fmt.Sprintf("owners: %s: there is no sub-task %q", o.ID, text.Cut(name, maxID)))
	}
	o.Owner = id
	for _, shows := range slices.Concat(specs[at].SuccessCriteria, specs[at].Gates) {
		if strings.EqualFold(oneLine(shows), oneLine(says.ShownBy)) {
			o.ShownBy = shows
			return told
		}
	}
	if o.Kind == boulder.Asks {
		told = append(told, fmt.Sprintf("owners: %s: %q is no success criterion or gate of sub-task %q: name the one that shows it, or add one to the sub-task",
			o.ID, text.Cut(oneLine(says.ShownBy), maxNote), id))
	}
	return told
}

// facts are what the first answer says about a task: as the plan of one sub-task that is adopted if no other is needed.
type facts struct {
	plan      *boulder.Plan
	needsPlan bool
}

func (f facts) direct(mode boulder.PlanMode) bool { return mode != boulder.PlanAlways && !f.needsPlan }

// facts turns an answer into the plan of one sub-task, whose criteria are the rows of the request, or explains to the model
// why it cannot.
func (a *factsAnswer) facts(req boulder.PlanRequest) (facts, error) {
	rows, told := a.obligations(req)
	p := single(req)
	p.Facts, p.Reason = cleanFacts(a.Facts), oneLine(a.Reason)
	a.ask(&p.Facts)
	p.SubTasks[0].Questions = idsOf(p.Facts.Questions)
	for i := range rows {
		if o := &rows[i]; o.Kind != boulder.Wish {
			o.Owner, o.ShownBy = "1", o.Text
			addTo(&p.SubTasks[0].SuccessCriteria, o.Text)
		}
	}
	p.Request = rows
	fill(p)
	return facts{p, a.NeedsPlan == nil || *a.NeedsPlan}, feedback(told)
}
