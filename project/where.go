package project

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/detect"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project/internal/config"
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
	if w.Lacks, err = p.lacking(ctx); err != nil {
		return w, err
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

// CopiesLack returns the project's ignored files, and directories with a slash, that copies of it lack, and what to add to the
// configuration so that they get those that commands may need; empty: nothing is known, or no copies are made.
func (p *Project) CopiesLack(ctx context.Context) (lacks []string, add string, err error) {
	if p.isolation(&boulder.Plan{}) == boulder.IsolationOff {
		return nil, "", nil
	}
	if err = p.OpenWorkspace(ctx); err != nil {
		return nil, "", err
	}
	if why, err := p.slots().Unsupported(ctx); why != "" || err != nil {
		return nil, "", err
	}
	lacks, err = p.lacking(ctx)
	return lacks, p.slotsLine(lacks), err
}

// Unmade returns the directories of installed packages among what copies lack that no command is known to make.
func (p *Project) Unmade(lacks []string) []string { return detect.Unmade(os.DirFS(p.dir), lacks) }

// lacking returns the ignored files that copies lack.
func (p *Project) lacking(ctx context.Context) (lacks []string, err error) {
	lacks, err = p.slots().Lacking(ctx)
	if len(p.cfg.Slots.Setup) > 0 { // it brings these, or the trial says that it does not
		lacks = slices.DeleteFunc(lacks, func(name string) bool {
			return len(detect.ForSlots(os.DirFS(p.dir), []string{name}).Setup) > 0
		})
	}
	return lacks, err
}

// withMissing returns what brings missing files into slots, with what the configuration has already, and whether that is more.
func (p *Project) withMissing(missing []string) (c config.Slots, more bool) {
	add := detect.ForSlots(os.DirFS(p.dir), missing)
	if in, err := filepath.Rel(p.work().Root(), p.dir); err == nil && in != "." {
		for _, patterns := range [][]string{add.Copy, add.Keep} { // those with a slash begin at the top of the work tree
			for i, name := range patterns {
				patterns[i] = text.If(strings.Contains(name, "/"), filepath.ToSlash(in)+"/") + name
			}
		}
	}
	if c = p.cfg.Slots; c.Copy == nil {
		c.Copy, _ = p.slots().Patterns() // of .worktreeinclude, which slots.copy replaces
	}
	merged := func(have, more []string) []string {
		return slices.Concat(have, slices.DeleteFunc(more, func(one string) bool { return slices.Contains(have, one) }))
	}
	had := len(c.Copy) + len(c.Setup)
	c.Copy, c.Setup, c.SetupWhen = merged(c.Copy, add.Copy), merged(c.Setup, add.Setup), merged(c.SetupWhen, add.SetupWhen)
	c.Keep = merged(c.Keep, add.Keep)
	return c, len(c.Copy)+len(c.Setup) > had
}

// slotsLine returns a line of configuration that brings missing files into slots, or "".
func (p *Project) slotsLine(missing []string) string {
	if c, more := p.withMissing(missing); more {
		return slotsText(c)
	}
	return ""
}

func slotsText(c config.Slots) string {
	var parts []string
	for _, list := range []struct {
		key    string
		values []string
	}{{"copy", c.Copy}, {"setup", c.Setup}, {"setup_when", c.SetupWhen}, {"keep", c.Keep}} {
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
	if c.Pool != nil {
		parts = append(parts, fmt.Sprint("pool: ", *c.Pool))
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
	var quoted strings.Builder // JSON is YAML
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false) // people read it: && stays
	_ = e.Encode(value)    // a string
	return strings.TrimSpace(quoted.String())
}

// plainYAML matches what needs no quotes in a list.
var plainYAML = text.Regexp(`^[A-Za-z./_][A-Za-z0-9./_ =-]*$`)
