package boulder

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// LookMode says when a look at the project precedes a plan.
type LookMode string

const (
	LookAuto   LookMode = "auto"   // if something is to be found out in a project that is not small; as the empty one
	LookAlways LookMode = "always" // before every plan that a model makes
	LookNever  LookMode = "never"
)

// Words returns all values.
func (LookMode) Words() []string {
	return []string{string(LookAuto), string(LookAlways), string(LookNever)}
}

// Finding is what a look found out. It comes from a model that read the project: it is data.
type Finding struct {
	ID        string   `json:"id"` // letters, digits, - and _; "f1"
	Statement string   `json:"statement"`
	File      string   `json:"file,omitempty"` // slash-separated, relative to the project
	Line      int      `json:"line,omitempty"` // from 1
	Command   string   `json:"command,omitempty"`
	Sure      Sureness `json:"sure,omitempty"`
}

// Sureness says how sure a look is of a [Finding].
type Sureness string

const (
	Certain Sureness = "certain"
	Likely  Sureness = "likely"
	Guessed Sureness = "guess"
)

// Words returns all values.
func (Sureness) Words() []string { return []string{string(Certain), string(Likely), string(Guessed)} }

// Where returns the file and line, or the command, that show the finding, or "".
func (f Finding) Where() string {
	switch {
	case f.File != "" && f.Line > 0:
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	case f.File != "":
		return f.File
	case f.Command != "":
		return "`" + f.Command + "`"
	}
	return ""
}

func (f Finding) String() string {
	told := ""
	for _, part := range []string{f.Where(), string(f.Sure)} {
		if part != "" {
			told += ", " + part
		}
	}
	if told == "" {
		return f.Statement
	}
	return f.Statement + " (" + strings.TrimPrefix(told, ", ") + ")"
}

// Look is a session that finds something out in the project and may not change it:
//
//	LookStarted → LookSession … → Looked
//
// A crash leaves it open: a resume finds its session, and sends no prompt that it has.
type Look struct {
	LookStarted
	LookSession
	At     int     `json:"at,omitempty"`     // [Boulder.Attempts] when it began
	Looked *Looked `json:"looked,omitempty"` // nil: it is not over
}

// LookFor says what a look is for.
type LookFor string

const (
	LookPlan   LookFor = ""       // the first plan
	LookReplan LookFor = "replan" // the replan in progress
	LookReview LookFor = "review" // the check of the request: it reads the changes
)

// LookStarted says what a look is to find out. Committed before its session is created.
type LookStarted struct {
	For       LookFor  `json:"for,omitempty"`
	Questions []string `json:"questions"`
	Tag       string   `json:"tag"`             // finds the session
	Model     string   `json:"model,omitempty"` // provider/model; empty: OpenCode's default

	Known *Plan `json:"known,omitempty" log:"only"` // of a look for a plan: what the planner knew, see [PlanRequest]
}

// LookSession is how far the session of a look is. Committed before a prompt is sent.
type LookSession struct {
	SessionID string `json:"session_id,omitempty"`
	MessageID string `json:"message_id,omitempty"` // of the prompt
	ResumeID  string `json:"resume_id,omitempty"`  // as in [Turn]
	Nudge     *Nudge `json:"nudge,omitempty"`      // the one nudge
	Server    string `json:"server,omitempty"`     // see [Attempt.Server]
	Snapshot  string `json:"snapshot,omitempty"`   // of the project before the session; empty outside git
	Repo      *Repo  `json:"repo,omitempty"`       // where the user's git stood then
}

// Looked ends a look.
type Looked struct {
	Findings []Finding `json:"findings,omitempty"`
	Refuted  []string  `json:"refuted,omitempty"` // findings that were dropped, with the reason
	Void     string    `json:"void,omitempty"`    // why nothing that it found counts; then there are no findings
	// NotCompared: outside of git it is not known whether the project's files changed meanwhile.
	NotCompared bool `json:"not_compared,omitempty"`
}

// LookJob is the job of a look.
type LookJob struct {
	BoulderID string // empty: no boulder has begun
	Look      Look
	Prompt    string
	Resume    string // the prompt to send if a crash interrupted the look and its session is idle
	Recovered bool   // as in [Job]
	Time      time.Duration
	Findings  int   // most of them for a question
	Trunk     Trunk // of an isolated boulder: the look is at its tip
}

// Reviewed returns what the review of the changes found, or nil if there was none since the last attempt started.
func (b *Boulder) Reviewed() *Looked {
	if b.Look == nil || b.Look.For != LookReview || b.Look.At != b.Attempts {
		return nil
	}
	return b.Look.Looked
}

// Looking returns the look that is not over, or nil.
func (b *Boulder) Looking() *Look {
	if b.Look == nil || b.Look.Looked != nil {
		return nil
	}
	return b.Look
}

func (s *State) lookStarted(_ *Event, b LookStarted) error {
	switch {
	case b.For == LookPlan && (s.Boulder.Status != Planning || s.Boulder.Look != nil):
		return fmt.Errorf("boulder is %s, and there may have been a look", s.Boulder.Status)
	case b.For == LookReplan && (s.Boulder.Status != Running && s.Boulder.Status != Paused || s.Boulder.Replan == nil || s.Boulder.Replan.Proposed != nil || s.Boulder.Look != nil):
		return fmt.Errorf("boulder is %s, and no replan is being made, or there may have been a look for it", s.Boulder.Status)
	case b.For == LookReview && (s.Boulder.Status != Running || len(s.SubTasks) == 0 || !s.AllOver() || s.Boulder.Looking() != nil):
		return fmt.Errorf("boulder is %s with %d open attempts, and may be looked at", s.Boulder.Status, len(s.open))
	case len(b.Questions) == 0 || b.Tag == "" || (b.For == LookPlan) != (b.Known != nil):
		return fmt.Errorf("a look with %d questions and the tag %q, or for nothing that is known", len(b.Questions), b.Tag)
	}
	s.Boulder.Look, *s.Boulder.Faults() = &Look{LookStarted: b, At: s.Boulder.Attempts}, PlanFaults{}
	return nil
}

// dropLook forgets a look that is not over if the replan is that it was for.
func (s *State) dropLook() {
	if l := s.Boulder.Looking(); l != nil && l.For == LookReplan {
		s.Boulder.Look = nil
	}
}

func (s *State) lookSession(_ *Event, b LookSession) error {
	l := s.Boulder.Looking()
	if l == nil {
		return fmt.Errorf("there is no look that is not over")
	}
	for _, id := range [][2]string{{l.SessionID, b.SessionID}, {l.MessageID, b.MessageID}} {
		if id[0] != "" && id[0] != id[1] {
			return fmt.Errorf("a look has one session and one prompt: %q follows %q", id[1], id[0])
		}
	}
	switch {
	case b.SessionID == "" || b.MessageID == "" && b.ResumeID != "":
		return fmt.Errorf("a prompt without a session, or a resume prompt without a prompt")
	case l.Nudge != nil && (b.Nudge == nil || b.Nudge.MessageID != l.Nudge.MessageID):
		return fmt.Errorf("a look is nudged once")
	}
	now := *l
	now.LookSession = b
	s.Boulder.Look = &now
	return nil
}

func (s *State) looked(_ *Event, b Looked) error {
	l := s.Boulder.Looking()
	switch {
	case l == nil:
		return fmt.Errorf("there is no look that is not over")
	case b.Void != "" && len(b.Findings) > 0:
		return fmt.Errorf("a void look has %d findings", len(b.Findings))
	}
	now := *l
	now.Looked = &b
	s.Boulder.Look, *s.Boulder.Faults() = &now, PlanFaults{}
	return nil
}

// ReplanFacts returns the facts of the current plan, with what a look for the replan in progress found.
func (s *State) ReplanFacts() Facts {
	facts := s.Revision.Plan.Facts
	l := s.Boulder.Look
	if l == nil || l.For != LookReplan || l.Looked == nil {
		return facts
	}
	facts.Found = slices.Clone(facts.Found)
	for n, i := 1, 0; i < len(l.Looked.Findings); n++ {
		id := fmt.Sprint("f", n)
		if !slices.ContainsFunc(facts.Found, func(f Finding) bool { return f.ID == id }) {
			found := l.Looked.Findings[i]
			found.ID, i = id, i+1
			facts.Found = append(facts.Found, found)
		}
	}
	return facts
}
