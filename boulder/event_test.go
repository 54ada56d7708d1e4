package boulder

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/internal/golden"
)

// fill sets every field that JSON carries to a random value.
func fill(t *rapid.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(epoch.Add(time.Duration(rapid.Int64Range(0, 1e18).Draw(t, "time")))))
		return
	}
	if v.Type() == reflect.TypeFor[Duration]() { // a negative one is refused, by Apply as well
		v.SetInt(rapid.Int64Range(0, 1e18).Draw(t, "duration"))
		return
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(rapid.SampledFrom([]string{`1`, `{"a":"<b>"}`}).Draw(t, "raw")))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64Range(0, 1e9).Draw(t, "float"))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			item := reflect.New(v.Type().Elem()).Elem()
			fill(t, item)
			v.Set(reflect.Append(v, item))
		}
	case reflect.Map:
		for range rapid.IntRange(0, 2).Draw(t, "entries") {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key)
			fill(t, value)
			if v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(t, v.Field(i))
			}
		}
	default:
		t.Fatalf("fill does not know %s", v.Type())
	}
}

// TestEventRoundTrip: every type of event is one flat object with the documented fields, without a key given twice,
// and reads back as it was.
func TestEventRoundTrip(t *testing.T) {
	t.Parallel()
	for name, kind := range typesByName {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				body := reflect.New(kind.body).Elem()
				fill(t, body)
				e := Event{BoulderID: "b1", Seq: 7, Body: body.Interface()}
				fill(t, reflect.ValueOf(&e.Time).Elem())
				data, err := e.MarshalLog()
				if err != nil {
					t.Fatal(err)
				}
				checkFlat(t, data, name)
				var back Event
				if err := json.Unmarshal(data, &back); err != nil {
					t.Fatalf("%v\n%s", err, data)
				}
				if d := cmp.Diff(e, back); d != "" {
					t.Fatalf("%s\n%s", data, d)
				}
			})
		})
	}
}

func checkFlat(t *rapid.T, data []byte, name string) {
	var head struct {
		Type      string    `json:"type"`
		Time      time.Time `json:"time"`
		BoulderID string    `json:"boulder_id"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		t.Fatal(err)
	}
	if head.Type != name || head.Time.IsZero() || head.BoulderID != "b1" {
		t.Fatalf("required fields are wrong: %s", data)
	}
	if bytes.ContainsRune(data, '\n') {
		t.Fatalf("an event is one line: %s", data)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	enc := json.NewEncoder(&again)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil || again.Len() != len(data)+1 {
		t.Fatalf("a key is given twice: %s, %v", data, err)
	}
}

// TestPublicEvents pins the documented stream of `--json`. A difference here is a change of the public schema.
func TestPublicEvents(t *testing.T) {
	t.Parallel()
	ref := AttemptRef{SubTaskID: "api", Attempt: 2}
	usage := Usage{Input: 1200, CacheRead: 1000, Output: 80, Calls: 2, Cost: 0.0125}
	var public []string
	got := ""
	for i, b := range []Body{
		Decomposed{
			Revision: 1, Origin: OriginModel, Edited: true, Goal: "Dark mode", GatesApproved: true, Model: "p/m",
			SubTasks: []PlannedIn{
				{ID: "api", Subject: "Add the API", DependsOn: []string{}},
				{ID: "ui", Subject: "Add the toggle", DependsOn: []string{"api"}, Model: "p/m"},
			},
			Plan: PlanRevision{Hash: "not in the log"},
		},
		SubTaskStart{AttemptRef: ref, Description: "Add the API", Model: "p/m", SessionID: "ses_1", Snapshot: "not shown"},
		SubTaskProgress{
			AttemptRef: ref, Activity: "edit src/app.go", TodosDone: 1, TodosTotal: 3, Usage: usage,
			Checkpoint: &Checkpoint{File: "src/app.go", Line: 12, Context: "func main() {", At: epoch},
		},
		GateRun{AttemptRef: ref, Command: "go test ./...", ExitCode: 1, Output: "FAIL", Millis: 1500},
		Continuation{AttemptRef: ref, Reason: "tests fail", Remaining: []string{"fix the test"}, Turn: 2, Prompt: "hidden"},
		Retry{AttemptRef: ref, Reason: "stuck", Status: AttemptFailed, Next: 3, Digest: "hidden"},
		Cooled{Model: "p/m", Until: epoch.Add(time.Minute), Limit: 2, Full: 5, Reason: "429: slow down"},
		Replanned{
			AttemptRef: ref, Number: 1, Reason: "stalled, 2 times: no API", Revision: 2, GatesApproved: true,
			Added:   []PlannedIn{{ID: "docs", Subject: "Write it down", DependsOn: []string{"ui-2"}}},
			Changed: []Change{{From: "ui", To: PlannedIn{ID: "ui-2", Subject: "Toggle", DependsOn: []string{}, Model: "p/m"}}},
			Removed: []string{"api"}, Plan: PlanRevision{Hash: "not in the log"}, SubTasks: []Spec{{ID: "hidden"}},
		},
		BudgetWarning{Dimension: "cost", Used: 4.1, Limit: 5},
		BudgetWarning{SubTaskID: "api", Dimension: "tokens", Used: 80_000, Limit: 100_000},
		Parked{AttemptRef: ref, Reason: "its budget of $1.00 is used up ($1.02)", Digest: "hidden"},
		UsageReport{SubTaskID: "api", Attempt: 2, Source: "judge", Model: "p/ledger", Usage: usage},
		SubTaskDone{
			AttemptRef: ref, Completed: true, Summary: "Added", Status: SubTaskCompleted, AttemptStatus: AttemptCompleted,
			Output: "hidden",
		},
		SubTaskDone{
			AttemptRef: ref, Summary: "gave up", Status: SubTaskFailed, AttemptStatus: AttemptFailed, Blocked: []string{"ui"},
		},
		SubTaskDone{
			AttemptRef: ref, Summary: "skipped by a person", Status: SubTaskSkipped, AttemptStatus: AttemptCancelled,
			ByPerson: true,
		},
		Noted{SubTaskID: "ui", Text: "Use the old icon"},
		Reopened{SubTaskID: "api", Reason: "a person wants it tried again"},
		BlockerRaised{AttemptRef: ref, Blocker: Blocker{
			ID: "B7", BlockerScope: BlockerScope{BoulderID: "b1", SubTaskID: "api", Attempt: 2, SessionID: "ses_1"},
			Category: BlockerSecurity,
			Question: "Which key signs the tokens?", Context: "config/keys has two", Hard: true, Status: BlockerPending,
			CreatedAt: epoch,
		}},
		BlockerRaised{AttemptRef: ref, Blocker: Blocker{
			ID: "B8", BlockerScope: BlockerScope{BoulderID: "b1", SubTaskID: "api", Attempt: 2, SessionID: "ses_1"},
			Category: BlockerQuestion,
			Question: "What is the toggle called?", Context: "settings.go", Options: []string{"theme", "dark", "mode"},
			ChosenOption: "theme", ChosenReasoning: "as the others", Status: BlockerPending, CreatedAt: epoch,
		}},
		BlockerRaised{AttemptRef: ref, Blocker: Blocker{
			ID: "B9", BlockerScope: BlockerScope{BoulderID: "b1", SubTaskID: "api", Attempt: 2, SessionID: "ses_1"},
			Category: BlockerPermission,
			Question: "May it run git push?", Context: "", Status: BlockerSkipped, CreatedAt: epoch, SettledAt: epoch,
			Ask: &Ask{
				Kind: AskPermission, RequestID: "per_1", Permission: "bash", Patterns: []string{"git push *"}, Tool: "bash",
				Arguments: `{"command":"git push"}`, Reply: ReplyDiverted,
			},
		}},
		BlockerSettled{SubTaskID: "api", BlockerID: "B7", Status: BlockerAnswered, Answer: "The new one"},
		BlockerSettled{SubTaskID: "api", BlockerID: "B9", Status: BlockerAnswered, Allowed: true},
		TaskComplete{AllCompleted: true, Summary: "2 of 2", Status: Completed, Usage: usage},
	} {
		e := Event{Time: epoch, BoulderID: "b1", Seq: uint64(i + 1), Body: b}
		if !e.Public() {
			t.Errorf("%s is not public", TypeOf(b))
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		public = append(public, TypeOf(b))
		got += string(line) + "\n"
	}
	for name, kind := range typesByName {
		e := Event{Body: reflect.Zero(kind.body).Interface()}
		if listed := strings.Contains(strings.Join(public, " ")+" ", name+" "); e.Public() != listed {
			t.Errorf("%s: public is %v, but it is in the golden file: %v", name, e.Public(), listed)
		}
	}
	golden.Compare(t, "public_events.jsonl", got) // the public schema
}

// FuzzEvent: stored bytes that were damaged are an error, never a panic; what is read can be written again.
func FuzzEvent(f *testing.F) {
	for _, kind := range typesByName {
		data, err := json.Marshal(Event{Time: epoch, BoulderID: "b1", Seq: 1, Body: reflect.Zero(kind.body).Interface()})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"type":"made-up","time":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e Event
		if json.Unmarshal(data, &e) != nil {
			return
		}
		if e.Body == nil { // encoding/json does not call UnmarshalJSON's body for a null
			return
		}
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("%q was read but cannot be written: %v", data, err)
		}
		var back Event
		if err := json.Unmarshal(again, &back); err != nil {
			t.Fatalf("%q: %v", again, err)
		}
	})
}
