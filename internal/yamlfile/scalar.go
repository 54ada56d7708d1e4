package yamlfile

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/bouldermgr/manager/internal/text"
)

// scalar says how to read a one-line value, and what an editor is told about it.
type scalar struct {
	wanted, do string // in messages
	schema     *jsonschema.Schema
	read       func(text string) (value any, valid bool)
}

// scalarOf returns the scalar of a type, with the option in its field's tag:
//
//	off      the word off stands for -1 in a whole number, and for 0 in everything else
//	count    1500, 200k or 2M
//	dollars  5, 0.50 or $5
//	share    from 0 to 1, or off
//
// A string type with a method Words accepts only these words, and so do the texts of such a list type. A whole number of
// 64 bits that is no count is a duration.
func scalarOf(t reflect.Type, option string) (s scalar) {
	is := &jsonschema.Schema{}
	s.schema = is
	words := wordsOf(t)
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[time.Time]():
		s.wanted, is.Type = "a time as 2026-01-31T12:00:00Z", "string"
		s.read = parsed(func(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) }, nil)
	case option == "count":
		s.wanted = "a number of at least 1 as 1500, 200k or 2M"
		is.Type, is.Minimum = "integer", new(1.0)
		s.schema = anyOf(&jsonschema.Schema{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)?[kKmMgG]?$`}, is)
		s.read = func(n string) (any, bool) { return text.ParseCount(n) }
	case option == "dollars": // a billion or more is a typo, and would not survive a round trip
		s.wanted = "an amount of US dollars of more than 0 as 5 or 0.50"
		is.Type, is.ExclusiveMinimum, is.Maximum = "number", new(0.0), new(1e9)
		s.schema = anyOf(&jsonschema.Schema{Type: "string", Pattern: `^\$?[0-9.]+$`}, is)
		s.read = parsed(number, func(n float64) bool { return n > 0 && n <= 1e9 })
	case option == "share":
		s.wanted, is.Type, is.Minimum, is.Maximum = "a number from 0 to 1 as 0.8", "number", new(0.0), new(1.0)
		s.read = parsed(number, func(n float64) bool { return n >= 0 && n <= 1 })
	case kind == reflect.Int64:
		s.wanted = "a duration of more than 0 as 90s, 10m or 1h30m"
		is.Type, is.Pattern = "string", `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`
		s.read = parsed(time.ParseDuration, func(period time.Duration) bool { return period > 0 })
	case kind == reflect.Float64:
		s.wanted, is.Type = "a number", "number"
		s.read = parsed(number, nil)
	case kind == reflect.Int:
		s.wanted, is.Type, is.Minimum = "a whole number of 0 or more", "integer", new(0.0)
		s.read = parsed(whole, func(n int64) bool { return n >= 0 })
	case kind == reflect.Bool:
		s.wanted, is.Type = "true or false", "boolean"
		s.read = func(text string) (any, bool) { return text == "true", text == "true" || text == "false" }
	case words != nil:
		s.oneOf(words)
	case strings.Contains(option, listWords):
		s.oneOf(strings.Split(option, listWords))
	case kind == reflect.String:
		s.wanted, s.do, is.Type = "a text", "write it as one text, between quotes if need be", "string"
		s.read = func(text string) (any, bool) { return text, true }
	default:
		panic("yamlfile: no way to read a " + t.String())
	}
	if option == "off" || option == "share" {
		s.orOff(t.Kind() == reflect.Int)
	}
	return s
}

// listWords joins the words of a list type in the option of its texts.
const listWords = "|"

func itemOption(list reflect.Type, option string) string {
	if words := wordsOf(list); words != nil {
		return strings.Join(words, listWords)
	}
	return option
}

// wordsOf returns the only words of a type; nil: it has none.
func wordsOf(t reflect.Type) []string {
	if limited, ok := reflect.Zero(t).Interface().(interface{ Words() []string }); ok {
		return limited.Words()
	}
	return nil
}

func number(text string) (float64, error) {
	return strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
}

func whole(text string) (int64, error) {
	return strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 32)
}

// parsed reads what parse accepts and fits allows; nil allows everything.
func parsed[T any](parse func(string) (T, error), fits func(T) bool) func(string) (any, bool) {
	return func(text string) (any, bool) {
		v, err := parse(text)
		return v, err == nil && (fits == nil || fits(v))
	}
}

func (s *scalar) oneOf(words []string) {
	last := len(words) - 1
	s.wanted = strings.Join(words[:last], ", ") + " or " + words[last]
	s.schema.Type = "string"
	for _, word := range words {
		s.schema.Enum = append(s.schema.Enum, word)
	}
	s.read = func(text string) (any, bool) { return text, slices.Contains(words, text) }
}

func (s *scalar) orOff(whole bool) {
	read := s.read
	s.wanted += ", or off"
	s.schema = anyOf(s.schema, &jsonschema.Schema{Const: new(any("off"))})
	s.read = func(text string) (any, bool) {
		switch {
		case text == "off" && whole:
			return -1, true
		case text == "off":
			return 0, true
		}
		return read(text)
	}
}

func anyOf(all ...*jsonschema.Schema) *jsonschema.Schema { return &jsonschema.Schema{AnyOf: all} }
