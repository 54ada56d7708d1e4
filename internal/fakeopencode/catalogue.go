package fakeopencode

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
)

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
