package taskledger

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// place names a value of a plan independently of how it is written.
type place struct {
	task  int    // place of the sub-task, or wholePlan
	field string // "" is the sub-task or the plan itself
	item  int    // place in the field's list, or wholeField
}

const (
	wholePlan  = -1
	wholeField = -1
)

// decoder turns YAML nodes into a plan, collects what does not fit, and remembers where everything stood.
type decoder struct {
	found *problems
	spots map[place]spot
	task  int // the sub-task that is being read, or wholePlan
}

func newDecoder(found *problems) *decoder {
	return &decoder{found: found, spots: map[place]spot{}, task: wholePlan}
}

// report adds findings, each where its place, or else the nearest thing around it, is written. What could not even be
// read has its problem already: whatever else is found there follows from it.
func (d *decoder) report(findings []finding) {
	unread := map[spot]bool{}
	for _, p := range d.found.all {
		unread[spot{p.Line, p.Column}] = true
	}
	for _, f := range findings {
		if at := d.spotOf(f.place); !unread[at] {
			d.found.add(at, f.what, f.do)
		}
	}
}

func (d *decoder) spotOf(p place) spot {
	for _, near := range []place{p, {p.task, p.field, wholeField}, {p.task, "", wholeField}} {
		if at, ok := d.spots[near]; ok {
			return at
		}
	}
	return spot{}
}

func (d *decoder) wrong(n ast.Node, what, do string) { d.found.add(spotOf(n), what, do) }

// read is how the value of one key is read.
type read func(name string, n ast.Node)

type key struct {
	name string
	read read
}

func (d *decoder) plan(root ast.Node) *boulder.Plan {
	p := &boulder.Plan{}
	d.spots[place{wholePlan, "", wholeField}] = spotOf(root)
	d.mapping("a plan", root, []key{
		{"version", d.version(&p.Version)},
		{"task", d.text(&p.Task)},
		{"goal", d.text(&p.Goal)},
		{"constraints", d.texts(&p.Constraints)},
		{"facts", func(name string, n ast.Node) {
			d.mapping(name, n, []key{
				{"given", d.texts(&p.Facts.Given)},
				{"to_find", d.texts(&p.Facts.ToFind)},
				{"guesses", d.texts(&p.Facts.Guesses)},
			})
		}},
		{"model", d.text(&p.Model)},
		{"done_when", d.texts(&p.DoneWhen)},
		{"sub_tasks", func(_ string, n ast.Node) { p.SubTasks = d.subTasks(n) }},
		{"seal", func(_ string, n ast.Node) { p.Seal = d.seal(n) }},
	})
	return p
}

func (d *decoder) subTasks(n ast.Node) []boulder.Spec {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		d.wrong(n, "sub_tasks must be a list, not "+kindOf(n), "begin each sub-task with a dash: - id: …")
		return nil
	}
	specs := make([]boulder.Spec, len(list.Values))
	for i, item := range list.Values {
		d.task = i
		d.spots[place{i, "", wholeField}] = spotOf(item)
		d.subTask(&specs[i], item)
	}
	d.task = wholePlan
	return specs
}

func (d *decoder) subTask(s *boulder.Spec, n ast.Node) {
	d.mapping("a sub-task", n, []key{
		{"id", d.text(&s.ID)},
		{"subject", d.text(&s.Subject)},
		{"active_form", d.text(&s.ActiveForm)},
		{"description", d.text(&s.Description)},
		{"success_criteria", d.texts(&s.SuccessCriteria)},
		{"depends_on", d.texts(&s.DependsOn)},
		{"priority", func(name string, n ast.Node) { d.text((*string)(&s.Priority))(name, n) }},
		{"model", d.text(&s.Model)},
		{"agent", d.text(&s.Agent)},
		{"gates", d.texts(&s.Gates)},
		{"no_worse", d.texts(&s.NoWorse)},
		{"expects_changes", d.boolean(&s.ExpectsChanges)},
		{"empty_ok", d.boolean(&s.EmptyOK)},
		{"outputs", d.texts(&s.Outputs)},
		{"done_when", d.texts(&s.DoneWhen)},
		{"budget", func(name string, n ast.Node) {
			s.Budget = &boulder.Budget{}
			d.mapping(name, n, []key{
				{"attempts", d.count(&s.Budget.Attempts)},
				{"time", d.duration(&s.Budget.Time)},
				{"tokens", d.tokens(&s.Budget.Tokens)},
				{"cost", d.cost(&s.Budget.Cost)},
				{"calls", d.calls(&s.Budget.Calls)},
			})
		}},
	})
}

// seal reads the seal. Whatever is wrong with it has the same remedy.
func (d *decoder) seal(n ast.Node) *boulder.Seal {
	const do = "restore it, or remove the whole seal: the plan is then taken as written by hand"
	s := &boulder.Seal{}
	var origin, created string
	before := len(d.found.all)
	d.mapping("the seal", n, []key{
		{"base", d.text(&s.Base)},
		{"hash", d.text(&s.Hash)},
		{"origin", d.text(&origin)},
		{"model", d.text(&s.Model)},
		{"created_at", d.text(&created)},
	})
	s.Origin = boulder.Origin(origin)
	var err error
	s.CreatedAt, err = time.Parse(time.RFC3339Nano, created)
	switch {
	case len(d.found.all) > before:
	case s.Hash == "":
		d.wrong(n, "the seal has no hash", do)
	case !knownOrigin(s.Origin):
		d.wrong(n, fmt.Sprintf("the seal's origin is %q, not model, direct, fallback, list, replan or hand", origin), do)
	case err != nil:
		d.wrong(n, fmt.Sprintf("the seal's created_at is %q, not a time like 2026-01-31T12:00:00Z", created), do)
	}
	return s
}

func knownOrigin(o boulder.Origin) bool {
	switch o {
	case boulder.OriginModel, boulder.OriginDirect, boulder.OriginFallback, boulder.OriginHand, boulder.OriginList,
		boulder.OriginReplan:
		return true
	}
	return false
}

// mapping reads the keys of a mapping, each at most once. Keys without a value count as absent.
func (d *decoder) mapping(what string, n ast.Node, keys []key) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.wrong(n, fmt.Sprintf("%s must be a mapping, not %s", what, kindOf(n)),
			"write it with keys, as in "+keys[0].name+": …")
		return
	}
	seen := make(map[string]int, len(m.Values))
	for _, entry := range m.Values {
		name := entry.Key.GetToken().Value
		if line, twice := seen[name]; twice {
			d.wrong(entry.Key, fmt.Sprintf("the key %q is there twice, first in line %d", name, line), "remove one of them")
			continue
		}
		seen[name] = spotOf(entry.Key).line
		k := find(keys, name)
		if k == nil {
			d.wrong(entry.Key, fmt.Sprintf("%s has no key %q", what, name), instead(name, keys))
			continue
		}
		if _, absent := entry.Value.(*ast.NullNode); !absent {
			d.spots[place{d.task, name, wholeField}] = spotOf(entry.Value)
			k.read(name, entry.Value)
		}
	}
}

func find(keys []key, name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

func instead(name string, keys []key) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	if meant := text.Nearest(name, names); meant != "" {
		return fmt.Sprintf("did you mean %q?", meant)
	}
	return "remove it, or use one of " + strings.Join(names, ", ")
}

// scalar gives a scalar as it is written; ok is false, and the problem reported, if the node is something else.
func (d *decoder) scalar(name string, n ast.Node) (value string, ok bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		value = v.Value
	case *ast.LiteralNode:
		value = v.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		value = n.GetToken().Value
	default:
		d.wrong(n, fmt.Sprintf("%s must be a text, not %s", name, kindOf(n)),
			"write it as one text, between quotes if need be")
		return "", false
	}
	if strings.ContainsRune(value, 0) {
		d.wrong(n, name+" contains a NUL character", "remove it; no command and no prompt can hold one")
		return "", false
	}
	return value, true
}

func (d *decoder) text(to *string) read {
	return func(name string, n ast.Node) {
		if value, ok := d.scalar(name, n); ok {
			*to = value
		}
	}
}

// texts reads a list of texts, or a single text as a list of one.
func (d *decoder) texts(to *[]string) read {
	return func(name string, n ast.Node) {
		items := []ast.Node{n}
		if list, ok := n.(*ast.SequenceNode); ok {
			items = list.Values
		}
		for i, item := range items {
			d.spots[place{d.task, name, i}] = spotOf(item)
			value := "" // what is nothing or no text keeps its place; check refuses it
			if _, empty := item.(*ast.NullNode); !empty {
				value, _ = d.scalar("an entry of "+name, item)
			}
			*to = append(*to, value)
		}
	}
}

func (d *decoder) boolean(to *bool) read {
	return func(name string, n ast.Node) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.wrong(n, fmt.Sprintf("%s must be true or false, not %s", name, kindOf(n)), "write true or false, without quotes")
			return
		}
		*to = b.Value
	}
}

func (d *decoder) count(to *int) read {
	return func(name string, n ast.Node) {
		var value int64
		d.calls(&value)(name, n)
		*to = int(value)
	}
}

func (d *decoder) calls(to *int64) read {
	return func(name string, n ast.Node) {
		value, err := strconv.ParseInt(n.GetToken().Value, 10, 32)
		if _, ok := n.(*ast.IntegerNode); !ok || err != nil || value < 1 {
			d.wrong(n, name+" must be a whole number from 1", "write the number, or remove the key for the default")
			return
		}
		*to = value
	}
}

func (d *decoder) tokens(to *int64) read {
	return func(name string, n ast.Node) {
		value, ok := d.scalar(name, n)
		if !ok {
			return
		}
		count, ok := text.ParseCount(value)
		if !ok {
			d.wrong(n, fmt.Sprintf("%s is %q, not a number of tokens", name, text.Cut(value, maxID)),
				"write a whole number from 1, as in 150000, 150k or 2M")
			return
		}
		*to = count
	}
}

// maxCost bounds a cost in US dollars: more is a slip, and would not survive being written and read.
const maxCost = 1e9

func (d *decoder) cost(to *float64) read {
	return func(name string, n ast.Node) {
		value, err := strconv.ParseFloat(n.GetToken().Value, 64)
		switch n.(type) {
		case *ast.IntegerNode, *ast.FloatNode:
		default:
			err = strconv.ErrSyntax
		}
		if err != nil || !(value > 0 && value <= maxCost) {
			d.wrong(n, name+" must be an amount of US dollars above 0", "write a number, as in 2.50")
			return
		}
		*to = value
	}
}

func (d *decoder) duration(to *boulder.Duration) read {
	return func(name string, n ast.Node) {
		value, ok := d.scalar(name, n)
		if ok && to.UnmarshalText([]byte(value)) != nil {
			d.wrong(n, fmt.Sprintf("%s is %q, not a duration", name, value), "write a number with a unit, as in 30m or 1h30m")
		}
	}
}

func (d *decoder) version(to *int) read {
	return func(name string, n ast.Node) {
		value, err := strconv.Atoi(n.GetToken().Value)
		if _, ok := n.(*ast.IntegerNode); !ok || err != nil || value < 1 {
			d.wrong(n, fmt.Sprintf("%s must be %d", name, boulder.PlanVersion), "write it so, or remove the line")
			return
		}
		*to = value
	}
}
