package fakeopencode

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
)

// config is what a project's file and OPENCODE_CONFIG_CONTENT say together, in the names of 1.x, which 2.x reads as well.
type config struct {
	Model      string
	Snapshot   bool // are taken of the files
	Permission permissions
	Provider   map[string]provider
	Agent      map[string]*agent // one that is built in is replaced by another of its name
}

type provider struct {
	Options struct{ BaseURL, APIKey string }
	Models  map[string]model
}

type model struct {
	Cost  struct{ Input, Output float64 } // US dollars for a million tokens
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

// permissions are those of 1.x, an action for everything or for each tool. They add to what is there.
type permissions []rule

// newNames are the actions of 2.x for tools of 1.x.
var newNames = map[string]string{"bash": "shell", "task": "subagent", "write": "edit"}

func (p *permissions) UnmarshalJSON(data []byte) error {
	var all string
	tools := map[string]string{}
	if json.Unmarshal(data, &all) == nil {
		tools["*"] = all
	} else if err := json.Unmarshal(data, &tools); err != nil {
		return err
	}
	for _, tool := range slices.Sorted(maps.Keys(tools)) { // "*" is the first of them, so that others go before it
		*p = append(*p, rule{cmp.Or(newNames[tool], tool), "*", tools[tool]})
	}
	return nil
}

// defaultRules come before those of the configuration. Those that are for no tool of the stand-in are left out.
var defaultRules = []rule{{"*", "*", "allow"}}

// readConfig reads what applies in a directory. The environment's content comes last, and wins.
func readConfig(dir string, environ map[string]string) *config {
	c := &config{Snapshot: true, Agent: map[string]*agent{
		"build":   {Mode: "primary"},
		"plan":    {Mode: "primary", Permission: permissions{{"edit", "*", "deny"}}},
		"general": {Mode: "subagent"},
	}}
	file, _ := os.ReadFile(filepath.Join(dir, "opencode.json")) // most have none
	for _, text := range [][]byte{file, []byte(environ["OPENCODE_CONFIG_CONTENT"])} {
		_ = json.Unmarshal(text, c) // what cannot be read does not count
	}
	for id, a := range c.Agent {
		a.id, a.Mode = id, cmp.Or(a.Mode, "all")
	}
	return c
}

func (l *location) listAgents(*http.Request) (any, error) {
	all := []any{}
	for _, id := range slices.Sorted(maps.Keys(l.config.Agent)) {
		a := l.config.Agent[id]
		all = append(all, fields{
			"id": id, "name": id, "mode": a.Mode, "hidden": false, "permissions": l.rules(a),
			"request": fields{"settings": fields{}, "headers": fields{}, "body": fields{}},
		})
	}
	return l.catalogue("agent", all)
}

// listModels gives the provider's key with each model, as the real server does.
func (l *location) listModels(*http.Request) (any, error) {
	all := []any{}
	for _, providerID := range slices.Sorted(maps.Keys(l.config.Provider)) {
		p := l.config.Provider[providerID]
		for _, id := range slices.Sorted(maps.Keys(p.Models)) {
			m := p.Models[id]
			all = append(all, fields{
				"id": id, "modelID": id, "providerID": providerID, "name": id, "status": "active", "enabled": true,
				"settings":     fields{"apiKey": p.Options.APIKey, "baseURL": p.Options.BaseURL},
				"capabilities": fields{"tools": true, "input": []string{"text"}, "output": []string{"text"}},
				"variants":     []any{}, "time": fields{"released": 0},
				"cost":  []any{fields{"input": m.Cost.Input, "output": m.Cost.Output, "cache": fields{"read": 0, "write": 0}}},
				"limit": fields{"context": m.Limit.Context, "output": m.Limit.Output},
			})
		}
	}
	return l.catalogue("model", all)
}

// catalogue answers a list that is empty when it is asked for the first time.
func (l *location) catalogue(kind string, all []any) (any, error) {
	if !l.listed[kind] && !l.server.behaviour.FullCatalogue {
		all = []any{}
	}
	l.listed[kind] = true
	return l.answer(all)
}

func (l *location) getConfig(*http.Request) (any, error) {
	info := fields{"permissions": append([]rule{}, l.config.Permission...), "model": l.config.Model}
	return bare{[]any{fields{"type": "document", "info": info}}}, nil
}
