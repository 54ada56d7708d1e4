package progressledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/providers/ledger"
)

// Answer is the model's answer, before [Normalize]. Completed and Summary are required.
type Answer struct {
	Criteria           []Finding `json:"criteria"`
	Outputs            []Value   `json:"outputs"`
	OutputData         Text      `json:"output_data"`
	NewFacts           []string  `json:"new_facts"`
	IsProgress         bool      `json:"is_progress"`
	IsInLoop           bool      `json:"is_in_loop"`
	IsStuck            bool      `json:"is_stuck"`
	StuckReason        string    `json:"stuck_reason"`
	BlockedBy          string    `json:"blocked_by"`
	NeedReplan         bool      `json:"need_replan"`
	ReplanReason       string    `json:"replan_reason"`
	Remaining          []string  `json:"remaining"`
	Summary            string    `json:"summary"`
	UserAnswer         string    `json:"answer"`
	GoalAchieved       bool      `json:"goal_achieved"`
	Completed          *bool     `json:"completed"`
	ContinuationPrompt string    `json:"continuation_prompt"`
}

// Finding is the answer on one success criterion. ID is C1, C2 … as in the prompt; without IDs, order counts.
type Finding struct {
	ID       string `json:"id"`
	Evidence string `json:"evidence"`
	Met      bool   `json:"met"`
}

// Value is the answer on one declared output. ID is O1, O2 … as in the prompt.
type Value struct {
	ID    string `json:"id"`
	Value Text   `json:"value"`
}

// Text is a string that also accepts other JSON values, which models like to give: those become their JSON.
type Text string

// UnmarshalJSON accepts any JSON value.
func (t *Text) UnmarshalJSON(data []byte) error {
	var s string // stays empty for null
	if json.Unmarshal(data, &s) == nil {
		*t = Text(s)
		return nil
	}
	var b bytes.Buffer
	err := json.Compact(&b, data)
	*t = Text(b.String())
	return err
}

// check returns errors that are shown to the model word for word.
func (a *Answer) check() error {
	switch {
	case a.Completed == nil:
		return errors.New(`"completed" is missing; it must be true or false`)
	case strings.TrimSpace(a.Summary) == "":
		return errors.New(`"summary" is missing or empty; say in one to three sentences what the state is`)
	}
	return nil
}

// schema returns the JSON schema of the answer: evidence comes before findings, and both before the verdict. Labels
// name criteria and outputs, so an answer cannot be about anything else.
func schema(req boulder.JudgeRequest) json.RawMessage {
	t := req.SubTask
	only := map[string][]string{
		"criteria.id": labels("C", t.SuccessCriteria), "outputs.id": labels("O", t.Outputs), "blocked_by": obstacles,
	}
	return ledger.Schema[Answer](only,
		text.If(len(t.SuccessCriteria) == 0, "criteria"), text.If(len(t.Outputs) == 0, "outputs"),
		text.If(req.Whole == "", "answer"))
}

func labels(prefix string, items []string) (all []string) {
	for i := range items {
		all = append(all, label(prefix, i))
	}
	return all
}

func label(prefix string, i int) string { return fmt.Sprintf("%s%d", prefix, i+1) }

// obstacles are the values of blocked_by.
var obstacles = []string{"none", "missing_info", "permission", "environment", "wrong_plan", "external"}
