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

// need is something in a boulder that the user has to see to, or to know of.
type need struct {
	mark    string        // one column: ? is waited for, ✗ failed, ! stands still
	name    string        // the sub-task as [2/3], for a question behind the blocker's id
	left    time.Duration // until its session continues without an answer; 0: it waits
	text    string        // the question, or subject and reason
	command string        // to type; empty: nothing helps by itself
}

// needsOf lists what is waited for and what is in trouble: questions first, then failed, parked and blocked sub-tasks in
// the order of the plan. raised are the full records of blockers, by id, as far as they are known. on is added to
// commands that have to say which boulder is meant.
func needsOf(s *boulder.State, raised map[string]boulder.Blocker, on string, now time.Time) []need {
	var asked, troubled []need
	for _, t := range s.SubTasks {
		place, questions := numbered(t.Position, len(s.SubTasks)), len(asked)
		for _, k := range t.Blockers {
			b, known := raised[k.ID]
			if !known {
				b = boulder.Blocker{ID: k.ID, BlockerScope: boulder.BlockerScope{BoulderID: "-", Attempt: k.Attempt}, Hard: k.Hard}
			}
			if b.Status = k.Status; blockers.StandingOf(&b, t, now) != blockers.Awaited {
				continue
			}
			n := need{mark: "?", name: k.ID + " " + place, text: k.Question, command: "manager blockers answer " + k.ID + ` "…"`}
			if b.Ask != nil && b.Ask.Kind == boulder.AskPermission {
				n.command = "manager blockers answer " + k.ID + " --allow"
			}
			if blockers.Waiting(&b, now) {
				n.left = b.Until.Sub(now)
			}
			asked = append(asked, n)
		}
		n := need{mark: "!", name: place, text: t.Subject + ": " + t.Reason, command: "manager retry " + t.ID + on}
		switch {
		case t.Status == boulder.SubTaskFailed:
			n.mark = "✗"
		case t.Parked && len(asked) == questions:
		case t.Status == boulder.SubTaskBlocked && !t.Parked:
			n.command = ""
		default:
			continue
		}
		troubled = append(troubled, n)
	}
	return append(asked, troubled...)
}

// needLines draws needs in at most room lines, none of which is as wide as the terminal: with the commands to type if
// they fit. What does not fit is counted.
func needLines(needs []need, width, room int, p page.Paint) []string {
	if len(needs) == 0 || room <= 0 {
		return nil
	}
	full := 1
	for _, n := range needs {
		full += 1 + min(1, len(n.command))
	}
	lines := []string{p.Yellow("Needs you")}
	if full > room && len(needs) >= room {
		lines = nil // the lines themselves matter more than what stands above them
	}
	for i, n := range needs {
		if more := len(needs) - i; full > room && more > 1 && len(lines) == room-1 {
			return append(lines, text.Clip(fmt.Sprintf("  and %d more: manager status", more), width-1))
		}
		head := n.mark + " " + n.name + " "
		if n.left > 0 {
			head += "(" + text.Elapsed(n.left.Truncate(time.Second)) + " left) "
		}
		lines = append(lines, p.Yellow(head)+text.Clip(n.text, width-1-ansi.StringWidthWc(head)))
		if n.command != "" && full <= room {
			lines = append(lines, p.Dim("    "+text.Clip(n.command, width-5)))
		}
	}
	return lines
}
