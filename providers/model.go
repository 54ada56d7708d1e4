package providers

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
)

// maxModelRef bounds a reference, in bytes. The longest in OpenCode's catalogue is below 100.
const maxModelRef = 256

// ModelRef names a model as OpenCode writes it: "provider/model". The model may contain slashes
// ("openrouter/anthropic/claude-sonnet-4.5"). Any name is valid: vendors add and drop models monthly. Zero means none.
type ModelRef struct {
	Provider string
	Model    string
	Effort   string // of reasoning, as the provider names it; empty: the model's default
}

// ParseModel reads "provider/model". Both parts are required. Spaces and control characters are refused, so that a
// reference needs no quoting in a flag, a log line or a file name.
func ParseModel(s string) (ModelRef, error) {
	provider, model, found := strings.Cut(s, "/")
	switch {
	case s == "":
		return ModelRef{}, fmt.Errorf("no model named; write provider/model, for example openai/gpt-4o")
	case len(s) > maxModelRef:
		return ModelRef{}, fmt.Errorf("model reference of %d bytes is longer than %d", len(s), maxModelRef)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }):
		return ModelRef{}, fmt.Errorf("model reference %q contains spaces or unprintable characters", s)
	case !found:
		return ModelRef{}, fmt.Errorf("%q names no provider; write provider/model, for example openai/%s", s, s)
	case provider == "" || model == "":
		return ModelRef{}, fmt.Errorf("%q is half a model reference; write provider/model, for example openai/gpt-4o", s)
	case strings.Contains(s, "#"):
		return ModelRef{}, fmt.Errorf("%q names an effort, which only the models of sub-tasks and ledgers have", s)
	}
	return ModelRef{Provider: provider, Model: model}, nil
}

// CheckEffort refuses what cannot be the name of an effort. Which ones a model has, only its provider knows.
func CheckEffort(effort string) error {
	if effort == "" || len(effort) > maxModelRef || strings.ContainsFunc(effort, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(" ,#/", r) }) {
		return fmt.Errorf("%q is no effort; write a name of the model's, such as high, or %s", effort, boulder.DefaultEffort)
	}
	return nil
}

// CheckModels returns what is wrong in a list of models, by the place in it.
func CheckModels(models boulder.Models) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		all := models.All()
		for i, entry := range models.Entries() {
			name, effort, named := strings.Cut(entry, "#")
			_, err := ParseModel(name)
			if err == nil && named {
				err = CheckEffort(effort)
			}
			if err == nil && slices.Contains(all[:i], name) {
				err = fmt.Errorf("%s is named twice", name)
			}
			if err != nil && !yield(i, err) {
				return
			}
		}
	}
}

// ParseModels reads models as a flag names them: one, or several separated by commas. None is no error.
func ParseModels(s string) (boulder.Models, error) {
	models := boulder.Models(strings.ReplaceAll(s, ", ", ","))
	for _, err := range CheckModels(models) {
		return "", err
	}
	return models, nil
}

// String returns "provider/model", without the effort, or "" for the zero value.
func (r ModelRef) String() string {
	if r.IsZero() {
		return ""
	}
	return r.Provider + "/" + r.Model
}

// IsZero reports whether no model is named.
func (r ModelRef) IsZero() bool { return r == ModelRef{} }
