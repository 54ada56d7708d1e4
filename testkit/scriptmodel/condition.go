package scriptmodel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// condition says which requests a rule answers: those that all of its fields match. An empty one matches everything
// except title requests and checks of a whole request, which match only by kind.
type condition struct {
	// Kind is agent, structured, facts, title, check or any. Defaults to any, which includes none of facts, title and check.
	Kind  Kind   `yaml:"kind"`
	Model string `yaml:"model"`
	// Effort is that of the request, or none. Defaults to any.
	Effort string `yaml:"effort"`
	// The named part of the request must contain all texts.
	FirstUser texts `yaml:"first_user"`
	LastUser  texts `yaml:"last_user"`
	System    texts `yaml:"system"`
	Any       texts `yaml:"any"`
}

// kindFacts are structured requests that ask what a task demands ([Request.AsksFacts]).
const kindFacts Kind = "facts"

// texts is one string or a list of strings.
type texts []string

// UnmarshalYAML implements [yaml.Unmarshaler].
func (t *texts) UnmarshalYAML(n *yaml.Node) error {
	var one string
	if err := n.Decode(&one); err == nil {
		*t = texts{one}
		return nil
	}
	return n.Decode((*[]string)(t))
}

func (c condition) check() error {
	if !slices.Contains([]Kind{"", "any", KindAgent, KindStructured, kindFacts, KindTitle, kindCheck}, c.Kind) {
		return fmt.Errorf("kind %q is unknown: use agent, structured, facts, title, check or any", c.Kind)
	}
	return nil
}

func (c condition) matches(req Request) bool {
	kind := req.Kind()
	switch {
	case req.AsksFacts():
		kind = kindFacts
	case req.IsCheck():
		kind = kindCheck
	}
	return (c.Kind == kind || (c.Kind == "" || c.Kind == "any") && kind != KindTitle && kind != kindFacts && kind != kindCheck) &&
		(c.Model == "" || c.Model == req.Model) &&
		(c.Effort == "" || c.Effort == cmp.Or(req.Effort, "none")) &&
		c.FirstUser.in(req.FirstUser()) &&
		c.LastUser.in(req.LastUser()) &&
		c.System.in(req.System) &&
		(len(c.Any) == 0 || c.Any.in(req.Text()))
}

// in reports whether s contains all of t.
func (t texts) in(s string) bool {
	return !slices.ContainsFunc(t, func(text string) bool { return !strings.Contains(s, text) })
}
