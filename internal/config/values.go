package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/internal/yamlfile"
)

// wordOff switches a rule off, where that can be done.
const wordOff = "off"

// setting is a value that overwrites a default.
type setting struct{ value any } // nil: the file does not name it

func (s setting) into(to reflect.Value) {
	if s.value != nil {
		to.Set(reflect.ValueOf(s.value).Convert(to.Type()))
	}
}

// overlay overwrites the fields of a struct with the settings of the same name in another one.
func overlay(settings, to any) {
	from, target := reflect.ValueOf(settings), reflect.ValueOf(to).Elem()
	for _, f := range reflect.VisibleFields(from.Type()) {
		if s, ok := from.FieldByIndex(f.Index).Interface().(interface{ into(reflect.Value) }); ok {
			s.into(target.FieldByName(f.Name))
		}
	}
}

// number is a whole number, 0 or more.
type number struct{ setting }

// ReadYAML reads it.
func (x *number) ReadYAML(v yamlfile.Value) error {
	text, ok := v.Text()
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 32)
	if !ok || err != nil || n < 0 {
		return yamlfile.Wanted("a whole number of 0 or more")
	}
	x.value = int(n)
	return nil
}

// threshold is a [number] or `off`, which is negative.
type threshold struct{ number }

// ReadYAML reads it.
func (x *threshold) ReadYAML(v yamlfile.Value) error {
	if text, _ := v.Text(); text == wordOff {
		x.value = -1
	} else if x.number.ReadYAML(v) != nil {
		return yamlfile.Wanted("a whole number of 0 or more, or off")
	}
	return nil
}

// period is a [yamlfile.Period] that overwrites a default.
type period struct{ setting }

// ReadYAML reads it.
func (x *period) ReadYAML(v yamlfile.Value) error {
	var d yamlfile.Period
	if err := d.ReadYAML(v); err != nil {
		return err
	}
	x.value = time.Duration(d)
	return nil
}

// deadline is a [period] or `off`, which is 0.
type deadline struct{ period }

// ReadYAML reads it.
func (x *deadline) ReadYAML(v yamlfile.Value) error {
	if text, _ := v.Text(); text == wordOff {
		x.value = time.Duration(0)
	} else if err := x.period.ReadYAML(v); err != nil {
		return yamlfile.Wanted(err.Error() + ", or off")
	}
	return nil
}

// share is a part of the whole, from 0 to 1, or `off`, which is 0.
type share struct{ setting }

// ReadYAML reads it.
func (x *share) ReadYAML(v yamlfile.Value) error {
	text, ok := v.Text()
	if text == wordOff {
		text = "0"
	}
	f, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || !(f >= 0 && f <= 1) {
		return yamlfile.Wanted("a number from 0 to 1 as 0.8")
	}
	x.value = f
	return nil
}

// pattern is a regular expression.
type pattern struct{ *regexp.Regexp }

// ReadYAML reads it.
func (x *pattern) ReadYAML(v yamlfile.Value) error {
	text, ok := v.Text()
	if !ok {
		return yamlfile.Wanted("a regular expression")
	}
	var err error
	if x.Regexp, err = regexp.Compile(text); err != nil {
		return fmt.Errorf("a regular expression of Go: %w", err)
	}
	return nil
}

// Commands are shell commands: one, or a list.
type Commands struct {
	Set  bool // the file names them; an empty list says that there are none
	List []string
}

// ReadYAML reads them.
func (x *Commands) ReadYAML(v yamlfile.Value) error {
	items, ok := v.List()
	if !ok {
		items = []yamlfile.Value{v}
	}
	*x = Commands{Set: true}
	for _, item := range items {
		text, ok := item.Text()
		if !ok || strings.TrimSpace(text) == "" {
			return yamlfile.Wanted("a command as `go test ./...`, or a list of them")
		}
		x.List = append(x.List, text)
	}
	return nil
}

// commandLine is a program with its arguments.
type commandLine []string

// ReadYAML reads a list, or a line for the shell.
func (x *commandLine) ReadYAML(v yamlfile.Value) error {
	const wanted = yamlfile.Wanted("a command as [notify-send, manager], or a line for the shell")
	items, isList := v.List()
	if !isList {
		line, ok := v.Text()
		if !ok {
			return wanted
		}
		*x = nil
		if line != "" { // else: none, in a project's file over a person's
			*x = commandLine{"sh", "-c", line}
		}
		return nil
	}
	*x = commandLine{}
	for _, item := range items {
		word, ok := item.Text()
		if !ok {
			return wanted
		}
		*x = append(*x, word)
	}
	return nil
}

// action is what becomes of an ask.
type action blockers.Action

// ReadYAML reads it.
func (x *action) ReadYAML(v yamlfile.Value) error {
	text, _ := v.Text()
	switch *x = action(text); blockers.Action(text) {
	case blockers.Allow, blockers.Deny, blockers.AskMe:
		return nil
	}
	return yamlfile.Wanted("allow, deny or ask")
}
