package boulder

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// thin puts some of the fields back to zero: that is when they are left out.
func thin(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				if rapid.IntRange(0, 2).Draw(t, "zero") == 0 {
					f.SetZero()
				} else {
					thin(t, f)
				}
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			thin(t, v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			thin(t, v.Elem())
		}
	}
}

// TestAppendJSON: every record has the bytes that encoding/json gives it. A new kind of field that is written in
// another way makes it fail.
func TestAppendJSON(t *testing.T) {
	t.Parallel()
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Boulder](), reflect.TypeFor[SubTask](), reflect.TypeFor[Attempt](), reflect.TypeFor[Turn](),
		reflect.TypeFor[PlanRevision](),
	} {
		t.Run(typ.Name(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				record := reflect.New(typ)
				fill(t, record.Elem())
				thin(t, record.Elem())
				checkAppend(t, record.Interface())
			})
			checkAppend(t, reflect.New(typ).Interface())
		})
	}
}

func checkAppend(t rapid.TB, record any) {
	want, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	got, err := AppendJSON([]byte("before"), record)
	if err != nil || string(got) != "before"+string(want) {
		t.Fatalf("%v\ngot  %s\nwant before%s", err, got, want)
	}
}

// TestAppendEvent: every type of event has the bytes of its two halves, as encoding/json gives them.
func TestAppendEvent(t *testing.T) {
	t.Parallel()
	for name, typ := range bodyTypes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				body := reflect.New(typ).Elem()
				fill(t, body)
				thin(t, body)
				e := Event{epoch, rapid.String().Draw(t, "boulder"), rapid.Uint64().Draw(t, "seq"), body.Interface().(Body)}
				head := plainJSON(t, envelope{name, e.Time, e.BoulderID, e.Seq})
				want := strings.TrimSuffix(head, "}") + "," + strings.TrimPrefix(plainJSON(t, e.Body), "{")
				want = strings.ReplaceAll(want, ",}", "}")
				got, err := AppendJSON([]byte("before"), e)
				if err != nil || string(got) != "before"+want {
					t.Fatalf("%v\ngot  %s\nwant before%s", err, got, want)
				}
			})
		})
	}
}

func plainJSON(t *rapid.T, v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// oddities are what records do not have yet. Each must be written as encoding/json does it, or be left to that.
type oddities struct {
	envelope
	Text     string  `json:"text,omitempty"`
	Number   float64 `json:"number,omitempty"`
	Quoted   int     `json:"quoted,string"`
	Unnamed  []int
	Bytes    []byte         `json:"bytes"`
	Any      any            `json:"any"`
	Map      map[string]int `json:"map,omitempty"`
	Array    [2]int         `json:"array,omitempty"`
	Zero     shy            `json:"zero,omitzero"`
	Private  int            `json:"-"`
	Pointers []*shy         `json:"pointers"`
}

// shy has methods of its pointer that encoding/json asks.
type shy struct {
	N int `json:"n"`
}

func (s *shy) IsZero() bool { return s.N == 7 }

func (s *shy) MarshalJSON() ([]byte, error) { return json.Marshal([]int{s.N}) }

func TestAppendOddities(t *testing.T) {
	t.Parallel()
	for _, record := range []any{
		&oddities{}, &oddities{Text: "a", Number: 1e-9, Bytes: []byte("b"), Any: 1, Array: [2]int{1}, Zero: shy{N: 7}},
		&SubTask{Gates: []string{}, SuccessCriteria: []string{}}, &Boulder{Cooldowns: map[string]Cooldown{}},
		&oddities{Pointers: []*shy{nil, {N: 1}}, Map: map[string]int{"a": 1}, Zero: shy{N: 1}},
		&struct {
			A []float64 `json:"<a>"`
			B *shy      `json:"b,omitzero"`
			C shy       `json:"c,omitzero"`
			D time.Time `json:"d,omitempty"`
			E [0]int    `json:"e,omitempty"`
			F uint64    `json:"f"`
			G any       `json:"g,omitempty"`
		}{A: []float64{0, math.Copysign(0, -1), 1, 0.1, 1e21, 1e-7}, F: math.MaxUint64},
		&struct {
			AttemptRef
			ID string `json:"sub_task_id"` // hides the embedded one
		}{AttemptRef{"a", 1}, "b"},
	} {
		checkAppend(t, record)
	}
	for _, record := range []any{
		&Boulder{Usage: Usage{Cost: math.NaN()}}, &Turn{EndedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if got, err := AppendJSON(nil, record); err == nil {
			t.Errorf("%s has no JSON", got)
		}
	}
}

func TestAppendText(t *testing.T) {
	t.Parallel()
	piece := rapid.OneOf(
		rapid.String(), rapid.Map(rapid.Byte(), func(b byte) string { return string([]byte{b}) }),
		rapid.SampledFrom([]string{"\u2028", "\u2029", "\ufffd", "<b>&", "\\\"", "\xed\xa0\x80", "\x7f"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(piece).Draw(t, "text"), "")
		if got, want := string(writer{html: false}.text(nil, text)), plainJSON(t, text); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		checkAppend(t, &text)
	})
}
