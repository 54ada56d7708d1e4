package boulder

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Isolation says where the sub-tasks of a boulder work.
type Isolation string

const (
	IsolationOff    Isolation = "off"    // in place, in the project; the default
	IsolationAlways Isolation = "always" // each in a slot; results are integrated
	IsolationAuto   Isolation = "auto"   // in slots if two can run at once and gates do as well there
)

// Words returns all values.
func (Isolation) Words() []string {
	return []string{string(IsolationAuto), string(IsolationAlways), string(IsolationOff)}
}

// Trunk is the chain of commits with the results of an isolated boulder; the tree of each passed its gates, or a later one
// with which it came ([SlotState].TestedWith). refs/manager/<boulder>/tip is Tip, or Before after a crash between the event
// and the update of the ref.
type Trunk struct {
	Base        string       `json:"base"` // commit at which slots begin: the project's files when the run began
	Tip         string       `json:"tip"`
	Trial       bool         `json:"trial,omitempty"`    // gates are tried at Base first; no attempt before [Isolated]
	InPlace     string       `json:"in_place,omitempty"` // why the sub-tasks do not work in slots as requested
	Before      string       `json:"before,omitempty"`
	Tree        string       `json:"tree,omitempty"` // of Tip; empty: that of Base
	Green       []TreeGate   `json:"green,omitempty"`
	SetUp       string       `json:"set_up,omitempty"` // see [Isolated]
	Red         []string     `json:"red,omitempty"`    // commands that were red in the trial: the work has to turn them green
	Integrating *Integrating `json:"integrating,omitempty"`
	// Joined are the results that are tested together with that of Integrating.
	Joined   []Integrating `json:"joined,omitempty"`
	Results  int           `json:"results,omitempty"` // how many have been put onto it, also those that a redo took off
	Landed   *Landed       `json:"landed,omitempty"`
	LandedAt time.Time     `json:"landed_at,omitzero"`
}

// TreeGate is a run of a command on a tree.
type TreeGate struct {
	Command string `json:"command"`
	Tree    string `json:"tree"`
	Passed  bool   `json:"passed"`
	Reused  bool   `json:"reused,omitempty"` // not run again: it had passed on this tree
	// FlakySuspected: see [Gate].
	FlakySuspected bool `json:"flaky_suspected,omitempty"`
}

// Passed reports whether a command is known to pass on a tree.
func (l *Trunk) Passed(command, tree string) bool {
	return slices.ContainsFunc(l.Green, func(g TreeGate) bool { return g.Command == command && g.Tree == tree })
}

// Green reports whether all gates of completed sub-tasks and of the boulder are known to pass on the tip.
func (s *Snapshot) Green() bool {
	commands := slices.Clone(s.Boulder.IntegrationGates)
	for _, t := range s.SubTasks {
		if t.Status == SubTaskCompleted {
			commands = slices.Concat(commands, t.Gates, t.NoWorse)
		}
	}
	l := &s.Boulder.Trunk
	return !slices.ContainsFunc(commands, func(command string) bool { return !l.Passed(command, l.Tree) })
}

// Isolated reports whether the sub-tasks work in slots.
func (b *Boulder) Isolated() bool { return b.Trunk.Base != "" }

// Isolated says where sub-tasks work, after a trial of the gates in a slot. Committed before the first attempt starts.
type Isolated struct {
	InPlace bool       `json:"in_place"`                    // the trial's slots and refs are gone
	Reason  string     `json:"reason"`                      // one line
	Gates   []TreeGate `json:"gates"`                       // runs in a slot at the base
	SetUp   string     `json:"set_up,omitempty" log:"only"` // identifies what set-up brought into the slot
	// Baseline are the same runs, or those with the project's ignored files, if the sub-tasks work in place.
	Baseline []Gate `json:"baseline,omitempty" log:"only"`
}

// ReservedID reports whether a sub-task of an isolated boulder must not have this id: its ref would be the trunk's.
func ReservedID(id string) bool { return id == "base" || id == "tip" }

// Integrating is committed before a result is put onto the tip, together with those of the others that it is tested with.
// All others wait until [Integrated] or [Conflict].
type Integrating struct {
	AttemptRef
	Tip    string    `json:"tip"`             // commit
	Result string    `json:"result"`          // commit
	At     time.Time `json:"at"`              // of the resulting commit, to get the same one after a crash
	Joins  bool      `json:"joins,omitempty"` // it is tested together with those before it
}

// Integrated says that the tip has a result with green gates on the combined tree. Committed before the ref moves.
type Integrated struct {
	AttemptRef
	Tree   string     `json:"tree"`
	Commit string     `json:"commit"`
	Gates  []TreeGate `json:"gates"`
	// TestedWith is the sub-task that came onto the tip with it, above it, and whose tree was tested instead of Tree.
	TestedWith string `json:"tested_with,omitempty"`
	// Under are those below it, and Back is the next one, which is red on top of it. They are in reports of a Runner only:
	// each becomes an event of its own, in the same commit.
	Under []OnTip   `json:"under,omitempty" log:"only"`
	Back  *Conflict `json:"back,omitempty" log:"only"`
}

// OnTip is a result that came onto the tip below another.
type OnTip struct {
	AttemptRef
	Tree   string `json:"tree"`
	Commit string `json:"commit"`
}

// Events returns what is stored of a report.
func (b Integrated) Events() (all []Body) {
	under, back := b.Under, b.Back
	b.Under, b.Back = nil, nil
	for _, u := range under {
		all = append(all, Integrated{AttemptRef: u.AttemptRef, Tree: u.Tree, Commit: u.Commit, Gates: []TreeGate{}, TestedWith: b.SubTaskID})
	}
	if all = append(all, b); back != nil {
		all = append(all, *back)
	}
	return all
}

// Conflict says that a result cannot be put onto the tip. From now on the sub-task works on top of Tip.
type Conflict struct {
	AttemptRef
	Files []string `json:"files"`         // with conflict markers; empty: gates are red
	With  []string `json:"with"`          // sub-tasks with conflicting results
	Red   []Gate   `json:"red,omitempty"` // on the combined tree
	// Since are sub-tasks on the tip whose results made gates of Red red, before this one's came.
	Since []string `json:"since,omitempty"`
	// Ignored is what the result's slot has that git ignores: a red gate may need it.
	Ignored []string `json:"ignored,omitempty"`
	Tip     string   `json:"tip"` // commit
	Tree    string   `json:"tree,omitempty" log:"only"`
}

// Values of [Landed].How.
const (
	LandedFiles   = "files"
	LandedBranch  = "branch"
	LandedPR      = "pr" // a pushed branch
	LandedDropped = "dropped"
	LandedUndone  = "undone" // a landing with conflicts was taken back: the results can land again
)

// SetUpError is an [ErrSlots]: a command that sets slots up failed.
type SetUpError struct{ Gate Gate }

func (e *SetUpError) Error() string {
	return fmt.Sprintf("`%s`, which sets slots up, failed (%s):\n%s", e.Gate.Command, e.Gate.End(), e.Gate.Output)
}

func (e *SetUpError) Unwrap() error { return ErrSlots }

// UnstoredError comes with a snapshot of a slot that does not hold every file as git would. Entries are a path and the
// reason.
type UnstoredError struct {
	Lacks []string // not in the snapshot at all
	Raw   []string // there as on disk: git could not convert them
}

func (e *UnstoredError) Error() string {
	return "git cannot store " + strings.Join(e.Files(), "; ")
}

// Files returns all entries.
func (e *UnstoredError) Files() []string { return slices.Concat(e.Lacks, e.Raw) }

// None reports whether the snapshot is complete.
func (e *UnstoredError) None() bool { return len(e.Lacks)+len(e.Raw) == 0 }

// SubTaskTrailer names the sub-task in the commit of its result.
const SubTaskTrailer = "Manager-Sub-task"

// Landed says what became of the results, once, after the end of the boulder; again after [LandedUndone].
type Landed struct {
	How    string `json:"how"`              // files | branch | pr | dropped | undone
	Branch string `json:"branch,omitempty"` // the new branch, if any
	PR     string `json:"pr,omitempty"`     // URL of the pull request, if any
	Commit string `json:"commit"`           // the tip, or the branch's commit with it on top of the user's commit
	Tree   string `json:"tree"`             // of Commit; its gates were green
	// Conflicts are files that were written with conflict markers, and Left those where none are possible, which stay as
	// the user had them. With any, nothing has tested what the user's files are now.
	Conflicts []string `json:"conflicts,omitempty"`
	Left      []string `json:"left,omitempty"`
	Written   string   `json:"written,omitempty"` // with conflicts: the commit of the files as written, whose parent has them as before
}

// Marred returns how many files of a landing conflict.
func (l *Landed) Marred() int { return len(l.Conflicts) + len(l.Left) }

// Integration is the job of putting results onto the tip: as many as are green together.
type Integration struct {
	BoulderID string
	Trunk     Trunk
	SubTask   SubTask
	Turn      Turn
	Then      []Joined  // after it, in the order of the plan
	Earlier   []SubTask // completed before, in that order
	Last      bool      // no other sub-task is unfinished: the tree is the one that lands
	Gates     []string  // of every combined tree
	Generated map[string]string
}

// Joined is a further result of an [Integration].
type Joined struct {
	SubTask SubTask
	Turn    Turn
}

// Batch returns what is being integrated together, in the order of the plan.
func (s *State) Batch() (batch []*Open) {
	for _, t := range s.SubTasks {
		if o := s.open[t.ID]; o != nil && s.Boulder.Trunk.integrating(o.Attempt.AttemptRef) != nil {
			batch = append(batch, o)
		}
	}
	return batch
}

// FirstOnTip returns the lowest attempt with a result on the tip that is not complete yet, or nil.
func (s *State) FirstOnTip() (first *Open) {
	for _, o := range s.live {
		if o.SubTask.Integrated != "" && (first == nil || o.SubTask.Place < first.SubTask.Place) {
			first = o
		}
	}
	return first
}

// integrating returns how the result of an attempt is being integrated, or nil.
func (l *Trunk) integrating(ref AttemptRef) *Integrating {
	if l.Integrating == nil || l.Integrating.AttemptRef == ref {
		return l.Integrating
	}
	if i := slices.IndexFunc(l.Joined, func(j Integrating) bool { return j.AttemptRef == ref }); i >= 0 {
		return &l.Joined[i]
	}
	return nil
}

// At returns the time of the commit with an attempt's result, which is being integrated.
func (l *Trunk) At(ref AttemptRef) time.Time { return l.integrating(ref).At }

func (s *State) landed(e *Event, b Landed) error {
	l := &s.Boulder.Trunk
	switch {
	case !s.Boulder.Isolated() || !s.Boulder.Status.Terminal():
		return fmt.Errorf("boulder %s is %s, or not isolated", ShortID(s.Boulder.ID), s.Boulder.Status)
	case b.How == LandedUndone && (l.Landed == nil || l.Landed.Marred() == 0):
		return fmt.Errorf("the results of boulder %s were not written with conflicts", ShortID(s.Boulder.ID))
	case b.How == LandedUndone:
		l.Landed, l.LandedAt = nil, time.Time{}
		return nil
	case l.Landed != nil:
		return fmt.Errorf("the results of boulder %s have landed already: %s", ShortID(s.Boulder.ID), l.Landed.How)
	}
	l.Landed, l.LandedAt = &b, e.Time
	return nil
}

func (s *State) isolated(_ *Event, b Isolated) error {
	l := &s.Boulder.Trunk
	if !l.Trial {
		return fmt.Errorf("no gates are tried for boulder %s", ShortID(s.Boulder.ID))
	}
	s.addBaselines(nil, b.Baseline)
	if b.InPlace {
		*l = Trunk{InPlace: b.Reason}
		return nil
	}
	l.Trial, l.Green, l.SetUp = false, nil, b.SetUp
	for _, g := range b.Gates {
		if g.Passed {
			l.Green = append(l.Green, g)
		} else {
			addTo(&l.Red, g.Command)
		}
	}
	return nil
}

func (s *State) integrating(_ *Event, o *Open, b Integrating) error {
	l := &s.Boulder.Trunk
	switch {
	case !o.waits():
		return fmt.Errorf("turn %d of %q has no result to integrate", o.Turn.Number, b.SubTaskID)
	case b.Joins != (l.Integrating != nil), l.integrating(b.AttemptRef) != nil:
		return fmt.Errorf("%q joins others: %v, and being integrated is %+v", b.SubTaskID, b.Joins, l.Integrating)
	case b.Tip != l.Tip || b.Result != o.SubTask.Work || b.Result == "":
		return fmt.Errorf("the tip is %q and the result of %q %q", l.Tip, b.SubTaskID, o.SubTask.Work)
	case b.Joins:
		l.Joined = append(slices.Clip(l.Joined), b)
	default:
		l.Integrating = &b
	}
	return nil
}

// waits reports whether the attempt has a complete result that is not on the tip.
func (o *Open) waits() bool {
	return o.Turn.Verdict != nil && o.Turn.Verdict.Completed && o.Turn.Conflict == nil && o.SubTask.Integrated == ""
}

// dropIntegrating stops the integration of a result whose attempt continues or ends.
func (s *State) dropIntegrating(o *Open) {
	if l := &s.Boulder.Trunk; l.integrating(o.Attempt.AttemptRef) != nil {
		l.Integrating, l.Joined = nil, nil
	}
}

func (s *State) integrated(e *Event, o *Open, b Integrated) error {
	l, t := &s.Boulder.Trunk, o.SubTask
	if l.integrating(b.AttemptRef) == nil || t.Integrated != "" || len(b.Under) > 0 || b.Back != nil {
		return fmt.Errorf("%q is not being integrated", b.SubTaskID)
	}
	l.Before, l.Tip, l.Tree = l.Integrating.Tip, b.Commit, b.Tree
	if b.TestedWith == "" {
		l.Integrating, l.Joined = nil, nil
	}
	l.Green = slices.DeleteFunc(slices.Clone(l.Green), func(g TreeGate) bool { return g.Tree != b.Tree && b.TestedWith == "" })
	for _, g := range b.Gates {
		if g.Passed && !l.Passed(g.Command, g.Tree) {
			l.Green = append(l.Green, TreeGate{Command: g.Command, Tree: g.Tree, Passed: true})
		}
	}
	l.Results++
	t.Integrated, t.From, t.Snapshot, t.UpdatedAt = b.Commit, b.Commit, b.Tree, e.Time
	t.TestedWith, t.Place = b.TestedWith, l.Results
	return nil
}

// conflict also follows what came onto the tip without the result.
func (s *State) conflict(e *Event, o *Open, b Conflict) error {
	l := &s.Boulder.Trunk
	if !o.waits() || l.Integrating != nil && l.integrating(b.AttemptRef) == nil || b.Tip != l.Tip {
		return fmt.Errorf("%q is not being integrated onto %s", b.SubTaskID, b.Tip)
	}
	l.Integrating, l.Joined = nil, nil
	t := o.SubTask
	t.From, t.Snapshot, t.UpdatedAt = b.Tip, b.Tree, e.Time
	t.Conflicts = append(slices.Clip(t.Conflicts), b)
	t.Unresolved++
	o.Turn.Conflict = &b
	return nil
}

// Reconciling returns the conflict that the sub-task, which was complete by itself, has to resolve, or nil.
func (t *SubTask) Reconciling() *Conflict {
	if len(t.Conflicts) == 0 || t.Integrated != "" {
		return nil
	}
	return &t.Conflicts[len(t.Conflicts)-1]
}

// Unlanded reports whether an isolated boulder is over with results neither landed nor dropped.
func (b *Boulder) Unlanded() bool {
	return b.Isolated() && b.Status.Terminal() && b.Trunk.Landed == nil && b.Trunk.Tip != b.Trunk.Base
}
