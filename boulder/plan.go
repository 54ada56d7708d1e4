package boulder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// PlanVersion is the version of the plan document that this code reads and writes.
const PlanVersion = 1

// Plan is what the plan file holds, as people and models write it. Package taskledger reads, validates and writes it.
type Plan struct {
	Version     int       `json:"version"`
	Task        string    `json:"task"`                  // the request, verbatim
	Goal        string    `json:"goal,omitempty"`        // one line
	Constraints []string  `json:"constraints,omitempty"` // verbatim into every brief
	Facts       Facts     `json:"facts,omitzero"`
	Model       string    `json:"model,omitempty"`                                // default model of the sub-tasks
	DoneWhen    []string  `json:"done_when,omitempty" yaml:"done_when,criterion"` // of sub-tasks that name none
	Isolation   Isolation `json:"isolation,omitempty"`
	// IntegrationGates are commands that must exit 0 on every combined tree of an isolated run.
	IntegrationGates []string `json:"integration_gates,omitempty"`
	Scope            Scope    `json:"scope,omitempty"`
	// Generated are commands that make files again that conflict, by the name of the file; see [Boulder.Generated].
	Generated map[string]string `json:"generated,omitempty"`
	SubTasks  []Spec            `json:"sub_tasks"`
	Seal      *Seal             `json:"seal,omitempty"` // absent in a plan written by hand
}

// Scope says what follows when a sub-task changes files outside of its [Spec.Writes].
type Scope string

const (
	ScopeWarn Scope = "warn" // the judge and the user are told. So too if it is empty
	ScopeVeto Scope = "veto" // and the turn does not complete the sub-task
)

// Words are those that there are.
func (Scope) Words() []string { return []string{string(ScopeWarn), string(ScopeVeto)} }

// Facts is what the Task Ledger knew, wanted to know and guessed when it planned.
type Facts struct {
	Given   []string `json:"given,omitempty"`
	ToFind  []string `json:"to_find,omitempty"`
	Guesses []string `json:"guesses,omitempty"`
}

// Spec is one sub-task as a plan describes it.
type Spec struct {
	ID              string   `json:"id"`      // letters, digits, - and _
	Subject         string   `json:"subject"` // imperative: "Add the settings toggle"
	ActiveForm      string   `json:"active_form,omitempty"`
	Description     string   `json:"description"`
	SuccessCriteria []string `json:"success_criteria,omitempty"`
	DependsOn       []string `json:"depends_on,omitempty"`
	Priority        Priority `json:"priority,omitempty"`
	Gates           []string `json:"gates,omitempty"` // shell commands that must exit 0
	// NoWorse are gates that may stay as red as they were before the sub-task began: no test may fail that passed then.
	NoWorse        []string `json:"no_worse,omitempty"`
	Model          string   `json:"model,omitempty"`
	Agent          string   `json:"agent,omitempty"`
	ExpectsChanges bool     `json:"expects_changes,omitempty"`
	EmptyOK        bool     `json:"empty_ok,omitempty"`
	Outputs        []string `json:"outputs,omitempty"` // what dependents need from it
	Writes         []string `json:"writes,omitempty"`  // patterns of files; two that may write the same one never run side by side
	DoneWhen       []string `json:"done_when,omitempty" yaml:"done_when,criterion"`
	Budget         *Budget  `json:"budget,omitempty"`
}

// Budget bounds a sub-task or a whole run. Zero: no bound; for the attempts of a sub-task, the run's default.
type Budget struct {
	Attempts int      `json:"attempts,omitempty" yaml:"attempts,count"` // of a sub-task: tries, the first included; of a run: all attempts
	Time     Duration `json:"time,omitempty"`                           // of a sub-task: its turns together; of a run: wall clock, pauses excluded
	Tokens   int64    `json:"tokens,omitempty" yaml:"tokens,count"`     // input and output, of agents and ledgers
	Cost     float64  `json:"cost,omitempty" yaml:"cost,dollars"`       // US dollars
	Calls    int64    `json:"calls,omitempty" yaml:"calls,count"`       // model calls: steps of agents, and ledger calls
	// Unpriced are calls of unknown cost that the user accepted: those before the budget was set again ([BudgetSet]).
	Unpriced int64 `json:"unpriced,omitempty" yaml:"-"`
}

// Validate refuses a bound that is below zero or no number: a record with one could not be read back. Nil is valid.
func (b *Budget) Validate() error {
	if b == nil || b.Cost >= 0 && b.Cost <= math.MaxFloat64 && // not NaN either
		b.Attempts >= 0 && b.Time >= 0 && b.Tokens >= 0 && b.Calls >= 0 {
		return nil
	}
	return fmt.Errorf("a budget cannot be negative or infinite: %d attempts, %s, %d tokens, $%v, %d calls",
		b.Attempts, time.Duration(b.Time), b.Tokens, b.Cost, b.Calls)
}

// Duration is a time.Duration that is written as text ("30m") in JSON and YAML.
type Duration time.Duration

// MarshalText writes the duration as time.Duration prints it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration accepts, and refuses anything that is not positive.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	if v <= 0 {
		return fmt.Errorf("duration %q is not positive", text)
	}
	*d = Duration(v)
	return nil
}

// Origin says how a plan came about.
type Origin string

const (
	OriginModel    Origin = "model"    // the Task Ledger's model wrote it
	OriginDirect   Origin = "direct"   // too small to split: one sub-task, no planning call
	OriginFallback Origin = "fallback" // the model's answers were unusable: one sub-task with the raw request
	OriginHand     Origin = "hand"     // the user wrote it; it came without a seal
	OriginList     Origin = "list"     // the user's own numbered list
	OriginReplan   Origin = "replan"   // what remained of an earlier revision was planned again
)

// Seal ties a plan to what it was made for.
type Seal struct {
	Base      string    `json:"base,omitempty"` // commit the plan was made on; empty outside git
	Hash      string    `json:"hash"`           // [Plan.Hash] when it was sealed
	Origin    Origin    `json:"origin"`
	Model     string    `json:"model,omitempty"` // the ledger model that planned
	CreatedAt time.Time `json:"created_at"`
}

// Hash is the SHA-256, in hex, of the plan's content: everything but the seal, with comments and layout left out.
func (p Plan) Hash() string {
	p.Seal = nil
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // a Plan holds nothing that JSON cannot say
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// SpecsHash names sub-tasks by what they ask for: subjects, descriptions and criteria, in order, without ids and without
// regard to case and white space. Two parts of a plan with the same hash are the same plan, whatever their gates.
func SpecsHash(specs []Spec) string {
	h := sha256.New()
	for _, s := range specs {
		for _, text := range slices.Concat([]string{s.Subject, s.Description}, s.SuccessCriteria) {
			h.Write([]byte(strings.ToLower(strings.Join(strings.Fields(text), " "))))
			h.Write([]byte{0})
		}
		h.Write([]byte{1})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Clone returns a copy that shares nothing with the plan.
func (p Plan) Clone() Plan {
	p.Constraints = slices.Clone(p.Constraints)
	p.Facts.Given, p.Facts.ToFind = slices.Clone(p.Facts.Given), slices.Clone(p.Facts.ToFind)
	p.Facts.Guesses = slices.Clone(p.Facts.Guesses)
	p.DoneWhen, p.IntegrationGates = slices.Clone(p.DoneWhen), slices.Clone(p.IntegrationGates)
	p.Generated, p.SubTasks = maps.Clone(p.Generated), slices.Clone(p.SubTasks)
	for i := range p.SubTasks {
		s := &p.SubTasks[i]
		s.SuccessCriteria, s.DependsOn = slices.Clone(s.SuccessCriteria), slices.Clone(s.DependsOn)
		s.Gates, s.Outputs, s.DoneWhen = slices.Clone(s.Gates), slices.Clone(s.Outputs), slices.Clone(s.DoneWhen)
		s.NoWorse, s.Writes = slices.Clone(s.NoWorse), slices.Clone(s.Writes)
		if s.Budget != nil {
			s.Budget = new(*s.Budget)
		}
	}
	if p.Seal != nil {
		p.Seal = new(*p.Seal)
	}
	return p
}

// Edited reports whether a sealed plan's content differs from what was sealed.
func (p Plan) Edited() bool { return p.Seal != nil && p.Seal.Hash != p.Hash() }

// Origin says how the plan came about; a plan without a seal was written by hand.
func (p Plan) Origin() Origin {
	if p.Seal == nil {
		return OriginHand
	}
	return p.Seal.Origin
}

// PlanRevision is a plan as it was adopted, kept for good.
type PlanRevision struct {
	Number    int       `json:"number"` // from 1
	Plan      Plan      `json:"plan"`
	Hash      string    `json:"hash"`
	Origin    Origin    `json:"origin"`
	Edited    bool      `json:"edited"` // the user changed it after it was sealed
	AdoptedAt time.Time `json:"adopted_at"`
}

// Priority orders sub-tasks that wait for the same model.
type Priority string

const (
	High   Priority = "high"
	Medium Priority = "medium"
	Low    Priority = "low"
)

// Words are those that there are.
func (Priority) Words() []string { return []string{string(High), string(Medium), string(Low)} }

// Rank orders priorities, the most urgent first: 0, 1, 2. Empty counts as medium.
func (p Priority) Rank() int {
	switch p {
	case High:
		return 0
	case Low:
		return 2
	}
	return 1
}
