package blockers

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

const softJSON = `{"category":"question","question":"Which?","context":"Two names.","blocks_progress":false,` +
	`"options":["a","b","c"],"chosen_option":"b","chosen_reasoning":"shorter"}`

const hardJSON = `{"category":"security","question":"May it be stored?","context":"A token.","blocks_progress":true}`

// The seed's field names are accepted as well.
func TestReadCamelCase(t *testing.T) {
	t.Parallel()
	ours, err := ReadInput(json.RawMessage(softJSON))
	if err != nil {
		t.Fatal(err)
	}
	camel := strings.NewReplacer("blocks_progress", "blocksProgress", "chosen_option", "chosenOption",
		"chosen_reasoning", "chosenReasoning").Replace(softJSON)
	if got, err := ReadInput(json.RawMessage(camel)); err != nil || !reflect.DeepEqual(got, ours) {
		t.Errorf("%s is read as %+v, %v", camel, got, err)
	}
}

// changed returns the valid soft call with other fields. A nil value removes the field.
func changed(fields map[string]any) string {
	var call map[string]any
	if err := json.Unmarshal([]byte(softJSON), &call); err != nil {
		panic(err)
	}
	for name, value := range fields {
		if call[name] = value; value == nil {
			delete(call, name)
		}
	}
	data, err := json.Marshal(call)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Every missing or wrong field is named once, with a hint for the agent.
func TestReadInput(t *testing.T) {
	t.Parallel()
	const (
		oneOf   = "Must be one of: permission, architecture, security, destructive, question, other"
		ask     = "question is missing: say what the user has to decide."
		explain = "context is missing: say what the user, who has not seen your work, has to know to answer."
		blocks  = "blocks_progress is missing: true if you must not decide this yourself, false if you have chosen one of the " +
			"options and go on with it."
		fields = "category, question, context, blocks_progress, options, chosen_option, chosen_reasoning"
		none   = "chosen_option is none of the options: repeat one of them word for word."
	)
	with := func(name string, value any) string { return changed(map[string]any{name: value}) }
	long := func(extra int) string {
		return changed(map[string]any{
			"question": strings.Repeat("é", 2000+extra), "context": strings.Repeat("c", 10_000+extra),
			"chosen_reasoning": strings.Repeat("r", 4000+extra),
		})
	}
	nothing := []string{"category is missing. " + oneOf, ask, explain, blocks}
	noObject := "The arguments have to be a JSON object with the fields " + fields + "."
	for arguments, want := range map[string][]string{
		softJSON: nil, hardJSON: nil, with("blocks_progress", true): nil, long(0): nil,
		strings.Replace(hardJSON, "}", `,"options":null,"chosen_option":null}`, 1):          nil,
		changed(map[string]any{"chosen_option": "a  b", "options": []string{"c", " a\nb"}}): nil,

		``: nothing, `null`: nothing,
		`"text"`: {noObject}, `[{}]`: {noObject},
		with("category", "Other"): {"Invalid category. " + oneOf}, // seed 003
		changed(map[string]any{"question": " \n", "context": "\x00\t"}): {ask, explain},
		with("question", []string{"Which?"}): {
			"question has to be a string, and not a list with other things in it.",
		},
		with("blocks_progress", "no"):   {"blocks_progress has to be true or false, and not a string."},
		with("blocks_progress", 0):      {"blocks_progress has to be true or false, and not a number."},
		with("options", "a, b, c"):      {"options has to be a list of strings, and not a string."},
		with("options", []any{"a", 2}):  {"options has to be a list of strings, and not a list with other things in it."},
		with("extra", map[string]any{}): {`There is no field "extra". The fields are ` + fields + "."},
		changed(map[string]any{"blocksProgres": true, "blocks_progress": nil}): {
			`There is no field "blocksProgres". Did you mean blocks_progress?`, blocks,
		},
		changed(map[string]any{"blocksProgress": true, "blocks_progress": nil}): nil,
		changed(map[string]any{"blocksProgress": true}): {
			`There is no field "blocksProgress". Did you mean blocks_progress?`,
		},
		long(1): {
			"question has 2001 characters and may have 2000: shorten it, or put the rest into a file and name that.",
			"context has 10001 characters and may have 10000: shorten it, or put the rest into a file and name that.",
			"chosen_reasoning has 4001 characters and may have 4000: shorten it, or put the rest into a file and name that.",
		},
		changed(map[string]any{"options": nil, "chosen_option": nil, "chosen_reasoning": nil}): {
			"options is missing: with blocks_progress false give the options that you found, best three.",
			"chosen_option is missing: with blocks_progress false give the option that you go on with.",
			"chosen_reasoning is missing: say why you chose this option.",
		},
		with("options", []string{"b"}): {"options has one entry: with blocks_progress false give at least two, best three."},
		with("options", strings.Split("a b c d e f g h i j k", " ")): {
			"options has 11 entries and may have 10: leave the weakest ones out.",
		},
		with("options", []string{"a", "b", " ", "a ", strings.Repeat("o", 501)}): {
			"options: entry 3 is empty.", "options: entries 1 and 4 are the same.",
			"options: entry 5 has 501 characters and may have 500.",
		},
		with("chosen_option", "d"): {none}, changed(map[string]any{"blocks_progress": true, "options": nil}): {none},
	} {
		in, err := ReadInput(json.RawMessage(arguments))
		var got []string
		if invalid, ok := errors.AsType[*InputError](err); ok {
			got = invalid.Problems
		}
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want == nil) {
			t.Errorf("%s: %v (-want +got):\n%s", arguments, err, diff)
		}
		if err == nil && (checkInput(in, &in.Hard, nil, nil) != nil || in.Question == "" || in.Context == "" ||
			in.Category == "") {
			t.Errorf("%s was read as %+v", arguments, in)
		}
	}
	want := softInput("Which?")
	want.Context, want.Options, want.ChosenOption, want.ChosenReasoning = "Two names.", []string{"a", "b", "c"}, "b", "shorter"
	if in, err := ReadInput(json.RawMessage(softJSON)); err != nil || !cmp.Equal(in, want) {
		t.Errorf("%+v, %v", in, err)
	}
}

// Control characters and bidirectional overrides are not stored.
func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		" a\r\nb\rc\td ": "a\nb\nc\td", "a\x1b[31mred\x07": "a[31mred", "a\u202eb\u2066c": "abc", "\xff\xfe": "\uFFFD",
		"é 漢字 🙂": "é 漢字 🙂", "a\u0085b": "ab",
	} {
		if got := clean(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// Ids come from programs. A scope with too few of them is refused, since it could be mistaken for another.
func TestCheckScope(t *testing.T) {
	t.Parallel()
	for s, good := range map[boulder.BlockerScope]bool{
		{SessionID: "opencode 4711"}: true, scope: true,
		{}: false, {BoulderID: "b", SubTaskID: "s", Attempt: 1}: false, {SessionID: "a\x00b"}: false,
		{SessionID: strings.Repeat("s", 201)}: false, {SessionID: "s", BoulderID: "b"}: false,
		{SessionID: "s", SubTaskID: "t"}: false,
		{SessionID: "\xff"}:              false, {SessionID: "s", BoulderID: "b", SubTaskID: "t", Attempt: -1}: false,
	} {
		if err := checkScope(s); (err == nil) != good {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// Arguments either pass the register's own check, or are refused with a readable text.
func FuzzReadInput(f *testing.F) {
	for _, seed := range []string{
		softJSON, hardJSON, ``, `{}`, `[]`, `{"a\u0000b":1}`, `{"options":[null]}`, `{"question":1e999}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, arguments []byte) {
		in, err := ReadInput(arguments)
		invalid, refused := errors.AsType[*InputError](err)
		switch said := fmt.Sprint(err); {
		case err == nil && checkInput(in, &in.Hard, nil, nil) != nil:
			t.Fatal("accepted, and then refused")
		case err != nil && (!refused || len(invalid.Problems) == 0 || !utf8.ValidString(said) || strings.ContainsRune(said, 0)):
			t.Fatalf("refused with %#v", err)
		}
	})
}
