package boulder

import (
	"cmp"
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

// PlanVersion is the supported version of the plan document.
const PlanVersion = 1

// Plan is the content of a plan file. Package taskledger reads, validates and writes it.
type Plan struct {
	Version     int      `json:"version"`
	Task        string   `json:"task"`                  // the request, verbatim
	Goal        string   `json:"goal,omitempty"`        // one line
	Constraints []string `json:"constraints,omitempty"` // verbatim into every brief
	Reason      string   `json:"reason,omitempty"`      // why the task is split like this, or not at all
	Facts       Facts    `json:"facts,omitzero"`
	// Request is what the task asks for and forbids, listed before it was split.
	Request   []Obligation `json:"request,omitempty"`
	Model     Models       `json:"model,omitempty"`                      // default for sub-tasks
	Effort    string       `json:"effort,omitempty"`                     // of models that are named without one
	DoneWhen  DoneWhen     `json:"done_when,omitempty" yaml:"done_when"` // of sub-tasks that name none
	Isolation Isolation    `json:"isolation,omitempty"`
	// IntegrationGates must exit 0 on every combined tree of an isolated run.
	IntegrationGates []string          `json:"integration_gates,omitempty"`
	Scope            Scope             `json:"scope,omitempty"`
	Generated        map[string]string `json:"generated,omitempty"` // see [Settings.Generated]
	SubTasks         []Spec            `json:"sub_tasks"`
	Seal             *Seal             `json:"seal,omitempty"` // absent in a plan written by hand
}

// Scope says what follows if a sub-task changes files outside its [Spec.Writes].
type Scope string

const (
	ScopeWarn Scope = "warn" // the judge and the user are told; the default
	ScopeVeto Scope = "veto" // likewise, and the turn does not complete the sub-task
)

// Words returns all values.
func (Scope) Words() []string { return []string{string(ScopeWarn), string(ScopeVeto)} }

// Facts are what the Task Ledger knew, wanted to look up or to work out, guessed and asked the user when planning, and what a
// look found.
type Facts struct {
	Given     []string   `json:"given,omitempty"`
	ToFind    []string   `json:"to_find,omitempty"`
	Found     []Finding  `json:"found,omitempty"`
	ToDerive  []string   `json:"to_derive,omitempty"`
	Guesses   []string   `json:"guesses,omitempty"`
	Questions []Question `json:"questions,omitempty"`
}

// Obligation is one thing that a task asks for or forbids: a row of [Plan.Request]. A sub-task owns it; with neither Owner
// nor Deferred, nobody does what it asks for.
type Obligation struct {
	ID   string         `json:"id"`             // letters, digits, - and _; "r1"
	Text string         `json:"text"`           // what is asked for or forbidden, in the task's words
	From string         `json:"from,omitempty"` // the words of the task that Text is taken from
	Kind ObligationKind `json:"kind,omitempty"`
	// Owner is the sub-task that does it, and ShownBy is the success criterion or gate of that sub-task that shows it.
	Owner    string `json:"owner,omitempty"`
	ShownBy  string `json:"shown_by,omitempty"`
	Deferred string `json:"deferred,omitempty"` // the words of the task that put it off: "later, not now"
}

// ObligationKind says what an [Obligation] demands.
type ObligationKind string

const (
	Asks    ObligationKind = ""        // something has to be done
	Forbids ObligationKind = "forbids" // something must not be done; it holds for all sub-tasks, and needs no owner
	Wish    ObligationKind = "wish"    // nothing in it can be checked ("clean code"), so it needs no owner
)

// Words returns all values.
func (ObligationKind) Words() []string { return []string{string(Forbids), string(Wish)} }

// Unowned returns what the task asks for and no sub-task does.
func (p Plan) Unowned() (rows []Obligation) {
	for _, o := range p.Request {
		if o.Kind == Asks && o.Owner == "" && o.Deferred == "" {
			rows = append(rows, o)
		}
	}
	return rows
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
	// NoWorse are gates that may stay as red as before the sub-task: tests that passed then must pass.
	NoWorse        []string `json:"no_worse,omitempty"`
	Model          Models   `json:"model,omitempty"`
	Effort         string   `json:"effort,omitempty"` // of models that are named without one
	Agent          string   `json:"agent,omitempty"`
	ExpectsChanges bool     `json:"expects_changes,omitempty"`
	EmptyOK        bool     `json:"empty_ok,omitempty"`
	Outputs        []string `json:"outputs,omitempty"`   // what dependents need from it
	Found          []string `json:"found,omitempty"`     // ids of the [Facts].Found that its agent is told
	Questions      []string `json:"questions,omitempty"` // ids of the [Facts].Questions on whose answers it depends
	Writes         []string `json:"writes,omitempty"`    // file patterns; sub-tasks with overlapping ones never run at once
	DoneWhen       DoneWhen `json:"done_when,omitempty" yaml:"done_when"`
	Budget         *Budget  `json:"budget,omitempty"`
}

// ModelsIn returns the models of a sub-task of a plan, with efforts. model and effort are for where neither names one.
func (s *Spec) ModelsIn(p *Plan, model Models, effort string) Models {
	return cmp.Or(s.Model, p.Model, model).With(s.effortIn(p, effort))
}

func (s *Spec) effortIn(p *Plan, effort string) string { return cmp.Or(s.Effort, p.Effort, effort) }

// Shows reports whether a text is a success criterion or a gate of the sub-task.
func (s *Spec) Shows(criterion string) bool {
	return slices.Contains(s.SuccessCriteria, criterion) || slices.Contains(s.Gates, criterion)
}

// Budget bounds a sub-task or a run. Zero: no bound, or for a sub-task's Attempts the run's default.
type Budget struct {
	Attempts int      `json:"attempts,omitempty" yaml:"attempts,count"` // all of a run; of a sub-task its tries
	Time     Duration `json:"time,omitempty"`                           // turn time; of a run: wall clock, no pauses
	Tokens   int64    `json:"tokens,omitempty" yaml:"tokens,count"`     // input and output, agents and ledgers
	Cost     float64  `json:"cost,omitempty" yaml:"cost,dollars"`       // US dollars
	Calls    int64    `json:"calls,omitempty" yaml:"calls,count"`       // steps of agents, and ledger calls
	// Unpriced are the calls of unknown cost before the budget was last set ([BudgetSet]): the user accepted them.
	Unpriced int64 `json:"unpriced,omitempty" yaml:"-"`
}

// Validate refuses negative and non-finite bounds, which could not be read back. Nil is valid.
func (b *Budget) Validate() error {
	if b == nil || b.Cost >= 0 && b.Cost <= math.MaxFloat64 && // not NaN either
		b.Attempts >= 0 && b.Time >= 0 && b.Tokens >= 0 && b.Calls >= 0 {
		return nil
	}
	return fmt.Errorf("a budget cannot be negative or infinite: %d attempts, %s, %d tokens, $%v, %d calls",
		b.Attempts, time.Duration(b.Time), b.Tokens, b.Cost, b.Calls)
}

// Duration is a time.Duration that JSON and YAML write as text ("30m").
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

// Origin says how a plan was made.
type Origin string

const (
	OriginModel    Origin = "model"    // the Task Ledger's model wrote it
	OriginDirect   Origin = "direct"   // not split: the user or the ledger's model decided so
	OriginFallback Origin = "fallback" // the model's answers were unusable: one sub-task with the raw request
	OriginHand     Origin = "hand"     // written by the user, without a seal
	OriginList     Origin = "list"     // the user's own list
	OriginReplan   Origin = "replan"   // a replan of a part of an earlier revision
)

// Seal ties a plan to the circumstances in which it was made.
type Seal struct {
	Base      string    `json:"base,omitempty"` // commit the plan was made on; empty outside git
	Hash      string    `json:"hash"`           // [Plan.Hash] at that time
	Origin    Origin    `json:"origin"`
	Model     string    `json:"model,omitempty"` // the ledger model that planned
	CreatedAt time.Time `json:"created_at"`
	// Boulder is the id of the boulder whose plan was written, see [PlanEdited]; empty: it was not run yet.
	Boulder string `json:"boulder,omitempty"`
	// Parts are hashes of the sub-tasks as the ledger wrote them, by id: others are the user's, see [Plan.ByHand].
	Parts map[string]string `json:"parts,omitempty"`
}

// Reseal makes the seal that of the present content: of all sub-tasks but those of the user, which it goes on to tell apart.
func (p *Plan) Reseal(byHand ...string) {
	parts := map[string]string{}
	for _, id := range byHand {
		if was, sealed := p.Seal.Parts[id]; sealed {
			parts[id] = was
		}
	}
	for _, s := range p.SubTasks {
		if !slices.Contains(byHand, s.ID) {
			parts[s.ID] = s.hash()
		}
	}
	p.Seal.Hash, p.Seal.Parts = p.Hash(), parts
}

func (s *Spec) hash() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a Spec holds nothing that JSON cannot say
	}
	return hashOf(string(b))[:12]
}

// ByHand returns the ids of the sub-tasks that the user wrote, changed or removed: all that are not as the seal says. It
// cannot tell them apart if the plan has no seal, or was changed under one without parts: then all are the user's.
func (p Plan) ByHand() (ids []string) {
	parts, whole := map[string]string{}, p.Seal != nil && p.Seal.Parts == nil && p.Seal.Hash == p.Hash()
	if p.Seal != nil {
		parts = maps.Clone(p.Seal.Parts)
	}
	for _, s := range p.SubTasks {
		if !whole && parts[s.ID] != s.hash() {
			ids = append(ids, s.ID)
		}
		delete(parts, s.ID)
	}
	return slices.AppendSeq(ids, slices.Values(slices.Sorted(maps.Keys(parts))))
}

// Hash returns the SHA-256, in hex, of the plan's content, without seal, comments and layout.
func (p Plan) Hash() string {
	p.Seal = nil
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // a Plan holds nothing that JSON cannot say
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// SpecsHash hashes subjects, descriptions and criteria in order; ids, gates, case and white space do not matter.
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
	p.Facts.Found = slices.Clone(p.Facts.Found)
	p.Facts.ToDerive, p.Facts.Questions = slices.Clone(p.Facts.ToDerive), slices.Clone(p.Facts.Questions)
	p.Facts.Guesses, p.Request = slices.Clone(p.Facts.Guesses), slices.Clone(p.Request)
	p.DoneWhen, p.IntegrationGates = slices.Clone(p.DoneWhen), slices.Clone(p.IntegrationGates)
	p.Generated, p.SubTasks = maps.Clone(p.Generated), slices.Clone(p.SubTasks)
	for i := range p.SubTasks {
		s := &p.SubTasks[i]
		s.SuccessCriteria, s.DependsOn = slices.Clone(s.SuccessCriteria), slices.Clone(s.DependsOn)
		s.Gates, s.Outputs, s.DoneWhen = slices.Clone(s.Gates), slices.Clone(s.Outputs), slices.Clone(s.DoneWhen)
		s.NoWorse, s.Writes, s.Found = slices.Clone(s.NoWorse), slices.Clone(s.Writes), slices.Clone(s.Found)
		s.Questions = slices.Clone(s.Questions)
		if s.Budget != nil {
			s.Budget = new(*s.Budget)
		}
	}
	if p.Seal != nil {
		p.Seal = new(*p.Seal)
		p.Seal.Parts = maps.Clone(p.Seal.Parts)
	}
	return p
}

// Edited reports whether the user changed a sealed plan: it differs from what was sealed, or holds what the ledger did not
// write.
func (p Plan) Edited() bool {
	return p.Seal != nil && (p.Seal.Hash != p.Hash() || len(p.ByHand()) > 0)
}

// Origin returns how the plan was made. A plan without a seal was written by hand.
func (p Plan) Origin() Origin {
	if p.Seal == nil {
		return OriginHand
	}
	return p.Seal.Origin
}

// PlanRevision is an adopted plan, kept permanently.
type PlanRevision struct {
	Number    int       `json:"number"` // from 1
	Plan      Plan      `json:"plan"`
	Hash      string    `json:"hash"`
	Origin    Origin    `json:"origin"`
	Edited    bool      `json:"edited"` // the user changed it after it was sealed
	AdoptedAt time.Time `json:"adopted_at"`
	Was       *Plan     `json:"was,omitempty"` // the plan that it revises by the user's comment
}

// Priority orders sub-tasks that wait for the same model.
type Priority string

const (
	High   Priority = "high"
	Medium Priority = "medium"
	Low    Priority = "low"
)

// Words returns all values.
func (Priority) Words() []string { return []string{string(High), string(Medium), string(Low)} }

// Rank returns 0 (most urgent) to 2. Empty counts as medium.
func (p Priority) Rank() int {
	switch p {
	case High:
		return 0
	case Low:
		return 2
	}
	return 1
}
