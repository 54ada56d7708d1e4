package view

import (
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
)

// need is something in a boulder that the user has to see to, or to know of.
type need struct {
	mark    string        // one column: ? is waited for, ✗ failed, ! stands still
	name    string        // the sub-task as [2/3], for a question behind the blocker's id
	left    time.Duration // until its session continues without an answer; 0: it waits
	text    string        // the question, or subject and reason
	command string        // to type; empty: nothing helps by itself
}

// needsOf lists what is waited for and what is in trouble: questions first, then failed, parked and blocked sub-tasks in
// the order of the plan. raised are the full records of blockers, as far as they are known. on is added to commands that
// have to say which boulder is meant.
func needsOf(s *boulder.State, raised []boulder.Blocker, on string, now time.Time) (needs []need) {
	var tasks []boulder.SubTask
	places, asking := map[string]string{}, map[string]bool{}
	for _, t := range s.SubTasks {
		tasks, places[t.ID] = append(tasks, *t), numbered(t.Position, len(s.SubTasks))
	}
	for _, b := range report.Blockers(s.Boulder, tasks, raised, now) {
		if !b.Awaited {
			continue
		}
		asking[b.SubTaskID] = true
		n := need{mark: "?", name: b.ID + " " + places[b.SubTaskID], text: b.Question, command: "manager blockers answer " + b.ID}
		n.command += map[bool]string{true: " --allow", false: ` "…"`}[b.Ask != nil && b.Ask.Kind == boulder.AskPermission]
		if blockers.Waiting(&b.Blocker, now) {
			n.left = b.Until.Sub(now)
		}
		needs = append(needs, n)
	}
	for _, t := range tasks {
		n := need{mark: "!", name: places[t.ID], text: t.Subject + ": " + t.Reason, command: "manager retry " + t.ID + on}
		switch {
		case t.Status == boulder.SubTaskFailed:
			n.mark = "✗"
		case t.Parked && !asking[t.ID]:
		case t.Status == boulder.SubTaskBlocked && !t.Parked:
			n.command = ""
		default:
			continue
		}
		needs = append(needs, n)
	}
	return needs
}

// needLines draws needs in at most room lines, none of which is as wide as the terminal: with the commands to type if
// they fit. What does not fit is counted.
func needLines(needs []need, width, room int, p page.Paint) []string {
	var heads, full []string
	for _, n := range needs {
		head := n.mark + " " + n.name + " " + text.If(n.left > 0, "("+text.Elapsed(n.left.Truncate(time.Second))+" left) ")
		heads = append(heads, p.Yellow(head)+text.Clip(n.text, width-1-ansi.StringWidthWc(head)))
		full = append(full, heads[len(heads)-1])
		if n.command != "" {
			full = append(full, p.Dim("    "+text.Clip(n.command, width-5)))
		}
	}
	for _, all := range [][]string{full, heads} {
		if len(all) > 0 && len(all) < room {
			return append([]string{p.Yellow("Needs you")}, all...)
		}
	}
	clip := func(s string) string { return text.Clip(s, width-1) }
	return fit(heads, 0, room, clip, "and %d more: manager status") // they matter more than what stands above them
}
