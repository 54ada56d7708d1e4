package boulder

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

func (Created) EventType() string         { return "created" }
func (Planned) EventType() string         { return "planned" }
func (Decomposed) EventType() string      { return "decomposed" }
func (StatusChanged) EventType() string   { return "status" }
func (Starting) EventType() string        { return "attempt-starting" }
func (SubTaskStart) EventType() string    { return "subtask-start" }
func (TurnSent) EventType() string        { return "turn-sent" }
func (SubTaskProgress) EventType() string { return "subtask-progress" }
func (TurnEnded) EventType() string       { return "turn-ended" }
func (GateRun) EventType() string         { return "gate" }
func (Judged) EventType() string          { return "judged" }
func (Continuation) EventType() string    { return "continuation" }
func (Retry) EventType() string           { return "retry" }
func (Trouble) EventType() string         { return "trouble" }
func (UsageReport) EventType() string     { return "usage" }
func (SubTaskDone) EventType() string     { return "subtask-done" }
func (TakenUp) EventType() string         { return "taken-up" }
func (Nudged) EventType() string          { return "nudge" }
func (Cooled) EventType() string          { return "cooldown" }
func (ReplanStarted) EventType() string   { return "replan-started" }
func (ReplanTrouble) EventType() string   { return "replan-trouble" }
func (Replanned) EventType() string       { return "replan" }
func (ReplanRefused) EventType() string   { return "replan-refused" }
func (BudgetSet) EventType() string       { return "budget-set" }
func (BudgetWarning) EventType() string   { return "budget" }
func (Parked) EventType() string          { return "parked" }
func (Unparked) EventType() string        { return "unparked" }
func (SessionLeft) EventType() string     { return "session-left" }
func (ClockMoved) EventType() string      { return "clock" }
func (Noted) EventType() string           { return "note" }
func (Reopened) EventType() string        { return "reopened" }
func (Archived) EventType() string        { return "archived" }
func (BlockerRaised) EventType() string   { return "blocker" }
func (BlockerSettled) EventType() string  { return "blocker-settled" }
func (TaskComplete) EventType() string    { return "task-complete" }

// bodyTypes maps the JSON field "type" to the struct that carries it.
var bodyTypes = func() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, b := range []Body{
		Created{}, Planned{}, Decomposed{}, StatusChanged{}, Starting{}, SubTaskStart{}, TurnSent{}, SubTaskProgress{},
		TurnEnded{}, GateRun{}, Judged{}, Continuation{}, Retry{}, Trouble{}, UsageReport{}, SubTaskDone{},
		TaskComplete{}, TakenUp{}, Nudged{}, Cooled{}, ReplanStarted{}, ReplanTrouble{}, Replanned{}, ReplanRefused{},
		BudgetSet{}, BudgetWarning{}, Parked{}, Unparked{}, Noted{}, Reopened{}, Archived{},
		ClockMoved{}, SessionLeft{}, BlockerRaised{}, BlockerSettled{},
	} {
		types[b.EventType()] = reflect.TypeOf(b)
	}
	return types
}()

// envelope is the part of an event that all types share.
type envelope struct {
	Type      string    `json:"type"`
	Time      time.Time `json:"time"`
	BoulderID string    `json:"boulder_id"`
	Seq       uint64    `json:"seq"`
}

// MarshalJSON writes the flat object. It leaves it to whoever encodes the event whether <, > and & are escaped.
func (e Event) MarshalJSON() ([]byte, error) { return e.appendJSON(nil) }

// UnmarshalJSON reads what MarshalJSON wrote. Fields that are kept in records only (a prompt, the evidence) are empty.
func (e *Event) UnmarshalJSON(data []byte) error {
	var head envelope
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	typ, ok := bodyTypes[head.Type]
	if !ok {
		return fmt.Errorf("unknown event type %q", head.Type)
	}
	body := reflect.New(typ)
	if err := json.Unmarshal(data, body.Interface()); err != nil {
		return fmt.Errorf("event %q: %w", head.Type, err)
	}
	*e = Event{Time: head.Time, BoulderID: head.BoulderID, Seq: head.Seq, Body: body.Elem().Interface().(Body)}
	return nil
}
