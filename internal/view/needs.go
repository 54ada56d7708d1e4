package view

import (
	"fmt"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
)

// Need is something in a boulder that the user has to see to, or to know of.
type Need struct {
	Mark    string        // one column: ? is waited for, ✗ failed, ! stands still
	Name    string        // the sub-task as [2/3], for a question behind the blocker's id
	Left    time.Duration // until its session continues without an answer; 0: it waits
	Text    string        // the question, or subject and reason
	Command string        // to type; empty: nothing helps by itself
}

// Needs lists what is waited for and what is in trouble: questions first, then failed, parked and blocked sub-tasks in
// the order of the plan. raised are the full records of blockers, by id, as far as they are known. on is added to
// commands that have to say which boulder is meant.
func Needs(s *boulder.State, raised map[string]boulder.Blocker, on string, now time.Time) []Need {
	var asked, troubled []Need
	for _, t := range s.SubTasks {
		place := numbered(t.Position, len(s.SubTasks))
		questions := asks(t, place, raised, now)
		asked = append(asked, questions...)
		n := Need{Name: place, Text: t.Subject + ": " + t.Reason}
		switch {
		case t.Status == boulder.SubTaskFailed:
			n.Mark, n.Command = "✗", "manager retry "+t.ID+on
		case t.Parked && len(questions) == 0:
			n.Mark, n.Command = "!", "manager retry "+t.ID+on
		case t.Status == boulder.SubTaskBlocked && !t.Parked:
			n.Mark = "!"
		default:
			continue
		}
		troubled = append(troubled, n)
	}
	return append(asked, troubled...)
}

// asks are the blockers of a sub-task that an answer is awaited for.
func asks(t *boulder.SubTask, place string, raised map[string]boulder.Blocker, now time.Time) []Need {
	var all []Need
	for _, k := range t.Blockers {
		b, known := raised[k.ID]
		if !known {
			b = boulder.Blocker{ID: k.ID, BoulderID: "-", Attempt: k.Attempt, Hard: k.Hard}
		}
		b.Status = k.Status
		if blockers.StandingOf(&b, t, now) != blockers.Awaited {
			continue
		}
		n := Need{Mark: "?", Name: k.ID + " " + place, Text: k.Question, Command: fmt.Sprintf(`manager blockers answer %s "…"`, k.ID)}
		if b.Ask != nil && b.Ask.Kind == boulder.AskPermission {
			n.Command = "manager blockers answer " + k.ID + " --allow"
		}
		if blockers.Waiting(&b, now) {
			n.Left = b.Until.Sub(now)
		}
		all = append(all, n)
	}
	return all
}

// NeedLines draws needs in at most room lines, none of which is as wide as the terminal: with the commands to type if
// they fit. What does not fit is counted.
func NeedLines(needs []Need, width, room int, p page.Paint) []string {
	if len(needs) == 0 || room <= 0 {
		return nil
	}
	full := 1
	for _, n := range needs {
		full += 1 + min(1, len(n.Command))
	}
	lines := []string{p.Yellow("Needs you")}
	if full > room && len(needs) >= room {
		lines = nil // the lines themselves matter more than what stands above them
	}
	for i, n := range needs {
		if left := len(needs) - i; full > room && left > 1 && len(lines) == room-1 {
			return append(lines, text.Clip(fmt.Sprintf("  and %d more: manager status", left), width-1))
		}
		head := n.Mark + " " + n.Name + " "
		if n.Left > 0 {
			head += "(" + text.Elapsed(n.Left.Truncate(time.Second)) + " left) "
		}
		lines = append(lines, p.Yellow(head)+text.Clip(n.Text, width-1-ansi.StringWidthWc(head)))
		if n.Command != "" && full <= room {
			lines = append(lines, p.Dim("    "+text.Clip(n.Command, width-5)))
		}
	}
	return lines
}
