package tasklist

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// readLines reads a file with a JSON object in each line.
func (r *reader) readLines(data []byte) error {
	var all []*value
	d, line := data, 0
	for len(d) > 0 {
		var one []byte
		one, d, _ = bytes.Cut(d, []byte("\n"))
		line++
		if one = bytes.TrimSpace(one); len(one) == 0 {
			continue
		}
		v, err := newDecoder(one, line).next()
		switch {
		case conflict(one):
			r.note(line, "", Unread, "a conflict of a merge: both sides are read")
			continue
		case err != nil:
			r.list.Total++
			r.note(line, "", Unread, "%v", err)
			continue
		}
		all = append(all, v)
	}
	if issues := some(all, "issue_type", "_type") || some(all, "title") && some(all, "status"); !issues {
		return &Unknown{Looks: "looks like lines of JSON, the first one " + shape(all[0])}
	}
	return r.readBeads(all)
}

// readBeads reads issues. An issue that others are children of is their structure.
func (r *reader) readBeads(all []*value) error {
	r.list.Kind = beads
	ids, children := map[string]bool{}, map[string]bool{}
	for _, v := range all {
		ids[v.get("id").line1()] = true
		for _, d := range v.get("dependencies").entries() {
			if d.get("type", "dependency_type").plain() == "parent-child" {
				children[d.get("depends_on_id", "id").line1()] = true
			}
		}
	}
	for n, v := range all {
		if kind := v.get("_type").plain(); kind != "" && kind != "issue" {
			r.list.Total++
			r.note(v.line, v.get("key", "id").line1(), Left, "a record of the type %s, no issue", kind)
			continue
		}
		i := r.item(v, n, "")
		if i == nil {
			continue
		}
		i.ordered = true
		i.state, i.why = r.status(v.get("status"), i)
		kind := strings.ToLower(v.get("issue_type").plain())
		switch {
		case i.state != open:
		case slices.Contains([]string{"message", "event", "gate", "agent", "role", "rig", "convoy", "slot", "wisp", "merge-request"}, kind):
			i.state, i.why = gone, "a "+kind+", no task"
		case kind == "milestone" && !children[i.id]:
			i.state, i.why = gone, "a milestone: no work itself"
		case v.get("is_template").plain() == "true":
			i.state, i.why = gone, "a template"
		case v.get("ephemeral").plain() == "true":
			i.state, i.why = gone, "ephemeral"
		case v.get("pinned").plain() == "true":
			i.state, i.why = put, "pinned"
		}
		if until, err := time.Parse(time.RFC3339, v.get("defer_until").plain()); err == nil && until.After(r.Now) && i.state == open {
			i.state, i.why = put, "put off until "+until.Format(time.DateOnly)
		}
		r.links(v, i)
		if at := strings.LastIndexByte(i.id, '.'); at > 0 && i.parent == "" && ids[i.id[:at]] {
			i.parent = i.id[:at] // that is what such an id says
		}
		switch v.get("priority").plain() {
		case "0", "1", "P0", "P1":
			i.priority = boulder.High
		case "3", "4", "P3", "P4":
			i.priority = boulder.Low
		}
		r.items = append(r.items, i)
		r.unused(v, "_type", "issue_type", "dependencies", "is_template", "ephemeral", "pinned", "defer_until",
			"dependency_count", "dependent_count", "comment_count", "compaction_level", "parent", "created_at", "updated_at", "closed_at", "started_at")
	}
	return nil
}

// links reads what an issue depends on, and of what it is a part.
func (r *reader) links(v *value, i *item) {
	i.parent = v.get("parent").line1()
	deps := v.get("dependencies")
	if deps != nil && !deps.list {
		r.note(deps.line, i.called(), Unread, "its dependencies are %s, and no list", deps.is())
	}
	for _, d := range deps.entries() {
		to, kind := d.get("depends_on_id", "id").line1(), d.get("type", "dependency_type").plain()
		switch {
		case !d.object:
			i.after = appendNew(i.after, d.plain())
		case to == "":
			r.note(d.line, i.called(), Unread, "a dependency names no issue")
		case kind == "parent-child":
			i.parent = to
		case kind == "blocks", kind == "waits-for", kind == "":
			i.after = appendNew(i.after, to)
		case kind == "conditional-blocks":
			if i.state == open {
				i.state, i.why = put, "only to be done if another fails"
			}
		default:
			r.note(d.line, i.called(), Left, "a link that gives no order (%s)", kind)
		}
	}
}
