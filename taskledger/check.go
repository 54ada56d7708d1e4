package taskledger

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/dag"
	"github.com/bouldermgr/manager/internal/scope"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/providers"
)

// maxID is the length of a sub-task's id in bytes: ids become parts of file names and titles.
const maxID = 64

type checker struct {
	*boulder.Plan
	tell   func(path, what, do string)
	parsed map[string]string // the shell's message by command; empty: none
}

// otherVersion reports a plan of another version. Nothing else can be checked then.
func otherVersion(p *boulder.Plan, tell func(path, what, do string)) bool {
	if p.Version == boulder.PlanVersion {
		return false
	}
	tell("version", fmt.Sprintf("this plan has version %d, this manager reads version %d", p.Version, boulder.PlanVersion),
		"install a newer manager, or plan again with this one")
	return true
}

// check reports all mistakes in a plan, after [fill], with paths as in the file: sub_tasks[0].gates[1].
func check(p *boulder.Plan, tell func(path, what, do string)) {
	c := &checker{Plan: p, tell: tell, parsed: map[string]string{}}
	if len(p.SubTasks) == 0 {
		c.report("sub_tasks", "add at least one under sub_tasks, with a description", "the plan has no sub-tasks")
	}
	if blank(p.Task) {
		c.report("task", "say under task what the whole is for", "the task is missing")
	}
	c.oneLine("", "goal", p.Goal)
	c.notBlank("", "constraints", p.Constraints)
	c.notBlank("facts.", "given", p.Facts.Given)
	c.notBlank("facts.", "to_find", p.Facts.ToFind)
	c.notBlank("facts.", "to_derive", p.Facts.ToDerive)
	c.notBlank("facts.", "guesses", p.Facts.Guesses)
	c.findings()
	c.questions()
	c.obligations()
	c.models("model", p.Model)
	c.effort("effort", p.Effort)
	c.notBlank("", "integration_gates", p.IntegrationGates)
	c.commands("integration_gates", p.IntegrationGates)
	for i, s := range p.SubTasks {
		if boulder.ReservedID(s.ID) && p.Isolation == boulder.IsolationAlways {
			c.report(fmt.Sprintf("sub_tasks[%d].id", i), "give it another id", "%s of an isolated run would have the name of a ref of the run", c.called(i))
		}
	}
	for i, s := range p.SubTasks {
		c.subTask(fmt.Sprintf("sub_tasks[%d].", i), c.called(i), s)
	}
	c.graph()
	c.seal()
}

func (c *checker) seal() {
	const do = "restore it, or remove the whole seal: the plan is then taken as written by hand"
	switch s := c.Seal; {
	case s == nil:
	case !slices.Contains(origins, s.Origin):
		c.report("seal.origin", do, "the seal's origin is %q, not model, direct, fallback, list, replan or hand", s.Origin)
	case s.Hash == "":
		c.report("seal.hash", do, "the seal has no hash")
	case s.CreatedAt.IsZero():
		c.report("seal.created_at", do, "the seal has no created_at")
	}
}

func (c *checker) report(path, do, format string, args ...any) {
	c.tell(path, fmt.Sprintf(format, args...), do)
}

func (c *checker) called(i int) string {
	if id := c.SubTasks[i].ID; id != "" {
		return fmt.Sprintf("sub-task %q", text.Cut(id, maxID))
	}
	return fmt.Sprintf("sub-task %d", i+1)
}

// rowID checks the id of a row, and returns the beginning of its fields' paths.
func (c *checker) rowID(list string, i int, id string, taken map[string]bool) (in string) {
	in = fmt.Sprintf("%s[%d].", list, i)
	switch {
	case !validID().MatchString(id) || len(id) > maxID:
		c.report(in+"id", "use letters (a-z, A-Z), digits, - and _", "%q cannot be an id", text.Cut(id, maxID))
	case taken[id]:
		c.report(in+"id", "give each its own", "the id %q is taken by an earlier row", id)
	}
	taken[id] = true
	return in
}

func (c *checker) findings() {
	known := map[string]bool{}
	for i, f := range c.Facts.Found {
		if in := c.rowID("facts.found", i, f.ID, known); blank(f.Statement) {
			c.report(in+"statement", "say what was found, or remove the row", "the finding %q has no statement", f.ID)
		}
	}
	for i, s := range c.SubTasks {
		for n, id := range s.Found {
			if !known[id] {
				c.report(fmt.Sprintf("sub_tasks[%d].found[%d]", i, n), "name an id of facts.found, or remove it",
					"%s names the finding %q, which is not in the plan", c.called(i), text.Cut(id, maxID))
			}
		}
	}
}

func (c *checker) questions() {
	known := map[string]bool{}
	for i, q := range c.Facts.Questions {
		in := c.rowID("facts.questions", i, q.ID, known)
		if blank(q.Question) {
			c.report(in+"question", "say what is asked, or remove the row", "the question %q asks nothing", q.ID)
		}
		if blank(q.Default) {
			c.report(in+"default", "say what holds if nobody answers", "the question %q has no default", q.ID)
		}
		if utf8.RuneCountInString(q.Answer) > maxUserAnswer {
			c.report(in+"answer", "put it into a file of the project and name that", "the answer to %q has more than %d characters", q.ID, maxUserAnswer)
		}
	}
	for i, s := range c.SubTasks {
		for n, id := range s.Questions {
			if !known[id] {
				c.report(fmt.Sprintf("sub_tasks[%d].questions[%d]", i, n), "name an id of facts.questions, or remove it",
					"%s depends on the question %q, which is not in the plan", c.called(i), text.Cut(id, maxID))
			}
		}
	}
}

// maxUserAnswer is the length of the user's answer to a question, in characters, as to a blocker.
const maxUserAnswer = 4_000

func (c *checker) obligations() {
	taken := map[string]bool{}
	for i, o := range c.Request {
		in := c.rowID("request", i, o.ID, taken)
		if blank(o.Text) {
			c.report(in+"text", "say what is asked for or forbidden, or remove the row", "row %q of the request has no text", o.ID)
		}
		switch owner := slices.IndexFunc(c.SubTasks, func(s boulder.Spec) bool { return s.ID == o.Owner }); {
		case o.Owner != "" && owner < 0:
			c.report(in+"owner", "name the sub-task that does it, or leave owner out: nobody does it then"+didYouMean(o.Owner, c.Plan),
				"row %q of the request is owned by %q, which is not in the plan", o.ID, text.Cut(o.Owner, maxID))
		case o.ShownBy == "":
		case o.Owner == "":
			c.report(in+"shown_by", "name under owner the sub-task that does it, or leave shown_by out", "row %q of the request has no owner to show it", o.ID)
		case !c.SubTasks[owner].Shows(o.ShownBy):
			c.report(in+"shown_by", "copy the one that shows it, or leave shown_by out",
				"row %q of the request is shown by %q, which is no success criterion or gate of %s", o.ID, text.Cut(o.ShownBy, maxID), c.called(owner))
		}
	}
}

// subTask checks one sub-task by itself; in is the prefix of its fields' paths.
func (c *checker) subTask(in, called string, s boulder.Spec) {
	switch {
	case len(s.ID) > maxID:
		c.report(in+"id", "choose a shorter one", "the id %q is longer than %d characters", text.Cut(s.ID, 30), maxID)
	case !validID().MatchString(s.ID):
		c.report(in+"id", "use letters (a-z, A-Z), digits, - and _", "%q cannot be an id", s.ID)
	}
	if blank(s.Description) {
		c.report(in+"description", "say under description what is to be done", "%s has no description", called)
	}
	c.oneLine(in, "subject", s.Subject)
	c.oneLine(in, "active_form", s.ActiveForm)
	c.oneLine(in, "agent", s.Agent)
	c.notBlank(in, "success_criteria", s.SuccessCriteria)
	c.notBlank(in, "gates", s.Gates)
	c.notBlank(in, "no_worse", s.NoWorse)
	c.notBlank(in, "outputs", s.Outputs)
	for i, pattern := range s.Writes {
		if err := scope.Check(pattern); err != nil {
			c.report(fmt.Sprintf("%swrites[%d]", in, i), "write a path below the project, such as src/theme/** or docs/",
				"%s says that it writes what no file can be: %v", called, err)
		}
	}
	c.commands(in+"gates", s.Gates)
	c.commands(in+"no_worse", s.NoWorse)
	for i, gate := range s.NoWorse {
		if slices.Contains(s.Gates, gate) {
			c.report(fmt.Sprintf("%sno_worse[%d]", in, i),
				"keep it under gates if it must pass, or under no_worse if it may stay as red as it was",
				"%s has the command %q under gates and under no_worse", called, text.Cut(gate, maxID))
		}
	}
	c.models(in+"model", s.Model)
	c.effort(in+"effort", s.Effort)
}

var validID = text.Regexp(`^[\w-]+$`)

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func (c *checker) oneLine(in, field, value string) {
	if strings.ContainsAny(value, "\n\r") {
		c.report(in+field, "shorten it; details belong into the description", "%s has more than one line", field)
	}
}

func (c *checker) notBlank(in, field string, items []string) {
	for i, item := range items {
		if blank(item) {
			c.report(fmt.Sprintf("%s%s[%d]", in, field, i), "write something, or remove it", "an entry of %s is empty", field)
		}
	}
}

// maxParsed bounds the commands that the shell checks, a process each. Further invalid ones are red when run.
const maxParsed = 500

func (c *checker) commands(path string, lines []string) {
	for i, line := range lines {
		what, known := c.parsed[line]
		if !known && len(c.parsed) < maxParsed && !blank(line) {
			what = command.Syntax(line)
			c.parsed[line] = what
		}
		if what != "" {
			c.report(fmt.Sprintf("%s[%d]", path, i), "correct it: `sh -n -c` has to accept it",
				"the shell cannot read the command: %s", text.Cut(what, 200))
		}
	}
}

func (c *checker) models(path string, models boulder.Models) {
	for i, err := range providers.CheckModels(models) {
		at := path
		if len(models.All()) > 1 {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		c.report(at, "`opencode models` lists those there are", "this is no model: %v", err)
	}
}

func (c *checker) effort(path, effort string) {
	if effort == "" {
		return
	}
	if err := providers.CheckEffort(effort); err != nil {
		c.report(path, "the error about another one lists those that a model has", "%v", err)
	}
}

func (c *checker) graph() {
	for _, f := range dag.Check(graph(c.Plan)) {
		s, who := c.SubTasks[f.Node], c.called(f.Node)
		at := fmt.Sprintf("sub_tasks[%d].depends_on[%d]", f.Node, f.Edge)
		switch f.Kind {
		case dag.Duplicate:
			c.report(fmt.Sprintf("sub_tasks[%d].id", f.Node), "give each its own",
				"the id %q is taken by an earlier sub-task", text.Cut(s.ID, maxID))
		case dag.Self:
			c.report(at, "remove it from depends_on", "%s depends on itself", who)
		case dag.Repeated:
			c.report(at, "remove one from depends_on", "%s names %q twice", who, text.Cut(s.DependsOn[f.Edge], maxID))
		case dag.Unknown:
			c.report(at, "add it or remove it from depends_on"+didYouMean(s.DependsOn[f.Edge], c.Plan),
				"%s depends on %q, which is not in the plan", who, text.Cut(s.DependsOn[f.Edge], maxID))
		case dag.Cycle:
			c.report(at, "remove one of these dependencies", "dependency cycle: %s", cycle(f.Path))
		}
	}
}

func graph(p *boulder.Plan) []dag.Node {
	nodes := make([]dag.Node, len(p.SubTasks))
	for i, s := range p.SubTasks {
		nodes[i] = dag.Node{ID: s.ID, DependsOn: s.DependsOn}
	}
	return nodes
}

func cycle(path []string) string {
	const shown, arrow = 12, " → "
	if n := len(path) - 1; n >= shown {
		return fmt.Sprintf("%s → … → %s (%d sub-tasks)", strings.Join(path[:shown-2], arrow), path[n], n)
	}
	return strings.Join(path, arrow)
}

func didYouMean(id string, p *boulder.Plan) string {
	ids := make([]string, len(p.SubTasks))
	for i, s := range p.SubTasks {
		ids[i] = s.ID
	}
	if meant := text.Nearest(id, ids); meant != "" {
		return fmt.Sprintf(" (did you mean %q?)", meant)
	}
	return ""
}
