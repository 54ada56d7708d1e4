package view

import (
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Why is what `manager show --why SUBTASK --json` prints: one object. Fields and steps are added in later
// versions, never changed.
type Why struct {
	Type          string          `json:"type"` // why
	BoulderID     string          `json:"boulder_id"`
	BoulderStatus boulder.Status  `json:"boulder_status"`
	Running       bool            `json:"running"` // a process is at the boulder
	SubTask       boulder.SubTask `json:"sub_task"`
	// GatesFrom names the replaced sub-tasks from which gates were taken over, by gate.
	GatesFrom map[string]string `json:"gates_from,omitempty"`
	Chain     []WhyStep         `json:"chain"` // in order of time
	// Now is what the sub-task does or waits for; empty once it is over.
	Now string `json:"now,omitempty"`

	claimed map[string]bool // see [boulder.Claimed]
}

// Kinds of a [whyStep].
const (
	stepAttempt  = "attempt"  // an attempt got its slot: model, agent, session_id, waited_ms
	stepPrompt   = "prompt"   // a prompt was sent: prompt (brief, continuation, resume), reason
	stepNudge    = "nudge"    // a prompt was sent into the running turn: rule, text
	stepFault    = "fault"    // something that is nobody's work: fault (boulder.TroubleKind), reason, until
	stepEnded    = "ended"    // a turn ended: ended, evidence
	StepGate     = "gate"     // a gate of a turn whose evidence cannot be read: gate
	stepVerdict  = "verdict"  // a turn was judged: verdict
	stepNote     = "note"     // a person said something: text
	stepBlocker  = "blocker"  // something that only a person can answer came up: text
	stepAnswer   = "answer"   // a person answered it, or said that there will be no answer: text
	stepWarning  = "warning"  // most of its budget is used up: reason
	stepDecision = "decision" // what followed: decision, reason, remaining, next, uncounted, by, replaced_by
)

// Decisions of a [whyStep], besides the states in which a sub-task ends and [boulder.SubTaskBlocked].
const (
	decidedContinuation = "continuation" // the same session goes on
	decidedRetry        = "retry"        // a fresh session begins
	decidedReplan       = "replan"       // the Task Ledger is asked for another plan
	decidedNoReplan     = "replan-refused"
	decidedParked       = "parked"   // it waits for a person
	decidedUnparked     = "unparked" // it does not any more
	decidedReopened     = "reopened" // a person has it tried again
)

// promptResume is the prompt of a [whyStep] besides the [boulder.TurnKind]s.
const promptResume = "resume"

// WhyStep is one link of the chain: something that was seen, judged or decided. What it has besides the first four
// fields depends on the step.
type WhyStep struct {
	Step    string    `json:"step"`
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt,omitempty"`
	Turn    int       `json:"turn,omitempty"`

	Model     string `json:"model,omitempty"`
	Agent     string `json:"agent,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	WaitedMS  int64  `json:"waited_ms,omitempty"` // for the slot

	Prompt string       `json:"prompt,omitempty"`
	Rule   boulder.Rule `json:"rule,omitempty"`
	Text   string       `json:"text,omitempty"`

	Fault boulder.TroubleKind `json:"fault,omitempty"`
	Until time.Time           `json:"until,omitzero"`

	Ended    *boulder.Ended    `json:"ended,omitempty"`
	Evidence *boulder.Evidence `json:"evidence,omitempty"`
	Gate     *boulder.Gate     `json:"gate,omitempty"`
	Verdict  *boulder.Verdict  `json:"verdict,omitempty"`

	Decision  string   `json:"decision,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Remaining []string `json:"remaining,omitempty"`
	Next      int      `json:"next,omitempty"`      // attempt or turn that it begins
	Uncounted bool     `json:"uncounted,omitempty"` // the attempt that ended is not a try
	// By is the sub-task whose failure led to it, if that is another one.
	By string `json:"by,omitempty"`
	// ReplacedBy is the sub-task that stands in its place; with the decision superseded.
	ReplacedBy string `json:"replaced_by,omitempty"`
}
