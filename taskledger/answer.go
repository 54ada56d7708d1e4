package taskledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/scope"
	"github.com/bouldermgr/manager/internal/text"
)

// answer is the model's answer for a plan or a replan. It is read leniently: see [answer.plan].
type answer struct {
	Goal        string          `json:"goal"`
	Constraints []string        `json:"constraints"`
	Reason      string          `json:"reason"`
	ToFind      []string        `json:"to_find"` // only in a replan that a look may precede
	SubTasks    []answerSubTask `json:"sub_tasks"`
	Owners      []answerOwner   `json:"owners"`
	Allowed     []answerAllowed `json:"allowed"` // only in a revision
	Rest        map[string]any  `json:"*"`       // see [providers.Rest]
}

type answerSubTask struct {
	Replaces        string   `json:"replaces"` // only in a replan
	ID              string   `json:"id"`
	Subject         string   `json:"subject"`
	ActiveForm      string   `json:"active_form"`
	Description     string   `json:"description"`
	SuccessCriteria []string `json:"success_criteria" also:"criteria,acceptance*,donewhen"`
	// A lost dependency would let two sub-tasks run at once that must not.
	DependsOn      []string `json:"depends_on" also:"depend*,deps,needs,blockedby,blockers,requires,prereq*,after,runafter"`
	Gates          []string `json:"gates" also:"gate"`
	ExpectsChanges bool     `json:"expects_changes"`
	EmptyOK        bool     `json:"empty_ok"`
	Outputs        []string `json:"outputs"`
	Writes         []string `json:"writes"`
	Found          []string `json:"found" also:"findings"` // only if there are findings
	Questions      []string `json:"questions"`             // only if there are questions
	Model          string   `json:"model"`                 // only if models are described

	Rest map[string]any `json:"*"`
}

const (
	minSplit = 2 // sub-tasks of a model's plan, at least; the user's may have any number
	maxSplit = 5
	maxTold  = 10 // problems of an answer that are sent back to the model
)

// plan turns an answer into a plan with the facts of known, or explains to the model why it cannot. It resolves what has one
// reading: ids are made valid or numbered, dependencies found by id, number or subject, empty entries dropped, subjects made
// one line. One sub-task is none, unless the user demands a plan.
func (a *answer) plan(req boulder.PlanRequest, known *boulder.Plan) (*boulder.Plan, error) {
	n := len(a.SubTasks)
	if n == 1 && req.Mode != boulder.PlanAlways {
		return known, nil
	}
	if n < minSplit || n > maxSplit {
		return nil, fmt.Errorf("there are %d sub_tasks; give %d to %d", n, minSplit, maxSplit)
	}
	p := a.frame(req)
	p.Facts, p.Request = known.Facts, slices.Clone(known.Request)
	for i := range p.Request {
		p.Request[i].Owner, p.Request[i].ShownBy = "", ""
	}
	p.SubTasks = a.specs(known.Facts)
	told := a.chosen(p.SubTasks, req.Describe)
	fill(p)
	for i, s := range a.SubTasks {
		for _, name := range nonEmpty(s.DependsOn) {
			addTo(&p.SubTasks[i].DependsOn, a.meant(name, p.SubTasks))
		}
	}
	if err := feedback(a.repetitions(), told, problems(p)); err != nil {
		return nil, err
	}
	return p, feedback(a.lostOrder(p.SubTasks, func(_ int, name string) []string {
		if id := a.meant(name, p.SubTasks); slices.ContainsFunc(p.SubTasks, func(s boulder.Spec) bool { return s.ID == id }) {
			return []string{id}
		}
		return nil
	}))
}

// feedback returns what is sent back to the model, or nil if nothing is wrong.
func feedback(problems ...[]string) error {
	all := slices.Concat(problems...)
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all[:min(len(all), maxTold)], "\n"))
}

func problems(p *boulder.Plan) (all []string) {
	check(p, func(_, what, do string) { all = append(all, what+": "+do) })
	return all
}

func addTo[T comparable](list *[]T, items ...T) {
	for _, item := range items {
		if !slices.Contains(*list, item) {
			*list = append(*list, item)
		}
	}
}

// frame returns the plan without its sub-tasks. The user's constraints come first, verbatim, then the model's.
func (a *answer) frame(req boulder.PlanRequest) *boulder.Plan {
	p := request(req)
	p.Goal, p.Reason = oneLine(a.Goal), oneLine(a.Reason)
	for _, c := range nonEmpty(a.Constraints) {
		known := func(other string) bool { return strings.EqualFold(oneLine(other), oneLine(c)) }
		if !slices.ContainsFunc(p.Constraints, known) {
			p.Constraints = append(p.Constraints, c)
		}
	}
	return p
}

func cleanFacts(f boulder.Facts) boulder.Facts {
	return boulder.Facts{
		Given: nonEmpty(f.Given), ToFind: nonEmpty(f.ToFind), ToDerive: nonEmpty(f.ToDerive), Guesses: nonEmpty(f.Guesses),
	}
}

func request(req boulder.PlanRequest) *boulder.Plan {
	return &boulder.Plan{Task: clean(req.Task), Constraints: nonEmpty(req.Constraints)}
}

// specs returns the sub-tasks without their dependencies.
func (a *answer) specs(known boulder.Facts) (specs []boulder.Spec) {
	for _, s := range a.SubTasks {
		specs = append(specs, boulder.Spec{
			ID: slug(s.ID), Subject: text.Cut(oneLine(s.Subject), maxSubject), ActiveForm: text.Cut(oneLine(s.ActiveForm), maxSubject),
			Description: clean(strings.TrimSpace(s.Description)), SuccessCriteria: nonEmpty(s.SuccessCriteria), Gates: nonEmpty(s.Gates),
			ExpectsChanges: s.ExpectsChanges, EmptyOK: s.EmptyOK, Outputs: nonEmpty(s.Outputs), Found: foundOf(s.Found, known), Questions: questionsOf(s.Questions, known),
			Writes: slices.DeleteFunc(nonEmpty(s.Writes), func(pattern string) bool { return scope.Check(pattern) != nil }),
		})
	}
	return specs
}

// defaultModel is the answer for the model that is used anyway. Not all vendors accept an empty value in a list.
const defaultModel = "default"

// chosen gives sub-tasks the models of the answer, of those that are described, and tells the model which are not.
func (a *answer) chosen(specs []boulder.Spec, described map[string]string) (told []string) {
	for i, s := range a.SubTasks {
		model := strings.TrimSpace(s.Model)
		if _, known := described[model]; !known && model != "" && model != defaultModel && len(described) > 0 {
			told = append(told, fmt.Sprintf("sub-task %q has the model %q: copy one of %s, or %s",
				specs[i].ID, text.Cut(model, maxID), strings.Join(slices.Sorted(maps.Keys(described)), ", "), defaultModel))
		} else if known {
			specs[i].Model = boulder.Models(model)
		}
	}
	return told
}

// meant returns the id of what the model calls name, which may be an id, a number from 1, or a subject; else name.
func (a *answer) meant(name string, specs []boulder.Spec) string {
	for _, same := range []func(i int) bool{
		func(i int) bool { return a.SubTasks[i].ID == name || specs[i].ID == name },
		func(i int) bool { return strings.EqualFold(strings.TrimSpace(a.SubTasks[i].ID), name) },
		func(i int) bool { return strings.TrimPrefix(name, "#") == strconv.Itoa(i+1) },
		func(i int) bool { return strings.EqualFold(oneLine(a.SubTasks[i].Subject), oneLine(name)) },
		func(i int) bool { return slug(name) == specs[i].ID },
	} {
		for i := range specs {
			if same(i) {
				return specs[i].ID
			}
		}
	}
	return name
}

func (a *answer) repetitions() []string {
	var told []string
	first := map[string]int{}
	for i, s := range a.SubTasks {
		work := strings.ToLower(oneLine(s.Description))
		if j, twice := first[work]; twice && work != "" {
			told = append(told, fmt.Sprintf("sub_tasks %d and %d have the same description: merge them", j+1, i+1))
			continue
		}
		first[work] = i
	}
	return told
}

var noID = text.Regexp(`(-|[^a-zA-Z0-9_])+`)

// slug turns what a model took for an id into one, or returns "" if nothing is left.
func slug(id string) string {
	id = noID().ReplaceAllString(strings.TrimSpace(id), "-")
	return strings.Trim(id[:min(len(id), maxID)], "-")
}

func nonEmpty(items []string) []string {
	var kept []string
	for _, item := range items {
		if item = clean(strings.TrimSpace(item)); item != "" {
			kept = append(kept, item)
		}
	}
	return kept
}

func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// clean replaces what a plan file cannot hold.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
