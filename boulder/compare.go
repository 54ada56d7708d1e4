package boulder

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// PlanChanges are the differences between two plans: of all that [Plan.Hash] covers, so not of the seals.
type PlanChanges struct {
	Fields    []FieldChange `json:"fields,omitempty"` // of the plan itself
	Request   []PartChange  `json:"request,omitempty"`
	Questions []PartChange  `json:"questions,omitempty"`
	SubTasks  []PartChange  `json:"sub_tasks,omitempty"`
}

// PartChange is a sub-task, a row of the request or a question that is in one of two plans only, or differs. They go by their ids, in
// the order of the new plan; what was removed stands where it was.
type PartChange struct {
	ID     string        `json:"id"`
	Change ChangeKind    `json:"change"`
	Fields []FieldChange `json:"fields"` // of an added or a removed one: all it has
}

// ChangeKind says what happened to a part of a plan.
type ChangeKind string

const (
	PartAdded   ChangeKind = "added"
	PartRemoved ChangeKind = "removed"
	PartChanged ChangeKind = "changed"
)

// Words returns all values.
func (ChangeKind) Words() []string {
	return []string{string(PartAdded), string(PartRemoved), string(PartChanged)}
}

// FieldChange is a field in which two plans differ, as the items of a list or the lines of a text.
type FieldChange struct {
	Field string   `json:"field"` // as in the plan file, as facts.given; request, facts.questions and sub_tasks: ids in another order
	Was   []string `json:"was,omitempty"`
	Now   []string `json:"now,omitempty"`
}

// Empty reports whether the plans are the same.
func (c PlanChanges) Empty() bool {
	return len(c.Fields)+len(c.Request)+len(c.Questions)+len(c.SubTasks) == 0
}

// ComparePlans returns how a plan differs from an earlier one.
func ComparePlans(was, now *Plan) (c PlanChanges) {
	head := func(p Plan) []FieldChange {
		p.Request, p.Facts.Questions, p.SubTasks, p.Seal = nil, nil, nil, nil
		return fieldsOf("", reflect.ValueOf(p))
	}
	var rows, asked, order []FieldChange
	c.Request, rows = compareParts("request", was.Request, now.Request, func(o Obligation) string { return o.ID })
	c.Questions, asked = compareParts("facts.questions", was.Facts.Questions, now.Facts.Questions, func(q Question) string { return q.ID })
	c.SubTasks, order = compareParts("sub_tasks", was.SubTasks, now.SubTasks, func(s Spec) string { return s.ID })
	c.Fields = slices.Concat(compareFields(head(*was), head(*now)), rows, asked, order)
	return c
}

// compareParts compares two lists. moved is set if what is in both changed its order.
func compareParts[T any](list string, was, now []T, id func(T) string) (changes []PartChange, moved []FieldChange) {
	in := func(parts []T, wanted T) int {
		return slices.IndexFunc(parts, func(p T) bool { return id(p) == id(wanted) })
	}
	fields := func(p T) []FieldChange {
		return slices.DeleteFunc(fieldsOf("", reflect.ValueOf(p)), func(f FieldChange) bool { return f.Field == "id" })
	}
	next := 0 // of was
	var before, after []string
	removed := func(upTo int) {
		for ; next < upTo; next++ {
			if p := was[next]; in(now, p) < 0 {
				changes = append(changes, PartChange{id(p), PartRemoved, compareFields(fields(p), nil)})
			} else {
				before = append(before, id(p))
			}
		}
	}
	for _, p := range now {
		at := in(was, p)
		if at < 0 {
			changes = append(changes, PartChange{id(p), PartAdded, compareFields(nil, fields(p))})
			continue
		}
		removed(at)
		after = append(after, id(p))
		if changed := compareFields(fields(was[at]), fields(p)); len(changed) > 0 {
			changes = append(changes, PartChange{id(p), PartChanged, changed})
		}
	}
	removed(len(was))
	if !slices.Equal(before, after) {
		moved = []FieldChange{{list, before, after}}
	}
	return changes, moved
}

// compareFields compares what fieldsOf returned for two values.
func compareFields(was, now []FieldChange) (changes []FieldChange) {
	old := map[string][]string{}
	for _, f := range was {
		old[f.Field] = f.Now
	}
	for _, f := range now {
		if !slices.Equal(old[f.Field], f.Now) {
			changes = append(changes, FieldChange{f.Field, old[f.Field], f.Now})
		}
		delete(old, f.Field)
	}
	for _, f := range was {
		if _, gone := old[f.Field]; gone {
			changes = append(changes, FieldChange{Field: f.Field, Was: f.Now})
		}
	}
	return changes
}

// fieldsOf returns what is set in a value, under the names that JSON gives it.
func fieldsOf(name string, v reflect.Value) (fields []FieldChange) {
	if v.IsZero() {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		return fieldsOf(name, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			fields = append(fields, fieldsOf(strings.TrimPrefix(name+"."+tag, "."), v.Field(i))...)
		}
		return fields
	case reflect.String:
		return []FieldChange{{Field: name, Now: strings.Split(v.String(), "\n")}}
	}
	var items []string
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			items = append(items, leaf(v.Index(i)))
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			items = append(items, key.String()+": "+leaf(v.MapIndex(key)))
		}
	default:
		items = []string{leaf(v)}
	}
	if len(items) == 0 {
		return nil
	}
	return []FieldChange{{Field: name, Now: items}}
}

// leaf returns a value as one text.
func leaf(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return v.String()
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		panic(err) // a Plan holds nothing that JSON cannot say
	}
	return strings.Trim(string(text), `"`)
}
