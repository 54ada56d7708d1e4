package mcptool

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bouldermgr/manager/blockers"
)

const soft = `{"category":"question","question":"Which?","context":"Two names.","blocks_progress":false,` +
	`"options":["a","b","c"],"chosen_option":"b","chosen_reasoning":"shorter"}`

const hard = `{"category":"security","question":"May it be stored?","context":"A token.","blocks_progress":true}`

func TestReadInput(t *testing.T) {
	t.Parallel()
	in, err := readInput(json.RawMessage(soft))
	if err != nil || in.Category != "question" || in.Question != "Which?" || in.Context != "Two names." ||
		in.BlocksProgress == nil || *in.BlocksProgress || !slices.Equal(in.Options, []string{"a", "b", "c"}) ||
		in.ChosenOption != "b" || in.ChosenReasoning != "shorter" {
		t.Errorf("read %+v, %v", in, err)
	}
	for _, arguments := range []string{hard, strings.Replace(hard, "}", `,"options":null,"chosen_option":null}`, 1)} {
		if in, err := readInput(json.RawMessage(arguments)); err != nil || !*in.BlocksProgress || in.Options != nil {
			t.Errorf("%s was read as %+v, %v", arguments, in, err)
		}
	}
}

// Each field that is wrong is named once, with what it has to be.
func TestReadInputNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	with := func(old, replacement string) string { return strings.Replace(soft, old, replacement, 1) }
	for _, c := range []struct {
		arguments string
		fields    []string // of the problems
		says      string
	}{
		{``, []string{"category", "question", "context", "blocks_progress"}, "question is missing"},
		{`null`, []string{"category", "question", "context", "blocks_progress"}, "category is missing"},
		{`"text"`, []string{""}, "have to be a JSON object"},
		{`[{}]`, []string{""}, "have to be a JSON object"},
		{with(`"Which?"`, `["Which?"]`), []string{"question"}, "question has to be a string, and not a list"},
		{with(`"Which?"`, `null`), []string{"question"}, "question is missing"},
		{with(`false`, `"no"`), []string{"blocks_progress"}, "blocks_progress has to be true or false, and not a string"},
		{with(`false`, `0`), []string{"blocks_progress"}, "and not a number"},
		{with(`["a","b","c"]`, `"a, b, c"`), []string{"options"}, "options has to be a list of strings, and not a string"},
		{with(`["a","b","c"]`, `["a",2]`), []string{"options"}, "and not a list with other things"},
		{with(`"question":"Which?"`, `"question":"Which?","extra":{}`), []string{"extra"}, "There is no field \"extra\""},
		{with(`blocks_progress`, `blocksProgress`), []string{"blocksProgress", "blocks_progress"},
			"Did you mean blocks_progress?"},
		{with(`"chosen_reasoning"`, `"chosen_reason"`), []string{"chosen_reason", "chosen_reasoning"},
			"Did you mean chosen_reasoning?"},
		{with(`"category":"question"`, `"category":"naming"`), []string{"category"},
			"Invalid category. Must be one of: permission, architecture, security, destructive, question, other"},
	} {
		_, err := readInput(json.RawMessage(c.arguments))
		invalid, ok := errors.AsType[*blockers.InputError](err)
		if !ok {
			t.Errorf("%s: %v", c.arguments, err)
			continue
		}
		var fields []string
		for _, p := range invalid.Problems {
			fields = append(fields, p.Field)
		}
		if !slices.Equal(fields, c.fields) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: problems of %q, want %q and %q:\n%v", c.arguments, fields, c.fields, c.says, err)
		}
	}
}

// Whatever comes as arguments is either accepted by the desk's own check, or refused with a readable text.
func FuzzReadInput(f *testing.F) {
	for _, seed := range []string{
		soft, hard, ``, `{}`, `[]`, `{"a\u0000b":1}`, `{"options":[null]}`, `{"question":1e999}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, arguments []byte) {
		in, err := readInput(arguments)
		if err == nil {
			if err := in.Check(); err != nil {
				t.Fatalf("accepted, and then refused: %v", err)
			}
			return
		}
		invalid, ok := errors.AsType[*blockers.InputError](err)
		if !ok || len(invalid.Problems) == 0 || !utf8.ValidString(err.Error()) || strings.ContainsRune(err.Error(), 0) {
			t.Fatalf("refused with %#v", err)
		}
	})
}
