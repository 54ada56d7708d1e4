package fakeopencode

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// config merges the project's file and OPENCODE_CONFIG_CONTENT. It uses the names of 1.x, which 2.x reads as well.
type config struct {
	Model      string
	Snapshot   bool // take snapshots of the files
	Permission permissions
	Provider   map[string]provider
	Agent      map[string]*agent // replaces a built-in agent of the same name
}

type provider struct {
	Options struct{ BaseURL, APIKey string }
	Models  map[string]model
}

type model struct {
	Variants map[string]struct{ ReasoningEffort string }

	Cost  struct{ Input, Output float64 } // US dollars per million tokens
	Limit struct{ Context, Output int }
}

type agent struct {
	id         string
	Mode       string
	Permission permissions
}

type rule struct {
	Action   string `json:"action"`
	Resource string `json:"resource"`
	Effect   string `json:"effect"`
}

// permissions decodes the form of 1.x, one action for everything or one per tool, and adds to what is there.
type permissions []rule

// newNames maps tools of 1.x to actions of 2.x.
var newNames = map[string]string{"bash": "shell", "task": "subagent", "write": "edit"}

func (p *permissions) UnmarshalJSON(data []byte) error {
	var all string
	tools := map[string]string{}
	if json.Unmarshal(data, &all) == nil {
		tools["*"] = all
	} else if err := json.Unmarshal(data, &tools); err != nil {
		return err
	}
	for _, tool := range slices.Sorted(maps.Keys(tools)) { // "*" sorts first, so that the others override it
		*p = append(*p, rule{cmp.Or(newNames[tool], tool), "*", tools[tool]})
	}
	return nil
}

// defaultRules precede those of the configuration. Rules for tools that the stand-in lacks are left out.
var defaultRules = []rule{{"*", "*", "allow"}}

func builtInAgents() map[string]*agent {
	return map[string]*agent{
		"build":   {Mode: "primary"},
		"plan":    {Mode: "primary", Permission: permissions{{"edit", "*", "deny"}}},
		"general": {Mode: "subagent"},
	}
}

// stage says how far the directory has booted. Each request for the list of plugins, which is the last one to fill, takes
// it a stage further, so that tests need no time:
//
//	0 all lists are empty
//	1 there are hosted models and built-in agents
//	2 there are agents of the configuration, too
//	3 it has booted
func (l *location) stage() int {
	switch b := l.server.behaviour; {
	case b.FullCatalogue:
		return booted
	case b.NeverBoots:
		return min(l.looks, booted-1)
	}
	return min(l.looks, booted)
}

const booted = 3

func (l *location) listPlugins(*http.Request) (any, error) {
	l.looks++
	if l.stage() < booted {
		return l.answer([]any{})
	}
	return l.answer([]any{fields{
		"id": "opencode.agent", "source": fields{"type": "builtin"}, "features": fields{"server": true},
		"state": fields{"status": "active"},
	}})
}

// readConfig reads a directory's configuration. The environment overrides the file.
func readConfig(dir string, environ map[string]string) *config {
	c := &config{Snapshot: true, Agent: builtInAgents()}
	file, _ := os.ReadFile(filepath.Join(dir, "opencode.json")) // most have none
	for _, text := range [][]byte{file, []byte(environ["OPENCODE_CONFIG_CONTENT"])} {
		_ = json.Unmarshal(text, c) // what cannot be decoded is ignored
	}
	for id, a := range c.Agent {
		a.id, a.Mode = id, cmp.Or(a.Mode, "all")
	}
	return c
}

func (l *location) listAgents(*http.Request) (any, error) {
	all := []any{}
	for _, id := range slices.Sorted(maps.Keys(l.config.Agent)) {
		if stage, early := l.stage(), builtInAgents()[id] != nil; stage == 0 || stage == 1 && !early {
			continue
		}
		a := l.config.Agent[id]
		all = append(all, fields{
			"id": id, "name": id, "mode": a.Mode, "hidden": false, "permissions": l.rules(a),
			"request": fields{"settings": fields{}, "headers": fields{}, "body": fields{}},
		})
	}
	return l.answer(all)
}

// listModels includes the provider's key in each model, as the real server does.
func (l *location) listModels(*http.Request) (any, error) {
	all := []any{}
	providers := l.config.Provider
	switch l.stage() {
	case 0:
		providers = nil
	case 1, 2:
		providers = map[string]provider{"openai": {Models: map[string]model{"gpt": {}}}}
	}
	for _, providerID := range slices.Sorted(maps.Keys(providers)) {
		p := providers[providerID]
		for _, id := range slices.Sorted(maps.Keys(p.Models)) {
			m, variants := p.Models[id], []any{}
			for _, name := range slices.Sorted(maps.Keys(m.Variants)) {
				variants = append(variants, fields{"id": name})
			}
			all = append(all, fields{
				"id": id, "modelID": id, "providerID": providerID, "name": id, "status": "active", "enabled": true,
				"settings":     fields{"apiKey": p.Options.APIKey, "baseURL": p.Options.BaseURL},
				"capabilities": fields{"tools": true, "input": []string{"text"}, "output": []string{"text"}},
				"variants":     variants, "time": fields{"released": 0},
				"cost":  []any{fields{"input": m.Cost.Input, "output": m.Cost.Output, "cache": fields{"read": 0, "write": 0}}},
				"limit": fields{"context": m.Limit.Context, "output": m.Limit.Output},
			})
		}
	}
	return l.answer(all)
}

func (l *location) getConfig(*http.Request) (any, error) {
	providers := fields{}
	for id := range l.config.Provider {
		providers[id] = fields{}
	}
	info := fields{"permissions": append([]rule{}, l.config.Permission...), "providers": providers}
	if providerID, model, chosen := strings.Cut(l.config.Model, "/"); chosen {
		info["model"] = fields{"providerID": providerID, "model": model}
	}
	return bare{[]any{fields{"type": "document", "info": info}}}, nil
}
