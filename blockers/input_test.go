package blockers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Every field that is missing or wrong has a message of its own, in the words that the agent gets.
func TestCheckNamesEveryProblem(t *testing.T) {
	t.Parallel()
	const oneOf = "Must be one of: permission, architecture, security, destructive, question, other"
	for name, c := range map[string]struct {
		change func(*Input)
		want   []string
	}{
		"nothing at all": {func(in *Input) { *in = Input{} }, []string{
			"category is missing. " + oneOf,
			"question is missing: say what a person has to decide.",
			"context is missing: say what a person has to know to answer, who has not seen your work.",
			"blocks_progress is missing: true if you must not decide this yourself, false if you have chosen one of the " +
				"options and go on with it.",
		}},
		// The seed's words.
		"unknown category": {func(in *Input) { in.Category = "Other" }, []string{"Invalid category. " + oneOf}},
		"blank texts": {func(in *Input) { in.Question, in.Context = " \n", "\x00\t" }, []string{
			"question is missing: say what a person has to decide.",
			"context is missing: say what a person has to know to answer, who has not seen your work.",
		}},
		"long texts": {func(in *Input) {
			in.Question, in.Context = strings.Repeat("é", 2001), strings.Repeat("c", 10_001)
			in.ChosenReasoning = strings.Repeat("r", 4001)
		}, []string{
			"question has 2001 characters and may have 2000: shorten it, or put the rest into a file and name that.",
			"context has 10001 characters and may have 10000: shorten it, or put the rest into a file and name that.",
			"chosen_reasoning has 4001 characters and may have 4000: shorten it, or put the rest into a file and name that.",
		}},
		"texts as long as they may be": {func(in *Input) {
			in.Question, in.Context = strings.Repeat("é", 2000), strings.Repeat("c", 10_000)
			in.ChosenReasoning = strings.Repeat("r", 4000)
		}, nil},
		"soft without a choice": {func(in *Input) { in.Options, in.ChosenOption, in.ChosenReasoning = nil, "", "" }, []string{
			"options is missing: with blocks_progress false give the options that you found, best three.",
			"chosen_option is missing: with blocks_progress false give the option that you go on with.",
			"chosen_reasoning is missing: say why you chose this option.",
		}},
		"one option": {func(in *Input) { in.Options = in.Options[1:2] }, []string{
			"options has one entry: with blocks_progress false give at least two, best three.",
		}},
		"eleven options": {func(in *Input) {
			for i := range 8 {
				in.Options = append(in.Options, fmt.Sprint(i))
			}
		}, []string{"options has 11 entries and may have 10: leave the weakest ones out."}},
		"options that are none": {func(in *Input) {
			in.Options = append(in.Options, " ", "first ", strings.Repeat("o", 501))
		}, []string{
			"options: entry 4 is empty.", "options: entries 1 and 5 are the same.",
			"options: entry 6 has 501 characters and may have 500.",
		}},
		"a choice of something else": {func(in *Input) { in.ChosenOption = "fourth" }, []string{
			"chosen_option is none of the options: repeat one of them word for word.",
		}},
		"a choice with other white space": {func(in *Input) { in.Options[1], in.ChosenOption = "a  b", " a\nb" }, nil},
		"hard without a choice":           {func(in *Input) { *in = hardInput("Which?") }, nil},
		"hard with a proposal":            {func(in *Input) { in.BlocksProgress = ptr(true) }, nil},
		"hard with a proposal of something else": {func(in *Input) {
			in.BlocksProgress, in.Options = ptr(true), nil
		}, []string{"chosen_option is none of the options: repeat one of them word for word."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := softInput("Which?")
			c.change(&in)
			var got []string
			err := in.Check()
			if e, ok := errors.AsType[*InputError](err); ok {
				for _, p := range e.Problems {
					got = append(got, p.Problem)
					if !strings.HasPrefix(p.Problem, p.Field) && p.Problem != "Invalid category. "+oneOf {
						t.Errorf("%q does not name %s", p.Problem, p.Field)
					}
				}
				if err.Error() != strings.Join(got, "\n") {
					t.Errorf("the error says %q", err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What is wrong in one field is said of that field, whatever the others are; and what Check lets through can be recorded.
func TestCheckOfAnything(t *testing.T) {
	t.Parallel()
	words := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " ", "a", "b", "a ", "\x00", "\u202e", "\xff"}))
	fields := []string{"category", "question", "context", "blocks_progress", "options", "chosen_option", "chosen_reasoning"}
	rapid.Check(t, func(t *rapid.T) {
		in := Input{
			Category: rapid.SampledFrom([]string{"security", "other", "Security", ""}).Draw(t, "category"),
			Question: words.Draw(t, "question"), Context: words.Draw(t, "context"),
			BlocksProgress: rapid.Ptr(rapid.Bool(), true).Draw(t, "blocks"),
			Options:        rapid.SliceOfN(words, 0, 12).Draw(t, "options"),
			ChosenOption:   words.Draw(t, "chosen"), ChosenReasoning: words.Draw(t, "reasoning"),
		}
		err := in.Check()
		if err == nil {
			tidy := in.tidy()
			soft := !*in.BlocksProgress
			if tidy.Question == "" || tidy.Context == "" || soft && (len(tidy.Options) < 2 || tidy.ChosenReasoning == "") ||
				soft && !slices.ContainsFunc(tidy.Options, func(o string) bool { return text.Fold(o) == text.Fold(tidy.ChosenOption) }) {
				t.Fatalf("let through: %+v", in)
			}
			if again := tidy.Check(); again != nil {
				t.Fatalf("what is stored would be refused: %v", again)
			}
			return
		}
		e, ok := errors.AsType[*InputError](err)
		if !ok || len(e.Problems) == 0 {
			t.Fatalf("%v", err)
		}
		last := 0
		for _, p := range e.Problems {
			at := slices.Index(fields, p.Field)
			if at < last {
				t.Fatalf("%q is out of order in %v", p.Field, err)
			}
			last = at
		}
	})
}

// Nothing that turns a terminal or a reader's eye around is stored.
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

// Ids come from programs: what none of them gives is refused, since it could be taken for another one's.
func TestCheckScope(t *testing.T) {
	t.Parallel()
	for _, s := range []boulder.BlockerScope{
		{}, {BoulderID: "b", SubTaskID: "s", Attempt: 1}, {SessionID: "a\x00b"}, {SessionID: strings.Repeat("s", 201)},
		{SessionID: "s", BoulderID: "b"}, {SessionID: "s", SubTaskID: "t"}, {SessionID: "\xff"},
		{SessionID: "s", BoulderID: "b", SubTaskID: "t", Attempt: -1},
	} {
		if err := checkScope(s); err == nil {
			t.Errorf("%+v is let through", s)
		}
	}
	for _, s := range []boulder.BlockerScope{{SessionID: "opencode 4711"}, scope} {
		if err := checkScope(s); err != nil {
			t.Error(err)
		}
	}
}

const softJSON = `{"category":"question","question":"Which?","context":"Two names.","blocks_progress":false,` +
	`"options":["a","b","c"],"chosen_option":"b","chosen_reasoning":"shorter"}`

const hardJSON = `{"category":"security","question":"May it be stored?","context":"A token.","blocks_progress":true}`

func TestReadInput(t *testing.T) {
	t.Parallel()
	in, err := ReadInput(json.RawMessage(softJSON))
	if err != nil || in.Category != "question" || in.Question != "Which?" || in.Context != "Two names." ||
		in.BlocksProgress == nil || *in.BlocksProgress || !slices.Equal(in.Options, []string{"a", "b", "c"}) ||
		in.ChosenOption != "b" || in.ChosenReasoning != "shorter" {
		t.Errorf("read %+v, %v", in, err)
	}
	for _, arguments := range []string{hardJSON, strings.Replace(hardJSON, "}", `,"options":null,"chosen_option":null}`, 1)} {
		if in, err := ReadInput(json.RawMessage(arguments)); err != nil || !*in.BlocksProgress || in.Options != nil {
			t.Errorf("%s was read as %+v, %v", arguments, in, err)
		}
	}
}

// Each field that is wrong is named once, with what it has to be.
func TestReadInputNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	with := func(old, replacement string) string { return strings.Replace(softJSON, old, replacement, 1) }
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
		_, err := ReadInput(json.RawMessage(c.arguments))
		invalid, ok := errors.AsType[*InputError](err)
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
		softJSON, hardJSON, ``, `{}`, `[]`, `{"a\u0000b":1}`, `{"options":[null]}`, `{"question":1e999}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, arguments []byte) {
		in, err := ReadInput(arguments)
		if err == nil {
			if err := in.Check(); err != nil {
				t.Fatalf("accepted, and then refused: %v", err)
			}
			return
		}
		invalid, ok := errors.AsType[*InputError](err)
		if !ok || len(invalid.Problems) == 0 || !utf8.ValidString(err.Error()) || strings.ContainsRune(err.Error(), 0) {
			t.Fatalf("refused with %#v", err)
		}
	})
}
