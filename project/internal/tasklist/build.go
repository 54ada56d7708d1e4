package tasklist

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/dag"
	"github.com/bouldermgr/manager/internal/text"
)

// build makes the plan of the items.
func (r *reader) build() error {
	r.tellFields()
	byID := r.giveIDs()
	r.nest(byID)
	r.resolve(byID)
	r.postpone()
	taken := r.take()
	if len(taken) == 0 {
		why := text.If(r.list.Total == 0, "there is no task in it") + text.If(r.list.Total > 0, "none of its tasks is open")
		if reasons := r.reasons(); reasons != "" {
			why += ": " + reasons
		}
		return r.refuse(0, why, "name another list, or a task")
	}
	for n, i := range taken {
		for k := n + 1; i.newID == ""; k++ {
			if id := fmt.Sprint(k); !r.taken[id] {
				i.newID, r.taken[id] = id, true
			}
		}
	}
	r.order(taken)
	r.whole()
	taken, err := r.sorted(taken)
	if err != nil {
		return err
	}
	r.list.Taken = len(taken)
	r.plan(taken)
	return nil
}

// reasons counts why tasks are left.
func (r *reader) reasons() string {
	counts := map[string]int{}
	var all []string
	for _, n := range r.list.Notes {
		if n.What == Left && n.Item != "" || n.What == Unread {
			if counts[n.Why]++; counts[n.Why] == 1 {
				all = append(all, n.Why)
			}
		}
	}
	for i, why := range all {
		all[i] = fmt.Sprintf("%s (%d)", why, counts[why])
	}
	return strings.Join(all[:min(len(all), 5)], ", ")
}

func (r *reader) tellFields() {
	var names []string
	for key, n := range r.fields {
		names = append(names, fmt.Sprintf("%s (%d)", text.Clip(key, 40), n))
	}
	slices.Sort(names)
	if len(names) > 0 {
		r.note(0, "", Left, "fields that manager does not use: %s", strings.Join(names, ", "))
	}
}

// giveIDs gives every item that has an id one that a plan may have, and returns the items by the ids of the file.
func (r *reader) giveIDs() map[string]*item {
	byID := map[string]*item{}
	for _, i := range r.items {
		if i.id != "" {
			if first := byID[i.id]; first == nil {
				byID[i.id] = i
			} else {
				r.note(i.line, i.called(), Changed, "the id is that of line %d, too: what depends on it waits for the first", first.line)
			}
		}
	}
	fit := func(id string) string {
		id = strings.Trim(notID().ReplaceAllString(id, "-"), "-")
		return cmp.Or(strings.TrimRight(id[:min(len(id), maxID-5)], "-"), "task")
	}
	for id, i := range byID { // those that may stay first
		if fit(id) == id && !boulder.ReservedID(id) {
			i.newID, r.taken[id] = id, true
		}
	}
	for _, i := range r.items {
		if i.id == "" || i.newID != "" {
			continue // without one it gets its number in the plan
		}
		id := fit(i.id)
		i.newID = id
		for k := 2; r.taken[i.newID] || boulder.ReservedID(i.newID); k++ {
			i.newID = fmt.Sprintf("%s-%d", id, k)
		}
		r.taken[i.newID] = true
	}
	return byID
}

// maxID is the length of an id in a plan.
const maxID = 64

var notID = text.Regexp(`[^A-Za-z0-9_-]+`)

// nest connects parts with what they are parts of. A part of what is cancelled or put off is that, too.
func (r *reader) nest(byID map[string]*item) {
	for _, i := range r.items {
		if i.parent == "" {
			continue
		}
		up := byID[i.parent]
		for at := up; at != nil; at = at.up {
			if at == i {
				r.note(i.line, i.called(), Changed, "it is a part of itself (by way of %s): taken on its own", i.parent)
				up = nil
				break
			}
		}
		if up == nil {
			if byID[i.parent] == nil {
				r.note(i.line, i.called(), Changed, "it is a part of %s, which is not in the file", i.parent)
			}
			continue
		}
		i.up = up
		up.parts = append(up.parts, i)
	}
	for _, i := range r.items {
		for at := i.up; at != nil && i.state == open; at = at.up {
			if at.state != open && (at.state != done || r.closes) {
				i.state, i.why = at.state, fmt.Sprintf("%s, of which it is a part, is %s", at.called(), cmp.Or(at.why, "done"))
			}
		}
	}
}

// within reports whether i is at, or a part of it.
func (i *item) within(at *item) bool {
	for ; i != nil; i = i.up {
		if i == at {
			return true
		}
	}
	return false
}

// leaves returns the parts without parts.
func (i *item) leaves() (all []*item) {
	if len(i.parts) == 0 {
		return []*item{i}
	}
	for _, part := range i.parts {
		all = append(all, part.leaves()...)
	}
	return all
}

// resolve finds the items that the ids of dependencies mean.
func (r *reader) resolve(byID map[string]*item) {
	for _, i := range r.items {
		for _, id := range i.after {
			to := byID[id]
			if to == nil && i.up != nil { // a subtask that means another task
				to = byID[strings.TrimPrefix(id, i.parent+".")]
			}
			switch {
			case to == nil:
				if i.state == open {
					id = strings.TrimPrefix(id, i.parent+".")
					r.note(i.line, i.called(), Changed, "it depends on %s, which is not in the file: it begins without", id)
				}
			case to == i:
				r.note(i.line, i.called(), Changed, "it depends on itself: not any more")
			case i.within(to), to.within(i): // that is structure, and no order
			default:
				i.waits = append(i.waits, to)
			}
		}
	}
}

// postpone leaves what waits for something that is put off.
func (r *reader) postpone() {
	for again := true; again; {
		again = false
		for _, i := range r.items {
			for at := i; at != nil && i.state == open && len(i.parts) == 0; at = at.up {
				for _, to := range at.waits {
					for _, leaf := range to.leaves() {
						if leaf.state == put {
							i.state, again = put, true
							i.why = fmt.Sprintf("it depends on %s, which is left", leaf.called())
							break
						}
					}
					if i.state != open {
						break
					}
				}
			}
		}
	}
}

// take returns the open items without parts, and tells of the others.
func (r *reader) take() (taken []*item) {
	for _, i := range r.items {
		switch {
		case len(i.parts) > 0 && i.state == open:
			if slices.ContainsFunc(i.leaves(), func(leaf *item) bool { return leaf.state == open }) {
				r.note(i.line, i.called(), Structure, "in the plan as its open parts")
			} else {
				r.note(i.line, i.called(), Left, "none of its parts is open")
			}
		case len(i.parts) == 0 && i.state == open:
			if i.why == "blocked" && len(i.waits) == 0 {
				r.note(i.line, i.called(), Changed, "it is marked as blocked, and the file does not say by what: taken")
			}
			taken = append(taken, i)
		default:
			r.note(i.line, i.called(), Left, "%s", cmp.Or(i.why, "done"))
		}
	}
	return taken
}

// order connects the taken items.
func (r *reader) order(taken []*item) {
	for _, i := range taken {
		for _, to := range i.waits {
			if to.state == gone {
				r.note(i.line, i.called(), Changed, "it depends on %s, which is %s: it begins without", to.called(), to.why)
			}
			for _, leaf := range r.ends(to) {
				i.wait(leaf)
			}
		}
	}
	for _, i := range taken { // what it is a part of may wait, too: then its first parts do
		for at := i.up; at != nil; at = at.up {
			if slices.ContainsFunc(i.edges, func(e *item) bool { return e.within(at) }) {
				continue
			}
			for _, to := range at.waits {
				for _, leaf := range r.ends(to) {
					i.wait(leaf)
				}
			}
		}
	}
	if r.oneByOne && len(taken) > 1 && !slices.ContainsFunc(taken, func(i *item) bool { return i.ordered }) {
		r.note(0, "", Order, "one after the other: the file names no dependencies")
	}
	named := slices.ContainsFunc(taken, func(i *item) bool { return len(i.edges) > 0 })
	for n, i := range taken {
		if n == 0 || i.ordered || !r.oneByOne {
			continue
		}
		if cycle := named && taken[n-1].reaches(i, map[*item]bool{}); !cycle {
			i.wait(taken[n-1])
		}
	}
}

func (i *item) wait(other *item) {
	if other != i && !slices.Contains(i.edges, other) {
		i.edges = append(i.edges, other)
	}
}

// reaches reports whether i waits for to, directly or through others. known are the answers for the same to.
func (i *item) reaches(to *item, known map[*item]bool) bool {
	if i == to {
		return true
	}
	if _, asked := known[i]; !asked {
		known[i] = false
		known[i] = slices.ContainsFunc(i.edges, func(next *item) bool { return next.reaches(to, known) })
	}
	return known[i]
}

// ends returns the open leaves of an item that no other of them waits for.
func (r *reader) ends(of *item) (last []*item) {
	if last, known := r.last[of]; known {
		return last
	}
	defer func() { r.last[of] = last }()
	var left []*item
	waited := map[*item]bool{}
	for _, leaf := range of.leaves() {
		if leaf.state != open {
			continue
		}
		left = append(left, leaf)
		for at := leaf; at != of && at != nil; at = at.up {
			for _, to := range at.waits {
				for _, l := range to.leaves() {
					waited[l] = true
				}
			}
		}
	}
	for _, leaf := range left {
		if !waited[leaf] {
			last = append(last, leaf)
		}
	}
	if len(last) == 0 { // a cycle, which is refused later
		return left
	}
	return last
}

// whole has criteria and gates of an item with parts checked by the last part, which waits for the others.
func (r *reader) whole() {
	for n := len(r.items) - 1; n >= 0; n-- {
		i := r.items[n]
		if len(i.parts) == 0 || i.state != open || len(i.criteria)+len(i.gates) == 0 {
			continue
		}
		last := r.ends(i)
		if len(last) == 0 {
			continue
		}
		at, known := last[len(last)-1], map[*item]bool{}
		for _, other := range last {
			if !other.reaches(at, known) {
				at.wait(other)
			}
		}
		at.criteria, at.gates = appendNew(at.criteria, i.criteria...), appendNew(at.gates, i.gates...)
		r.note(i.line, i.called(), Changed, "what shows that the whole is done is asked of its last part")
	}
}

// sorted brings the items into an order in which each stands behind what it waits for, else that of the file.
func (r *reader) sorted(taken []*item) (all []*item, err error) {
	nodes := make([]dag.Node, len(taken))
	for n, i := range taken {
		nodes[n] = dag.Node{ID: i.newID}
		for _, e := range i.edges {
			nodes[n].DependsOn = append(nodes[n].DependsOn, e.newID)
		}
	}
	for _, f := range dag.Check(nodes) {
		i := taken[f.Node]
		way := strings.Join(f.Path[:min(len(f.Path), 12)], " → ") + text.If(len(f.Path) > 12, " → …")
		return nil, r.refuse(i.line, "dependency cycle: "+way, "remove one of these dependencies")
	}
	seen := map[*item]bool{}
	var visit func(i *item)
	visit = func(i *item) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, e := range i.edges {
			visit(e)
		}
		all = append(all, i)
	}
	for _, i := range taken {
		visit(i)
	}
	return all, nil
}

const maxSubject = 100

// plan writes the items as sub-tasks.
func (r *reader) plan(taken []*item) {
	p := &boulder.Plan{Goal: text.Short(cmp.Or(r.goal, r.title), 200), Constraints: r.constraints}
	r.list.Remarks = map[string]string{}
	for _, i := range taken {
		if len(i.criteria) == 0 && len(r.demands) > 0 {
			i.criteria = []string{text.Fold(i.title)}
		}
		s := boulder.Spec{
			ID: i.newID, Subject: text.Short(i.title, maxSubject), SuccessCriteria: appendNew(i.criteria, r.demands...), Priority: i.priority,
			Gates: appendNew(i.gates, r.gates...),
		}
		for _, e := range i.edges {
			s.DependsOn = append(s.DependsOn, e.newID)
		}
		paragraphs := i.texts
		if text.Fold(i.title) != s.Subject {
			paragraphs = appendNew([]string{i.title}, paragraphs...)
		}
		if len(paragraphs) == 0 {
			paragraphs = []string{i.title}
		}
		for at := i.up; at != nil; at = at.up {
			paragraphs = append(paragraphs, "This is a part of "+text.JoinedBy(": ", at.id, text.If(at.id != at.title, at.title)))
			paragraphs = append(paragraphs, at.texts...)
		}
		if i.part != "" {
			paragraphs = append(paragraphs, "This is a part of: "+i.part)
		}
		s.Description = strings.Join(paragraphs, "\n\n")
		p.SubTasks = append(p.SubTasks, s)
		from := fmt.Sprintf("line %d", i.line)
		if i.id != "" && i.id != i.newID {
			from = text.Clip(i.id, 60) + ", " + from
		}
		r.list.Remarks[i.newID] = from
	}
	p.Task = r.request(p)
	r.list.Plan = p
	r.tellGates(p)
}

// request words the request: what the file says of the whole, and what is open of it.
func (r *reader) request(p *boulder.Plan) string {
	var b strings.Builder
	b.WriteString(cmp.Or(r.title, "The tasks of "+filepath.Base(r.name)))
	if r.about != "" {
		b.WriteString("\n\n" + r.about)
	}
	b.WriteString("\n\nTo be done:")
	for _, s := range p.SubTasks {
		b.WriteString("\n- " + s.Subject)
	}
	return b.String()
}

// tellGates tells which commands became gates of how many sub-tasks.
func (r *reader) tellGates(p *boulder.Plan) {
	count := map[string]int{}
	var all []string
	for _, s := range p.SubTasks {
		for _, g := range s.Gates {
			if count[g]++; count[g] == 1 {
				all = append(all, g)
			}
		}
	}
	for _, g := range all {
		of := text.Plural(count[g], "sub-task")
		if count[g] == len(p.SubTasks) && count[g] > 1 {
			of = "every sub-task"
		}
		r.note(0, g, Gate, "of %s", of)
	}
}
