package fakeopencode

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// config is what the files and OPENCODE_CONFIG_CONTENT say together, in the names of 1.x, which 2.x reads as well.
type config struct {
	Model        string
	DefaultAgent string
	Snapshots    bool
	Rules        []rule
	Providers    map[string]provider
	Agents       map[string]*agent
	Depth        int // of sub-agents
}

type provider struct {
	Name    string
	Options struct{ BaseURL, APIKey string }
	Models  map[string]model
}

type model struct {
	Name     string
	Cost     struct{ Input, Output float64 } // US dollars for a million tokens
	Limit    struct{ Context, Output int }
	Variants map[string]any
}

type agent struct {
	id, mode, system string
	hidden           bool
	model            *modelRef
	rules            []rule
}

type rule struct {
	Action   string `json:"action"`
	Resource string `json:"resource"`
	Effect   string `json:"effect"`
}

type configFile struct {
	Model        string
	DefaultAgent string `json:"default_agent"`
	Snapshot     *bool
	Permission   oldRules
	Provider     map[string]provider
	Agent        map[string]agentConfig
	Experimental struct {
		Depth int `json:"subagent_depth"`
	}
}

type agentConfig struct {
	Mode, Model, Prompt string
	Hidden              bool
	Tools               map[string]bool
	Permission          oldRules
}

// oldRules are the permissions of 1.x: an action for everything, or for each tool, or for each pattern of a tool, in
// the order in which they are written.
type oldRules []rule

func (o *oldRules) UnmarshalJSON(data []byte) error {
	var all string
	if json.Unmarshal(data, &all) == nil {
		*o = oldRules{{"*", "*", all}}
		return nil
	}
	return eachField(data, func(tool string, value json.RawMessage) error {
		tool = newName(tool)
		var effect string
		if json.Unmarshal(value, &effect) == nil {
			*o = append(*o, rule{tool, "*", effect})
			return nil
		}
		return eachField(value, func(pattern string, value json.RawMessage) error {
			*o = append(*o, rule{tool, pattern, strings.Trim(string(value), `"`)})
			return nil
		})
	})
}

// eachField calls f for each field of an object in order, which a map would lose.
func eachField(data []byte, f func(name string, value json.RawMessage) error) error {
	in := json.NewDecoder(bytes.NewReader(data))
	if start, err := in.Token(); err != nil || start != json.Delim('{') {
		return fmt.Errorf("%.40q is no object", data)
	}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return err
		}
		if err := f(name.(string), value); err != nil {
			return err
		}
	}
	return nil
}

// newName is the action of 2.x for a tool of 1.x.
func newName(tool string) string {
	switch tool {
	case "bash":
		return "shell"
	case "task":
		return "subagent"
	case "write", "patch", "apply_patch", "multiedit":
		return "edit"
	}
	return tool
}

// defaultRules come before those of the configuration: everything may be done, but for files outside and secrets.
var defaultRules = []rule{
	{"*", "*", "allow"}, {"external_directory", "*", "ask"},
	{"read", "*.env", "ask"}, {"read", "*.env.*", "ask"}, {"read", "*.env.example", "allow"},
}

// readConfig reads what applies in a directory: the project's file and the environment's content, the last wins.
func readConfig(dir string, environ map[string]string) (*config, error) {
	c := &config{
		Snapshots: true, Depth: 1, Providers: map[string]provider{},
		Agents: map[string]*agent{
			"build":   {id: "build", mode: "primary"},
			"plan":    {id: "plan", mode: "primary", rules: []rule{{"edit", "*", "deny"}}},
			"general": {id: "general", mode: "subagent"},
			"explore": {id: "explore", mode: "subagent", rules: []rule{{"edit", "*", "deny"}}},
			"title":   {id: "title", mode: "primary", hidden: true, rules: []rule{{"*", "*", "deny"}}},
		},
	}
	if data, err := os.ReadFile(filepath.Join(dir, "opencode.json")); err == nil { // most have none
		if err := c.add(data); err != nil {
			return nil, fmt.Errorf("read opencode.json: %w", err)
		}
	}
	if content := environ["OPENCODE_CONFIG_CONTENT"]; content != "" {
		if err := c.add([]byte(content)); err != nil {
			return nil, fmt.Errorf("read OPENCODE_CONFIG_CONTENT: %w", err)
		}
	}
	return c, nil
}

func (c *config) add(data []byte) error {
	var f configFile
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	c.Model = cmp.Or(f.Model, c.Model)
	c.DefaultAgent = cmp.Or(f.DefaultAgent, c.DefaultAgent)
	c.Depth = cmp.Or(f.Experimental.Depth, c.Depth)
	if f.Snapshot != nil {
		c.Snapshots = *f.Snapshot
	}
	c.Rules = slices.Concat(c.Rules, f.Permission)
	maps.Copy(c.Providers, f.Provider)
	for name, a := range f.Agent {
		c.addAgent(name, a)
	}
	return nil
}

func (c *config) addAgent(name string, in agentConfig) {
	a := c.Agents[name]
	if a == nil {
		a = &agent{id: name, mode: "all"}
		c.Agents[name] = a
	}
	a.mode, a.system, a.hidden = cmp.Or(in.Mode, a.mode), cmp.Or(in.Prompt, a.system), a.hidden || in.Hidden
	if in.Model != "" {
		ref := parseModel(in.Model)
		a.model = &ref
	}
	for tool, on := range in.Tools {
		if !on {
			a.rules = append(a.rules, rule{newName(tool), "*", "deny"})
		}
	}
	a.rules = slices.Concat(a.rules, in.Permission)
}

// parseModel reads provider/model#variant.
func parseModel(name string) modelRef {
	name, variant, _ := strings.Cut(name, "#")
	provider, id, _ := strings.Cut(name, "/")
	return modelRef{ID: id, ProviderID: provider, Variant: variant}
}

func (l *location) listAgents(*http.Request) (any, error) {
	out := []any{}
	if !l.complete("agent") {
		return l.answer(out)
	}
	for _, name := range slices.Sorted(maps.Keys(l.config.Agents)) {
		out = append(out, l.wireAgent(l.config.Agents[name]))
	}
	return l.answer(out)
}

func (l *location) wireAgent(a *agent) fields {
	out := fields{
		"id": a.id, "name": a.id, "mode": a.mode, "hidden": a.hidden, "permissions": slices.Concat(defaultRules, l.config.Rules, a.rules),
		"request": fields{"settings": fields{}, "headers": fields{}, "body": fields{}},
	}
	return out
}

func (l *location) listModels(*http.Request) (any, error) {
	out := []any{}
	if !l.complete("model") {
		return l.answer(out)
	}
	for _, providerID := range slices.Sorted(maps.Keys(l.config.Providers)) {
		for _, id := range slices.Sorted(maps.Keys(l.config.Providers[providerID].Models)) {
			out = append(out, l.wireModel(providerID, id))
		}
	}
	return l.answer(out)
}

// wireModel has the provider's key, as that of the real server has.
func (l *location) wireModel(providerID, id string) fields {
	p := l.config.Providers[providerID]
	m := p.Models[id]
	variants := []any{}
	for _, variant := range slices.Sorted(maps.Keys(m.Variants)) {
		variants = append(variants, fields{"id": variant})
	}
	return fields{
		"id": id, "modelID": id, "providerID": providerID, "name": cmp.Or(m.Name, id), "status": "active", "enabled": true,
		"settings":     fields{"apiKey": p.Options.APIKey, "baseURL": p.Options.BaseURL},
		"capabilities": fields{"tools": true, "input": []string{"text"}, "output": []string{"text"}},
		"variants":     variants, "time": fields{"released": 0},
		"cost":  []any{fields{"input": m.Cost.Input, "output": m.Cost.Output, "cache": fields{"read": 0, "write": 0}}},
		"limit": fields{"context": m.Limit.Context, "output": m.Limit.Output},
	}
}
