package blockers

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// How long texts may be, in characters. A person reads them in the morning, one after another: a question that needs more
// than a page, or more background than some pages, is better put into a file that it names. The agent is told, and shortens
// it; nothing is cut of what it says.
const (
	maxQuestion  = 2_000
	maxContext   = 10_000
	maxOptions   = 10
	maxOption    = 500
	maxReasoning = 4_000
	maxAnswer    = 4_000 // what an order takes to a boulder, see boulder.Order
	maxID        = 200
)

// Input is what an agent calls the tool with (seed 003, FR-003).
type Input struct {
	Category        string   `json:"category"` // one of [boulder.BlockerCategories]
	Question        string   `json:"question"` // at most 2,000 characters
	Context         string   `json:"context"`  // at most 10,000 characters
	BlocksProgress  *bool    `json:"blocks_progress"`
	Options         []string `json:"options,omitempty"` // at most 10 of 500 characters; 2 at least if nothing is blocked
	ChosenOption    string   `json:"chosen_option,omitempty"`
	ChosenReasoning string   `json:"chosen_reasoning,omitempty"` // at most 4,000 characters
}

// Check reports everything that is wrong as an [*InputError].
func (in Input) Check() error {
	in = in.tidy()
	var e InputError
	add := func(field, format string, args ...any) {
		e.Problems = append(e.Problems, FieldError{field, fmt.Sprintf(format, args...)})
	}
	text := func(field, value, what string, limit int) {
		if value == "" {
			add(field, "%s is missing: %s.", field, what)
		} else if n := utf8.RuneCountInString(value); n > limit {
			add(field, "%s has %d characters and may have %d: shorten it, or put the rest into a file and name that.",
				field, n, limit)
		}
	}
	categories := categoryList()
	switch {
	case in.Category == "":
		add("category", "category is missing. Must be one of: %s", categories)
	case !slices.Contains(boulder.BlockerCategories(), boulder.BlockerCategory(in.Category)):
		add("category", "Invalid category. Must be one of: %s", categories)
	}
	text("question", in.Question, "say what a person has to decide", maxQuestion)
	text("context", in.Context, "say what a person has to know to answer, who has not seen your work", maxContext)
	if in.BlocksProgress == nil {
		add("blocks_progress", "blocks_progress is missing: true if you must not decide this yourself, "+
			"false if you have chosen one of the options and go on with it.")
	}
	in.checkOptions(add)
	if in.BlocksProgress != nil && !*in.BlocksProgress {
		text("chosen_reasoning", in.ChosenReasoning, "say why you chose this option", maxReasoning)
	} else if in.ChosenReasoning != "" {
		text("chosen_reasoning", in.ChosenReasoning, "", maxReasoning)
	}
	if len(e.Problems) > 0 {
		return &e
	}
	return nil
}

func (in Input) checkOptions(add func(field, format string, args ...any)) {
	soft := in.BlocksProgress != nil && !*in.BlocksProgress
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
	_, known := seen[text.Fold(in.ChosenOption)]
	switch {
	case soft && in.ChosenOption == "":
		add("chosen_option", "chosen_option is missing: with blocks_progress false give the option that you go on with.")
	case in.ChosenOption != "" && !known:
		add("chosen_option", "chosen_option is none of the options: repeat one of them word for word.")
	}
}

func categoryList() string {
	var names []string
	for _, c := range boulder.BlockerCategories() {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}

// tidy is the input as it is checked and stored.
func (in Input) tidy() Input {
	in.Category = strings.TrimSpace(in.Category)
	in.Question, in.Context = clean(in.Question), clean(in.Context)
	in.ChosenOption, in.ChosenReasoning = clean(in.ChosenOption), clean(in.ChosenReasoning)
	in.Options = slices.Clone(in.Options)
	for i, o := range in.Options {
		in.Options[i] = clean(o)
	}
	return in
}

// clean leaves out what no text is made of: control characters, those that turn the direction of text around, invalid
// UTF-8, and space at the ends. Lines and tabs stay.
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

// checkScope refuses ids that could be taken for others, or that no program gives.
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
