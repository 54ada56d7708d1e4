package project

import (
	"strings"

	"github.com/bouldermgr/manager/internal/yamlfile"
)

// Decides lists what decides a run that begins now, without flags: values that no file sets are said in words, and commands that
// were found in the project have the origin "detected".
func (p *Project) Decides() (all []ConfigEntry) {
	set := map[string]ConfigEntry{}
	for _, e := range p.cfg.Entries() {
		key, _, nested := strings.Cut(e.Key, ".")
		if before, more := set[key]; nested && more {
			e.Value = before.Value + ", " + strings.TrimPrefix(e.Key, key+".") + ": " + e.Value
		} else if nested {
			e.Value = strings.TrimPrefix(e.Key, key+".") + ": " + e.Value
		}
		e.Key = key
		set[key] = e
	}
	list := func(items []string) string { return "[" + strings.Join(items, ", ") + "]" }
	done := p.Criteria(nil)
	for _, d := range []struct{ key, value, origin string }{
		{"model", "what OpenCode chooses", "default"},
		{"effort", "the model's own", "default"},
		{"ledger_model", "the model of the sub-tasks", "default"},
		{"isolation", "auto", "default"},
		{"done_when", list(done.Words), "default"},
		{"tests", list(done.Checks.Tests), "detected"},
		{"lint", list(done.Checks.Lint), "detected"},
		{"gates", "those of the plan", "default"},
		{"budget", "none", "default"},
		{"review", "none", "default"},
	} {
		e, found := set[d.key]
		switch {
		case found && e.Value != "":
		case d.value == "[]":
			e = ConfigEntry{Entry: yamlfile.Entry{Key: d.key, Value: "none was found"}, Origin: "detected"}
		default:
			e = ConfigEntry{Entry: yamlfile.Entry{Key: d.key, Value: d.value}, Origin: d.origin}
		}
		all = append(all, e)
	}
	return all
}
