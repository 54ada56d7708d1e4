package taskledger

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/scope"
	"github.com/bouldermgr/manager/internal/text"
)

// answer is what the model says, of a plan or of a new part of one. It is read leniently: see [answer.plan].
type answer struct {
	Facts       boulder.Facts   `json:"facts"`
	Goal        string          `json:"goal"`
	Constraints []string        `json:"constraints"`
	Reason      string          `json:"reason"`
	NeedsPlan   *bool           `json:"needs_plan"` // nil: it did not say; the number of sub-tasks does
	SubTasks    []answerSubTask `json:"sub_tasks"`
}

type answerSubTask struct {
	Replaces        string   `json:"replaces"` // in a new part of a plan
	ID              string   `json:"id"`
	Subject         string   `json:"subject"`
	ActiveForm      string   `json:"active_form"`
	Description     string   `json:"description"`
	SuccessCriteria []string `json:"success_criteria"`
	DependsOn       []string `json:"depends_on"`
	Gates           []string `json:"gates"`
	ExpectsChanges  bool     `json:"expects_changes"`
	EmptyOK         bool     `json:"empty_ok"`
	Outputs         []string `json:"outputs"`
	Writes          []string `json:"writes"`
}

const (
	minSplit = 2 // sub-tasks that a model makes at least, and maxSplit at most; people may make any number
	maxSplit = 5
	maxTold  = 10 // bounds the problems of an answer that go back to the model
)

// direct reports whether the model found that the task needs no plan, where that is for it to say.
func (a *answer) direct(mode boulder.PlanMode) bool {
	if mode == boulder.PlanAlways {
		return false
	}
	if a.NeedsPlan == nil {
		return len(a.SubTasks) == 1
	}
	return !*a.NeedsPlan
}

// plan turns an answer into a plan, or says in words for the model why it cannot. Where an answer has only one reading
// it is taken: ids are made valid or numbered, dependencies may be named by id, number or subject, empty entries are
// dropped, subjects are brought into one line.
func (a *answer) plan(req boulder.PlanRequest) (*boulder.Plan, error) {
	p := a.frame(req)
	if a.direct(req.Mode) {
		p.SubTasks = []boulder.Spec{{Description: p.Task}}
		fill(p)
		return p, nil
	}
	if n := len(a.SubTasks); n < minSplit || n > maxSplit {
		orNone := ", or say needs_plan false"
		if req.Mode == boulder.PlanAlways {
			orNone = ""
		}
		return nil, fmt.Errorf("there are %d sub_tasks; give %d to %d%s", n, minSplit, maxSplit, orNone)
	}
	p.SubTasks = a.specs()
	fill(p)
	for i, s := range a.SubTasks {
		for _, name := range said(s.DependsOn) {
			addTo(&p.SubTasks[i].DependsOn, a.meant(name, p.SubTasks))
		}
	}
	return p, tell(a.repetitions(), problems(p))
}

// tell is what goes back to the model; nil if nothing is wrong.
func tell(problems ...[]string) error {
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

// frame is the plan without its sub-tasks. The user's constraints come first and verbatim, the model's own after them.
func (a *answer) frame(req boulder.PlanRequest) *boulder.Plan {
	p := request(req)
	p.Goal = oneLine(a.Goal)
	p.Facts = boulder.Facts{Given: said(a.Facts.Given), ToFind: said(a.Facts.ToFind), Guesses: said(a.Facts.Guesses)}
	for _, c := range said(a.Constraints) {
		known := func(other string) bool { return strings.EqualFold(oneLine(other), oneLine(c)) }
		if !slices.ContainsFunc(p.Constraints, known) {
			p.Constraints = append(p.Constraints, c)
		}
	}
	return p
}

func request(req boulder.PlanRequest) *boulder.Plan {
	return &boulder.Plan{Task: clean(req.Task), Constraints: said(req.Constraints)}
}

// specs are the sub-tasks without their dependencies.
func (a *answer) specs() (specs []boulder.Spec) {
	for _, s := range a.SubTasks {
		specs = append(specs, boulder.Spec{
			ID: slug(s.ID), Subject: text.Cut(oneLine(s.Subject), maxSubject), ActiveForm: text.Cut(oneLine(s.ActiveForm), maxSubject),
			Description: clean(strings.TrimSpace(s.Description)), SuccessCriteria: said(s.SuccessCriteria), Gates: said(s.Gates),
			ExpectsChanges: s.ExpectsChanges, EmptyOK: s.EmptyOK, Outputs: said(s.Outputs),
			Writes: slices.DeleteFunc(said(s.Writes), func(pattern string) bool { return scope.Check(pattern) != nil }),
		})
	}
	return specs
}

// meant gives the id of the sub-task that a model calls name: by id, by number from 1, or by subject. Without a match
// it is the name itself, which the check then reports.
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

// slug makes an id of what a model took for one; "" if nothing is left.
func slug(id string) string {
	id = noID().ReplaceAllString(strings.TrimSpace(id), "-")
	return strings.Trim(id[:min(len(id), maxID)], "-")
}

func said(items []string) []string {
	var kept []string
	for _, item := range items {
		if item = clean(strings.TrimSpace(item)); item != "" {
			kept = append(kept, item)
		}
	}
	return kept
}

func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// clean removes what no plan file can hold.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
