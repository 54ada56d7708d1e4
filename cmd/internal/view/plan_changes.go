package view

import (
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
)

// PlanChanges prints how a plan differs from an earlier one: + for what is new, - for what is gone, ~ for what is different,
// by sub-task and by field. It prints nothing if nothing differs.
func PlanChanges(o page.Out, was, now *boulder.Plan) {
	c := boulder.ComparePlans(was, now)
	if len(c.Fields) > 0 {
		o.Say()
	}
	for _, f := range c.Fields {
		printFieldChange(o, 0, f)
	}
	for _, p := range c.SubTasks {
		is := func(s boulder.Spec) bool { return s.ID == p.ID }
		if i := slices.IndexFunc(now.SubTasks, is); p.Change == boulder.PartAdded {
			printSpec(o, o.Green("+"), p.ID, now.SubTasks[i], nil)
		} else if i >= 0 {
			printPartChange(o, p, now.SubTasks[i].Subject)
		} else {
			printPartChange(o, p, was.SubTasks[slices.IndexFunc(was.SubTasks, is)].Subject)
		}
	}
	for _, p := range c.Request {
		rows := now.Request
		if p.Change == boulder.PartRemoved {
			rows = was.Request
		}
		printPartChange(o, p, rows[slices.IndexFunc(rows, func(r boulder.Obligation) bool { return r.ID == p.ID })].Text)
	}
	for _, p := range c.Questions {
		asked := now.Facts.Questions
		if p.Change == boulder.PartRemoved {
			asked = was.Facts.Questions
		}
		printPartChange(o, p, asked[slices.IndexFunc(asked, func(q boulder.Question) bool { return q.ID == p.ID })].Question)
	}
}

// printPartChange prints a change with the fields that differ; what was removed or added is known by its name.
func printPartChange(o page.Out, p boulder.PartChange, name string) {
	o.Say()
	mark := map[boulder.ChangeKind]string{
		boulder.PartAdded: o.Green("+"), boulder.PartRemoved: o.Red("-"), boulder.PartChanged: o.Yellow("~"),
	}[p.Change]
	o.Say(mark, " ", o.Strong(name), " ", o.Faint("("+p.ID+")"))
	if p.Change == boulder.PartChanged {
		for _, f := range p.Fields {
			printFieldChange(o, 1, f)
		}
	}
}

func printFieldChange(o page.Out, depth int, f boulder.FieldChange) {
	was, now := edits(f.Was, f.Now)
	name := o.Faint(f.Field + ":")
	switch {
	case f.Field == "sub_tasks" || f.Field == "request" || f.Field == "facts.questions":
		o.Item(depth, o.Yellow("~"), " ", o.Faint(f.Field+" in another order"))
		return
	case len(f.Was) == 1 && len(f.Now) == 1:
		o.Item(depth, o.Yellow("~"), " ", name, " ", o.Plain(f.Was[0]), " ", o.Dim("→"), " ", o.Plain(f.Now[0]))
		return
	case len(f.Was) > 0 && len(f.Now) > 0:
		o.Item(depth, o.Yellow("~"), " ", name)
		depth, name = depth+1, ""
	default:
		name += " "
	}
	for _, item := range was {
		o.Item(depth, o.Red("-"), " ", name, o.Plain(item))
	}
	for _, item := range now {
		o.Item(depth, o.Green("+"), " ", name, o.Plain(item))
	}
}

// maxCompared bounds the items of which edits finds those that stay.
const maxCompared = 1_000

// edits returns what is only in the one or the other of two lists, beside a longest list that is in both in order.
func edits(was, now []string) (gone, added []string) {
	for len(was) > 0 && len(now) > 0 && was[0] == now[0] {
		was, now = was[1:], now[1:]
	}
	if len(was) > maxCompared || len(now) > maxCompared {
		return was, now
	}
	common := make([][]int, len(was)+1) // common[i][j]: how much of was[i:] and now[j:] stays
	for i := range common {
		common[i] = make([]int, len(now)+1)
	}
	for i := len(was) - 1; i >= 0; i-- {
		for j := len(now) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); was[i] == now[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(was) && j < len(now) {
		switch {
		case was[i] == now[j]:
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			gone, i = append(gone, was[i]), i+1
		default:
			added, j = append(added, now[j]), j+1
		}
	}
	return append(gone, was[i:]...), append(added, now[j:]...)
}
