package boulder

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fill sets every field that JSON encodes to a random value.
func fill(t *rapid.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(epoch.Add(time.Duration(rapid.Int64Range(0, 1e18).Draw(t, "time")))))
		return
	}
	if v.Type() == reflect.TypeFor[Duration]() { // Apply refuses negative ones
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

// Every event type is one flat object with the documented fields, no key twice, and decodes unchanged.
func TestEventRoundTrip(t *testing.T) {
	t.Parallel()
	for name, kind := range typesByName {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				body := reflect.New(kind.body).Elem()
				fill(t, body)
				e := Event{BoulderID: "b1", Seq: 7, Body: body.Interface().(Body)}
				fill(t, reflect.ValueOf(&e.Time).Elem())
				data, err := e.MarshalJSON()
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

// TestPublicEvents pins the stream of `--json`: testdata/public_events.jsonl has every public event type with all its
// keys. A change there changes the public schema.
func TestPublicEvents(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/public_events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	keysOf := func(kind string, line []byte) (keys []string) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatal(err)
		}
		for key := range fields {
			keys = append(keys, kind+" "+key)
		}
		return keys
	}
	for line := range bytes.Lines(data) {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		again, err := json.Marshal(e.Shown())
		if d := cmp.Diff(strings.TrimSpace(string(line)), string(again)); d != "" || err != nil {
			t.Errorf("documented (-), and written now (+): %v\n%s", err, d)
		}
		for _, key := range keysOf(TypeOf(e.Body), line) {
			documented[key] = true
		}
	}
	for name, kind := range typesByName {
		if e := (Event{Body: reflect.Zero(kind.body).Interface().(Body)}); e.Public() != documented[name+" type"] {
			t.Errorf("%s: public is %v, and documented %v", name, e.Public(), documented[name+" type"])
		}
		if !kind.public {
			continue
		}
		rapid.Check(t, func(rt *rapid.T) {
			body := reflect.New(kind.body).Elem()
			fill(rt, body)
			line, err := json.Marshal(Event{BoulderID: "b1", Body: body.Interface().(Body)}.Shown())
			if err != nil {
				rt.Fatal(err)
			}
			for _, key := range keysOf(name, line) {
				if !documented[key] {
					rt.Fatalf("%q is written, and not documented: %s", key, line)
				}
			}
		})
	}
}

// FuzzEvent: damaged bytes are an error, never a panic; what decodes can be encoded again.
func FuzzEvent(f *testing.F) {
	for _, kind := range typesByName {
		data, err := json.Marshal(Event{Time: epoch, BoulderID: "b1", Seq: 1, Body: reflect.Zero(kind.body).Interface().(Body)})
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
		if e.Body == nil { // null: encoding/json leaves the value as it is
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
