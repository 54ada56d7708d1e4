package blockers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Limits on an agent's texts, in characters. Nothing is cut: the agent is told to shorten the text or use a file.
const (
	maxQuestion  = boulder.MaxQuestion
	maxContext   = boulder.MaxContext
	maxOptions   = 10
	maxOption    = 500
	maxReasoning = 4_000
	maxAnswer    = 4_000 // the limit of an order, see boulder.Order
	maxID        = 200
)

// InputError lists what is wrong with a call of the tool, in words for the agent that made it.
type InputError struct {
	Problems []string // sentences, in the order of the tool's fields; at least one
}

func (e *InputError) Error() string { return strings.Join(e.Problems, "\n") }

// ReadInput reads the arguments of a tool call (seed 003, FR-003) for [Register.Raise]. An [*InputError] has all
// problems, so that the agent needs one more call only. A null field counts as missing, as models mean it.
func ReadInput(arguments json.RawMessage) (in boulder.Blocker, err error) {
	var blocks *bool
	fields := []struct {
		name, want string
		into       any
	}{
		{"category", "a string", &in.Category}, {"question", "a string", &in.Question}, {"context", "a string", &in.Context},
		{"blocks_progress", "true or false", &blocks}, {"options", "a list of strings", &in.Options},
		{"chosen_option", "a string", &in.ChosenOption}, {"chosen_reasoning", "a string", &in.ChosenReasoning},
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	known := strings.Join(names, ", ")
	var given map[string]json.RawMessage
	if len(bytes.TrimSpace(arguments)) > 0 && json.Unmarshal(arguments, &given) != nil {
		return in, &InputError{[]string{"The arguments have to be a JSON object with the fields " + known + "."}}
	}
	for camel, name := range camelCase {
		if raw, there := given[camel]; there && given[name] == nil {
			given[name] = raw
			delete(given, camel)
		}
	}
	var problems []string
	unread := map[string]bool{}
	for _, f := range fields {
		raw, there := given[f.name]
		delete(given, f.name)
		if there && json.Unmarshal(raw, f.into) != nil {
			unread[f.name] = true
			problems = append(problems,
				fmt.Sprintf("%s has to be %s, and not %s.", f.name, f.want, cmp.Or(kinds[raw[0]], "a number")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		hint := "The fields are " + known + "."
		if near := text.Nearest(name, names); near != "" {
			hint = "Did you mean " + near + "?"
		}
		problems = append(problems, fmt.Sprintf("There is no field %q. %s", text.Cut(name, 60), hint))
	}
	in.Hard = blocks != nil && *blocks
	return in, checkInput(in, blocks, problems, unread)
}

// camelCase maps the field names of seed 003 (FR-003), which are accepted too, to ours.
var camelCase = map[string]string{
	"blocksProgress": "blocks_progress", "chosenOption": "chosen_option", "chosenReasoning": "chosen_reasoning",
}

// kinds names the type of a JSON value by its first character; others are numbers.
var kinds = map[byte]string{
	'"': "a string", '{': "an object", '[': "a list with other things in it", 't': "true or false", 'f': "true or false",
}

// checkInput validates the fields that could be read, and returns problems and its own findings as an [*InputError].
func checkInput(in boulder.Blocker, blocks *bool, problems []string, unread map[string]bool) error {
	in.Options = slices.Clone(in.Options)
	for _, s := range texts(&in) {
		*s = clean(*s)
	}
	add := func(field, format string, args ...any) {
		if !unread[field] {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	length := func(field, value, missing string, limit int) {
		if n := utf8.RuneCountInString(value); n > limit {
			add(field, "%s has %d characters and may have %d: shorten it, or put the rest into a file and name that.",
				field, n, limit)
		} else if n == 0 && missing != "" {
			add(field, "%s is missing: %s.", field, missing)
		}
	}
	soft := blocks != nil && !*blocks
	categories := strings.Trim(strings.ReplaceAll(fmt.Sprint(boulder.BlockerCategories()), " ", ", "), "[]")
	if in.Category == "" {
		add("category", "category is missing. Must be one of: %s", categories)
	} else if !slices.Contains(boulder.BlockerCategories(), in.Category) {
		add("category", "Invalid category. Must be one of: %s", categories)
	}
	length("question", in.Question, "say what the user has to decide", maxQuestion)
	length("context", in.Context, "say what the user, who has not seen your work, has to know to answer", maxContext)
	if blocks == nil {
		add("blocks_progress", "blocks_progress is missing: true if you must not decide this yourself, "+
			"false if you have chosen one of the options and go on with it.")
	}
	switch n := len(in.Options); {
	case n > maxOptions:
		add("options", "options has %d entries and may have %d: leave the weakest ones out.", n, maxOptions)
	case soft && n == 0:
		add("options", "options is missing: with blocks_progress false give the options that you found, best three.")
	case soft && n == 1:
		add("options", "options has one entry: with blocks_progress false give at least two, best three.")
	}
	seen := map[string]int{}
	for i, o := range in.Options[:min(len(in.Options), maxOptions)] {
		first, twice := seen[text.Fold(o)]
		switch n := utf8.RuneCountInString(o); {
		case o == "":
			add("options", "options: entry %d is empty.", i+1)
		case n > maxOption:
			add("options", "options: entry %d has %d characters and may have %d.", i+1, n, maxOption)
		case twice:
			add("options", "options: entries %d and %d are the same.", first+1, i+1)
		default:
			seen[text.Fold(o)] = i
		}
	}
	_, chosen := seen[text.Fold(in.ChosenOption)]
	switch {
	case soft && in.ChosenOption == "":
		add("chosen_option", "chosen_option is missing: with blocks_progress false give the option that you go on with.")
	case in.ChosenOption != "" && !chosen && !unread["options"]:
		add("chosen_option", "chosen_option is none of the options: repeat one of them word for word.")
	}
	length("chosen_reasoning", in.ChosenReasoning, text.If(soft, "say why you chose this option"), maxReasoning)
	if len(problems) > 0 {
		return &InputError{problems}
	}
	return nil
}

// texts returns the texts of a blocker that come from outside.
func texts(b *boulder.Blocker) []*string {
	texts := []*string{(*string)(&b.Category), &b.Question, &b.Context, &b.ChosenOption, &b.ChosenReasoning}
	lists := [][]string{b.Options}
	if a := b.Ask; a != nil {
		texts, lists = append(texts, &a.Permission, &a.Tool, &a.Arguments, &a.RequestID), append(lists, a.Patterns)
	}
	for _, list := range lists {
		for i := range list {
			texts = append(texts, &list[i])
		}
	}
	return texts
}

// clean removes control characters but line breaks and tabs, bidirectional controls, and white space at both ends.
func clean(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return '\n'
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, s))
}

// checkScope refuses missing, overlong or unprintable ids, and incomplete scopes.
func checkScope(s boulder.BlockerScope) error {
	for name, id := range map[string]string{"session": s.SessionID, "boulder": s.BoulderID, "sub-task": s.SubTaskID} {
		if len(id) > maxID || strings.ContainsFunc(id, unicode.IsControl) || !utf8.ValidString(id) {
			return fmt.Errorf("a blocker's %s id is too long or has control characters in it", name)
		}
	}
	switch {
	case s.SessionID == "":
		return fmt.Errorf("a blocker needs the session that it is of")
	case (s.BoulderID == "") != (s.SubTaskID == "") || s.Attempt < 0:
		return fmt.Errorf("a blocker of a boulder needs its sub-task and attempt")
	}
	return nil
}
