package project

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/detect"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
)

// Where says where the sub-tasks of a plan are going to work.
type Where struct {
	Copies bool     // in slots, copies of the user's files; else in the files themselves
	Why    string   // a clause
	Lacks  []string // ignored files, and directories with a slash, that copies lack; nil if that does not matter
	Add    string   // to the configuration, so that copies get what of that commands may need; empty: nothing is known
}

// Where says where the sub-tasks of a plan are going to work, without trying anything. asked is what the user said for this run;
// gates, whether the plan's gates are going to run.
func (p *Project) Where(ctx context.Context, plan *boulder.Plan, asked boulder.Isolation, gates bool) (w Where, err error) {
	if err := p.OpenWorkspace(ctx); err != nil {
		return w, err
	}
	isolation := cmp.Or(asked, p.isolation(plan))
	if isolation == boulder.IsolationOff {
		return Where{Why: "isolation is off"}, nil
	}
	if w.Why, err = p.slots().Unsupported(ctx); w.Why != "" || err != nil {
		return w, err
	}
	s, err := p.begun(plan, gates)
	if err != nil {
		return w, err
	}
	if isolation != boulder.IsolationAlways && !orchestrator.Parallel(s, p.cfg.Limits) {
		return Where{Why: "one after the other"}, nil
	}
	if w.Lacks, err = p.slots().Lacking(ctx); err != nil {
		return w, err
	}
	if len(p.cfg.Slots.Setup) > 0 { // it brings these, or the trial says that it does not
		w.Lacks = slices.DeleteFunc(w.Lacks, func(name string) bool {
			return len(detect.ForSlots(os.DirFS(p.dir), []string{name}).Setup) > 0
		})
	}
	w.Add = p.slotsLine(w.Lacks)
	gated := len(p.cfg.IntegrationGates)+len(plan.IntegrationGates) > 0
	for _, t := range s.SubTasks {
		gated = gated || len(t.Gates)+len(t.NoWorse) > 0
	}
	switch w.Copies = true; {
	case isolation == boulder.IsolationAlways:
	case gated:
		w.Why = "if the gates hold in one, which is tried first"
	case len(w.Lacks) > 0:
		w.Copies, w.Why = false, "side by side, since no gate tells whether copies have what the work needs"
	}
	return w, nil
}

// slotsLine returns a line of configuration that brings missing files into slots, with what it has already.
func (p *Project) slotsLine(missing []string) string {
	add := detect.ForSlots(os.DirFS(p.dir), missing)
	if in, err := filepath.Rel(p.work().Root(), p.dir); err == nil && in != "." {
		for i, name := range add.Copy { // patterns with a slash begin at the top of the work tree
			add.Copy[i] = text.If(strings.Contains(name, "/"), filepath.ToSlash(in)+"/") + name
		}
	}
	c := p.cfg.Slots
	if c.Copy == nil {
		c.Copy, _ = p.slots().Patterns() // of .worktreeinclude, which slots.copy replaces
	}
	merged := func(have, more []string) []string {
		return slices.Concat(have, slices.DeleteFunc(more, func(one string) bool { return slices.Contains(have, one) }))
	}
	all := detect.Slots{Copy: merged(c.Copy, add.Copy), Setup: merged(c.Setup, add.Setup), SetupWhen: merged(c.SetupWhen, add.SetupWhen)}
	if len(all.Copy) == len(c.Copy) && len(all.Setup) == len(c.Setup) {
		return ""
	}
	var parts []string
	for _, list := range []struct {
		key    string
		values []string
	}{{"copy", all.Copy}, {"setup", all.Setup}, {"setup_when", all.SetupWhen}} {
		var items []string
		for _, value := range list.values {
			items = append(items, scalar(value))
		}
		if len(items) > 0 {
			parts = append(parts, list.key+": ["+strings.Join(items, ", ")+"]")
		}
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, scalar(name)+": "+scalar(c.Env[name]))
	}
	if len(env) > 0 {
		parts = append(parts, "env: {"+strings.Join(env, ", ")+"}")
	}
	if c.Dir != "" {
		parts = append(parts, "dir: "+scalar(c.Dir))
	}
	return "slots: {" + strings.Join(parts, ", ") + "}"
}

func scalar(value string) string {
	if plainYAML().MatchString(value) {
		return value
	}
	quoted, _ := json.Marshal(value) // a string; JSON is YAML
	return string(quoted)
}

// plainYAML matches what needs no quotes in a list.
var plainYAML = text.Regexp(`^[A-Za-z./_][A-Za-z0-9./_ =-]*$`)
