package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// wordOff switches a rule off, where that can be done.
const wordOff = "off"

// number is a whole number of the configuration, 0 or more. The library would cut 1.5 down to 1.
type number struct {
	set bool
	n   int
}

// UnmarshalYAML reads it.
func (x *number) UnmarshalYAML(node ast.Node) error {
	text, ok := scalarText(node)
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 32)
	if !ok || err != nil || n < 0 {
		return wrongValue(node, "a whole number of 0 or more")
	}
	*x = number{set: true, n: int(n)}
	return nil
}

// into overwrites a default.
func (x number) into(to *int) {
	if x.set {
		*to = x.n
	}
}

// threshold is a [number] or `off`, which is negative.
type threshold struct{ number }

// UnmarshalYAML reads it.
func (x *threshold) UnmarshalYAML(node ast.Node) error {
	if text, ok := scalarText(node); ok && text == wordOff {
		x.number = number{set: true, n: -1}
		return nil
	}
	if x.number.UnmarshalYAML(node) != nil {
		return wrongValue(node, "a whole number of 0 or more, or off")
	}
	return nil
}

// commands are shell commands: one, or a list. An empty list says that there are none.
type commands struct {
	set  bool
	list []string
}

// UnmarshalYAML reads them.
func (x *commands) UnmarshalYAML(node ast.Node) error {
	items := []ast.Node{node}
	if list, ok := node.(*ast.SequenceNode); ok {
		items = list.Values
	}
	*x = commands{set: true}
	for _, item := range items {
		text, ok := scalarText(item)
		if !ok || strings.TrimSpace(text) == "" {
			return wrongValue(node, "a command as `go test ./...`, or a list of them")
		}
		x.list = append(x.list, text)
	}
	return nil
}

// period is a duration of the configuration, more than 0.
type period time.Duration

// UnmarshalYAML reads it.
func (x *period) UnmarshalYAML(node ast.Node) error {
	text, ok := scalarText(node)
	d, err := time.ParseDuration(text)
	if !ok || err != nil || d <= 0 {
		return wrongValue(node, "a duration of more than 0 as 90s, 10m or 1h30m")
	}
	*x = period(d)
	return nil
}

// into overwrites a default.
func (x period) into(to *time.Duration) {
	if x > 0 {
		*to = time.Duration(x)
	}
}

// deadline is a [period] or `off`, which is 0.
type deadline struct {
	period
	off bool
}

// UnmarshalYAML reads it.
func (x *deadline) UnmarshalYAML(node ast.Node) error {
	*x = deadline{}
	if text, ok := scalarText(node); ok && text == wordOff {
		x.off = true
		return nil
	}
	if x.period.UnmarshalYAML(node) != nil {
		return wrongValue(node, "a duration of more than 0 as 90s, 10m or 1h30m, or off")
	}
	return nil
}

// into overwrites a default.
func (x deadline) into(to *time.Duration) {
	x.period.into(to)
	if x.off {
		*to = 0
	}
}

// pattern is a regular expression.
type pattern struct{ *regexp.Regexp }

// UnmarshalYAML reads it.
func (x *pattern) UnmarshalYAML(node ast.Node) error {
	text, ok := scalarText(node)
	if !ok {
		return wrongValue(node, "a regular expression")
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return &valueError{fmt.Sprintf("must be a regular expression of Go: %v", err), node.GetToken()}
	}
	x.Regexp = compiled
	return nil
}

// quantity is an amount of tokens or calls of a budget: 1500, 200k, 2M.
type quantity int64

// UnmarshalYAML reads it.
func (x *quantity) UnmarshalYAML(node ast.Node) error {
	text, ok := scalarText(node)
	n, err := amount(text)
	if !ok || err != nil {
		return wrongValue(node, "a number of at least 1 as 1500, 200k or 2M")
	}
	*x = quantity(n)
	return nil
}

// dollars is an amount of money, more than 0.
type dollars float64

// UnmarshalYAML reads it.
func (x *dollars) UnmarshalYAML(node ast.Node) error {
	text, ok := scalarText(node)
	n, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	if !ok || err != nil || !(n > 0 && n < math.MaxInt32) {
		return wrongValue(node, "an amount of US dollars of more than 0 as 5 or 0.50")
	}
	*x = dollars(n)
	return nil
}

// share is a part of the whole, from 0 to 1, or `off`, which is 0.
type share struct {
	set bool
	f   float64
}

// UnmarshalYAML reads it.
func (x *share) UnmarshalYAML(node ast.Node) error {
	text, ok := scalarText(node)
	if ok && text == wordOff {
		*x = share{set: true}
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || !(f >= 0 && f <= 1) {
		return wrongValue(node, "a number from 0 to 1 as 0.8")
	}
	*x = share{set: true, f: f}
	return nil
}

func (x share) into(to *float64) {
	if x.set {
		*to = x.f
	}
}

// scalarText is the text of a value that is no list and no mapping.
func scalarText(node ast.Node) (string, bool) {
	switch node.(type) {
	case *ast.SequenceNode, *ast.MappingNode, *ast.MappingValueNode:
		return "", false
	}
	return strings.TrimSpace(node.GetToken().Value), true
}

// valueError is a value of the wrong kind, and where it stands.
type valueError struct {
	what string // without the name of the key: "must be …"
	at   *token.Token
}

func (e *valueError) Error() string { return "this " + e.what }

func wrongValue(node ast.Node, wanted string) error {
	return &valueError{fmt.Sprintf("must be %s, not %s", wanted, found(node.GetToken(), node.Type())), node.GetToken()}
}

// found says what stands where something else is wanted.
func found(at *token.Token, kind ast.NodeType) string {
	switch kind {
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "keys and values"
	case ast.NullType:
		return "nothing"
	}
	return strconv.Quote(clipText(at.Value, 60))
}

// configFault tells what is wrong with a configuration file, where, and with the lines around it, in words for people
// who write YAML and not Go.
func configFault(path string, data []byte, err error) error {
	what, at := "", (*token.Token)(nil)
	named := func() string { return cmp.Or(keyAt(data, at), "this") + " " }
	var value *valueError
	var wrongType *yaml.TypeError
	var wrongNode *yaml.UnexpectedNodeTypeError
	var unknown *yaml.UnknownFieldError
	var overflow *yaml.OverflowError
	switch {
	case errors.As(err, &value):
		at = value.at
		what = named() + value.what
	case errors.As(err, &wrongType):
		at = wrongType.Token
		what = named() + fmt.Sprintf("must be %s, not %s", kindWords(wrongType.DstType), foundType(at, wrongType.SrcType))
	case errors.As(err, &wrongNode):
		at = wrongNode.Token
		what = named() + fmt.Sprintf("must be %s, not %s", nodeWords(wrongNode.Expected), found(at, wrongNode.Actual))
	case errors.As(err, &unknown):
		at = unknown.Token
		what = unknownKey(keyAt(data, at), at.Value)
	case errors.As(err, &overflow):
		at = overflow.Token
		what = named() + "is too large"
	default:
		return usagef("configuration %s: %s", path, yaml.FormatError(err, false, true))
	}
	return usagef("configuration %s: %s", path, yaml.FormatErrorWithToken(what, at, false, true))
}

// kindWords names what a Go type is written as.
func kindWords(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindWords(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "keys and values"
	}
	return "a text"
}

func foundType(at *token.Token, t reflect.Type) string {
	if t == nil {
		return "nothing"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "keys and values"
	}
	return found(at, ast.StringType)
}

func nodeWords(kind ast.NodeType) string {
	switch kind {
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "keys and values"
	}
	return "a single value"
}
