package tasklist

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// tags returns the lists of a tasks.json by their tags. A file from before there were tags has one, "".
func tags(root *value) (all []field) {
	if isTasks(root.get("tasks")) {
		return []field{{"", root}}
	}
	for _, f := range root.fields {
		if f.value.object && isTasks(f.value.get("tasks")) {
			all = append(all, f)
		}
	}
	return all
}

// isTasks tells a list of tasks from others of the name, as that of an editor. A tag may be empty.
func isTasks(v *value) bool {
	return v != nil && v.list && (len(v.items) == 0 || some(v.items, "title") && some(v.items, "status", "dependencies", "subtasks", "testStrategy"))
}

// readTaskMaster reads the tasks of one tag. A task with subtasks is the structure of these.
func (r *reader) readTaskMaster(root *value) error {
	r.list.Kind, r.closes = taskMaster, true
	tasks, at := root, 0
	if root.object {
		all := tags(root)
		var names []string
		for _, tag := range all {
			names = append(names, tag.key)
		}
		if at = slices.Index(names, cmp.Or(r.Tag, "master")); at < 0 && r.Tag == "" && len(all) == 1 {
			at = 0
		}
		if at < 0 && r.Tag != "" {
			return r.refuse(0, fmt.Sprintf("it has no tag %q", r.Tag), "name one of "+strings.Join(names, ", "))
		}
		if at < 0 {
			return r.refuse(0, "it has the tags "+strings.Join(names, ", "), "say with --tag which of them")
		}
		for n, tag := range all {
			if n != at {
				r.note(tag.value.line, tag.key, Left, "another tag (--tag takes it)")
			}
		}
		for _, f := range root.fields {
			if !slices.ContainsFunc(all, func(tag field) bool { return tag.key == f.key }) && f.key != "tasks" && f.key != "metadata" {
				r.note(f.value.line, f.key, Left, "a field that manager does not use")
			}
		}
		tasks = all[at].value
		meta := tasks.get("metadata")
		r.title = meta.get("projectName", "project").line1()
		if said := meta.get("description").line1(); !strings.HasPrefix(said, "Tasks for ") { // what the tool writes by itself
			r.about = said
		}
		tasks = tasks.get("tasks")
	}
	for n, v := range tasks.items {
		task, subs := r.task(v, n, ""), v.get("subtasks")
		switch {
		case subs == nil:
		case task == nil || !subs.list:
			why := text.If(task == nil, "their task has no title") + text.If(task != nil, "they are "+subs.is())
			r.note(subs.line, fmt.Sprintf("item %d", n+1), Unread, "its subtasks cannot be read: %s", why)
		default:
			for m, sub := range subs.items {
				r.task(sub, m, task.id)
			}
		}
	}
	return nil
}

func (v *value) entries() []*value {
	if v == nil {
		return nil
	}
	return v.items
}

// task reads a task, or a subtask of the one with the id parent. What it depends on is numbered within its parent, or has
// the parent's number before a dot.
func (r *reader) task(v *value, n int, parent string) *item {
	i := r.item(v, n, parent)
	if i == nil {
		return nil
	}
	i.state, i.why = r.status(v.get("status"), i)
	i.ordered, i.parent = true, parent
	i.after = r.ids(v.get("dependencies"), i)
	if i.id == "" {
		i.id = fmt.Sprint(n + 1)
	}
	if parent != "" {
		for k, id := range i.after {
			if !strings.Contains(id, ".") {
				i.after[k] = parent + "." + id
			}
		}
	}
	r.items = append(r.items, i)
	r.unused(v, "dependencies", "subtasks", "parentTaskId", "parentId", "parentTask", "isSubtask", "previousStatus")
	return i
}
