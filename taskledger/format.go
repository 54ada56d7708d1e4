package taskledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
)

const (
	firstLine   = "# A plan of manager. Edit it as you like, then execute it with: manager run FILE\n"
	firstLineOf = "# The plan of boulder %s. Edit what has not begun, then continue with: manager resume %[1]s\n"
)

const fileHeader = `#
# Sub-tasks may be changed, added, removed and reordered; only their description is indispensable. One begins when those
# under its depends_on are done; the others run side by side. gates are commands that manager runs in the project; they
# must exit with 0 before the sub-task counts as done. Further keys of a sub-task: priority (high, medium, low),
# model (provider/model or provider/model#effort, or a list: the next one while one cannot be used), effort (of models that
# are named without one), agent, outputs, expects_changes, empty_ok, writes (files, as src/theme/**: sub-tasks that may
# write the same do not run side by side), no_worse (commands that may stay as red as they were), done_when (todos,
# diagnostics, tests, promise, judge; also of the plan, for all sub-tasks that name none),
# budget: {attempts: 2, time: 30m, tokens: 500k, cost: 2.50, calls: 100}.

`

const sealHeader = `# The seal says what this plan was made for. By it, your edits above are noticed and recorded as yours
# (they run as written), and a plan that was made for another commit is not run by accident. Without it, the
# plan is taken as written by hand. Leave it as it is, or remove all of it.`

// Format writes a plan as a file. [Parse] reads it back as the same plan with the same hash; defaults are filled in
// where the plan does not come from Parse, [Seal] or a [Planner]. A plan that Parse would refuse is an error.
func Format(plan *boulder.Plan) ([]byte, error) { return FormatRemarked(plan, nil) }

// FormatRemarked is [Format] with remarks on sub-tasks, by id, as comments.
func FormatRemarked(plan *boulder.Plan, remarks map[string]string) ([]byte, error) {
	p := new(plan.Clone())
	fill(p)
	data, err := document(p, remarks)
	if err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	if len(data) > yamlfile.MaxSize {
		return nil, fmt.Errorf("write the plan: it has %.1f MiB, and plan files end at %d MiB: split it",
			float64(len(data))/(1<<20), yamlfile.MaxSize>>20)
	}
	// Rather no file than one that says something else than the plan.
	back, err := Parse("plan", data)
	if err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	if back.Hash() != p.Hash() {
		return nil, errors.New("write the plan: one of its texts does not survive in YAML: remove unusual characters")
	}
	return data, nil
}

// document converts the plan's JSON, which is also YAML, to common YAML style.
func document(p *boulder.Plan, remarks map[string]string) ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Load(escape(data), &doc); err != nil {
		return nil, err
	}
	plan := doc.Content[0]
	restyle(plan)
	for i := 0; i < len(plan.Content); i += 2 {
		switch key, value := plan.Content[i], plan.Content[i+1]; key.Value {
		case "sub_tasks":
			for n, t := range value.Content {
				showDependsOn(t)
				if id := t.Content[1]; remarks[id.Value] != "" { // the first key
					id.LineComment = "# " + remarks[id.Value]
				}
				if n > 0 {
					t.HeadComment = "\n"
				}
			}
		case "facts":
			for n := 0; n < len(value.Content); n += 2 {
				if asked := value.Content[n]; asked.Value == "questions" {
					asked.HeadComment = "# Change an answer as you like: it is yours then, and what depends on it is told."
				}
			}
		case "seal":
			key.HeadComment = "\n" + sealHeader
		}
	}
	data, err = yaml.Dump(&doc, yaml.WithCompactSeqIndent(false), yaml.WithLineWidth(-1))
	data = bytes.ReplaceAll(data, []byte("\n  \n  - "), []byte("\n\n  - ")) // no block has a line of spaces
	first := firstLine
	if p.Seal != nil && p.Seal.Boulder != "" {
		first = fmt.Sprintf(firstLineOf, p.Seal.Boulder)
	}
	return append([]byte(first+fileHeader), escape(data)...), err
}

// escape replaces hidden characters in the double-quoted strings of JSON and YAML by their numbers.
func escape(data []byte) []byte {
	return hidden().ReplaceAllFunc(data, func(c []byte) []byte {
		r, _ := utf8.DecodeRune(c)
		return fmt.Appendf(nil, `\U%08X`, r)
	})
}

// hidden matches characters that are invisible or confusable.
var hidden = text.Regexp(`[^\n\t\PC]|[^ \PZ]`)

// unfitForBlock matches texts that a literal block can hold only with confusing marks, or that editors change: with a
// leading space, an empty line at the end, or spaces at the end of a line.
var unfitForBlock = text.Regexp(`^[ \t\n]|[ \t](\n|$)|\n\n$`)

// restyle drops the quotes and brackets of JSON that YAML does not need. Texts of several lines become blocks.
func restyle(n *yaml.Node) {
	n.Style = 0
	switch lines := strings.Contains(n.Value, "\n"); {
	case hidden().MatchString(n.Value), lines && unfitForBlock().MatchString(n.Value):
		n.Style = yaml.DoubleQuotedStyle
	case lines:
		n.Style = yaml.LiteralStyle
	case n.Kind == yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			n.Content[i].Style = 0
			restyle(n.Content[i+1])
			if slices.Contains([]string{"depends_on", "done_when", "budget", "parts", "model"}, n.Content[i].Value) && n.Content[i+1].Kind != yaml.ScalarNode {
				n.Content[i+1].Style = yaml.FlowStyle
			}
		}
	default:
		for _, item := range n.Content {
			restyle(item)
		}
	}
}

// showDependsOn adds the key even if it is empty: users look for it.
func showDependsOn(t *yaml.Node) {
	at := 0
	for i := 0; i < len(t.Content); i += 2 {
		switch t.Content[i].Value {
		case "depends_on":
			return
		case "description", "success_criteria":
			at = i + 2
		}
	}
	t.Content = slices.Insert(t.Content, at,
		&yaml.Node{Kind: yaml.ScalarNode, Value: "depends_on"}, &yaml.Node{Kind: yaml.SequenceNode})
}

// WriteFile writes a plan like [FormatRemarked]. The file is replaced atomically, also in a crash. A new file is for its owner
// only, an old one keeps its mode; a symbolic link stays, and its target is replaced. The directory must exist.
func WriteFile(path string, plan *boulder.Plan, remarks map[string]string) error {
	data, err := FormatRemarked(plan, remarks)
	if err != nil {
		return err
	}
	if err := statedir.Replace(path, data, 0o600); err != nil {
		return fmt.Errorf("write the plan to %s: %w", path, err)
	}
	return nil
}

// Problem is one mistake in a plan file.
type Problem = yamlfile.Problem

// FileError lists all mistakes in a plan file, in the order of the file.
type FileError = yamlfile.Error

// ReadFile reads a plan file like [Parse]. If the file is missing or unreadable, the error wraps that of the file
// system (fs.ErrNotExist); if it is no plan, the error is a [*FileError].
func ReadFile(path string) (*boulder.Plan, error) {
	data, err := yamlfile.Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse reads a plan from YAML or JSON. name stands for the file in messages. All mistakes are in one [*FileError].
//
// It refuses unknown and repeated keys, wrong types, ids that are taken, invalid or longer than 64 bytes, missing or
// circular dependencies, several documents, anchors, aliases and tags. It accepts what is unambiguous: one value for a
// list; any scalar for a text, as written (`id: 007` is "007", the gate `true` is "true"); no value for an absent key.
// The package comment has the defaults; also, the version is 1, and the task is the goal or else the subjects.
func Parse(name string, data []byte) (*boulder.Plan, error) {
	plan, _, err := ParseWarn(name, data)
	return plan, err
}

// ParseWarn is [Parse], and also returns warnings about commands that run otherwise than they look in the file, and about
// gates that prove nothing.
func ParseWarn(name string, data []byte) (*boulder.Plan, []Problem, error) {
	plan := &boulder.Plan{}
	file, err := yamlfile.Decode(name, data, plan)
	if err != nil {
		return nil, nil, err
	}
	if file.Empty() {
		return nil, nil, file.Just("", "the file is empty", "write a plan, or make one with `manager plan \"TASK\"`")
	}
	fill(plan)
	if otherVersion(plan, func(path, what, do string) { err = file.Just(path, what, do) }) {
		return nil, nil, err
	}
	check(plan, file.Report)
	if err := file.Err(); err != nil {
		return nil, nil, err
	}
	for path, line := range commandsOf(plan) {
		file.Command(path, line)
	}
	return plan, file.Warnings(), nil
}

// Check is [Parse] for a plan that is in no file: it returns a copy with the defaults filled in, or a [*FileError] that names
// each mistake by its path, as sub_tasks[0].gates[1].
func Check(plan *boulder.Plan) (*boulder.Plan, error) {
	p := new(plan.Clone())
	fill(p)
	var problems []Problem
	report := func(path, what, do string) { problems = append(problems, Problem{File: path, What: what, Do: do}) }
	if !otherVersion(p, report) {
		check(p, report)
	}
	if err := yamlfile.ErrorOf(problems); err != nil {
		return nil, err
	}
	return p, nil
}

// Warnings returns the warnings about the gates of a plan that is in no file.
func Warnings(plan *boulder.Plan) (all []Problem) {
	for path, line := range commandsOf(plan) {
		for _, doubt := range command.Doubts(line) {
			all = append(all, Problem{File: path, What: doubt.What, Do: doubt.Do})
		}
	}
	return all
}

// commandsOf returns the gates of a plan with their paths in a file.
func commandsOf(p *boulder.Plan) iter.Seq2[string, string] {
	return func(yield func(path, line string) bool) {
		lists := func(in string, of map[string][]string) bool {
			for _, key := range slices.Sorted(maps.Keys(of)) {
				for i, line := range of[key] {
					if !yield(fmt.Sprintf("%s%s[%d]", in, key, i), line) {
						return false
					}
				}
			}
			return true
		}
		if !lists("", map[string][]string{"integration_gates": p.IntegrationGates}) {
			return
		}
		for i, s := range p.SubTasks {
			if !lists(fmt.Sprintf("sub_tasks[%d].", i), map[string][]string{"gates": s.Gates, "no_worse": s.NoWorse}) {
				return
			}
		}
	}
}

var origins = []boulder.Origin{
	boulder.OriginModel, boulder.OriginDirect, boulder.OriginFallback, boulder.OriginHand, boulder.OriginList,
	boulder.OriginReplan,
}
