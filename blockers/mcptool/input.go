package mcptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/internal/text"
)

// field is a field of the tool's input: how it is read, and what it has to be.
type field struct {
	name string
	want string // what it has to be, in the words of an error
	into func(*blockers.Input) any
}

// fields are in the order in which agents are told of them.
var fields = []field{
	{"category", "a string", func(in *blockers.Input) any { return &in.Category }},
	{"question", "a string", func(in *blockers.Input) any { return &in.Question }},
	{"context", "a string", func(in *blockers.Input) any { return &in.Context }},
	{"blocks_progress", "true or false", func(in *blockers.Input) any { return &in.BlocksProgress }},
	{"options", "a list of strings", func(in *blockers.Input) any { return &in.Options }},
	{"chosen_option", "a string", func(in *blockers.Input) any { return &in.ChosenOption }},
	{"chosen_reasoning", "a string", func(in *blockers.Input) any { return &in.ChosenReasoning }},
}

// readInput reads the arguments of a call. What is wrong is told all at once in an [*blockers.InputError]: also what a
// well-formed call would be refused for, so that the agent has it right with the next one. A field that is null is not
// there, as models mean it.
func readInput(arguments json.RawMessage) (blockers.Input, error) {
	var in blockers.Input
	var given map[string]json.RawMessage
	if len(bytes.TrimSpace(arguments)) > 0 {
		if err := json.Unmarshal(arguments, &given); err != nil {
			return in, &blockers.InputError{Problems: []blockers.FieldError{{
				Problem: "The arguments have to be a JSON object with the fields " + names() + ".",
			}}}
		}
	}
	var wrong []blockers.FieldError
	for _, f := range fields {
		raw, there := given[f.name]
		delete(given, f.name)
		if !there || string(raw) == "null" {
			continue
		}
		if err := json.Unmarshal(raw, f.into(&in)); err != nil {
			wrong = append(wrong, blockers.FieldError{
				Field: f.name, Problem: fmt.Sprintf("%s has to be %s, and not %s.", f.name, f.want, kindOf(raw)),
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		wrong = append(wrong, blockers.FieldError{Field: name, Problem: unknown(name)})
	}
	var invalid *blockers.InputError
	err := in.Check()
	if !errors.As(err, &invalid) {
		if err == nil && len(wrong) > 0 {
			err = &blockers.InputError{Problems: wrong}
		}
		return in, err
	}
	misread := func(name string) bool {
		return slices.ContainsFunc(wrong, func(w blockers.FieldError) bool { return w.Field == name })
	}
	for _, p := range invalid.Problems {
		// Of a field that could not be read, and of a choice among options that could not be read, nothing more is known.
		if !misread(p.Field) && (p.Field != "chosen_option" || in.ChosenOption == "" || !misread("options")) {
			wrong = append(wrong, p)
		}
	}
	return in, &blockers.InputError{Problems: wrong}
}

func unknown(name string) string {
	shown := name
	if len(shown) > 60 {
		shown = shown[:60] + "…"
	}
	text := fmt.Sprintf("There is no field %q.", shown)
	if near := nearestField(name); near != "" {
		return text + " Did you mean " + near + "?"
	}
	return text + " The fields are " + names() + "."
}

// nearestField also knows blocksProgress, as the field is written elsewhere.
func nearestField(name string) string {
	folded := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
	var all []string
	for _, f := range fields {
		if strings.ReplaceAll(f.name, "_", "") == folded {
			return f.name
		}
		all = append(all, f.name)
	}
	return text.Nearest(name, all)
}

func names() string {
	var all []string
	for _, f := range fields {
		all = append(all, f.name)
	}
	return strings.Join(all, ", ")
}

// kindOf names what a value is, in the words of an error.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list with other things in it"
	case 't', 'f':
		return "true or false"
	default:
		return "a number"
	}
}
