package cli

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// ofBlocker tells what only a person can answer, and what a person answered.
func ofBlocker(body boulder.Body) string {
	switch b := body.(type) {
	case boulder.BlockerRaised:
		text := fmt.Sprintf("%s %s (%s): %s", degree(b.Blocker.Hard), b.Blocker.ID, b.Blocker.Category, b.Blocker.Question)
		return text + prefixed("; chosen for now: ", b.Blocker.ChosenOption)
	case boulder.BlockerSettled:
		return describeSettled(b.BlockerID, b.Status, b.Allowed, b.Answer)
	}
	return ""
}

// degree names a blocker by whether work can go on without its answer.
func degree(hard bool) string {
	if hard {
		return "hard blocker"
	}
	return "soft blocker"
}

func describeSettled(id string, status boulder.BlockerStatus, allowed bool, answer string) string {
	switch {
	case status == boulder.BlockerSkipped:
		return id + " gets no answer: go on without"
	case allowed:
		return joinedBy(": ", id+" is allowed", answer)
	}
	return joinedBy(": ", id+" is answered", answer)
}

// raisedText is a blocker of a sub-task on one line.
func raisedText(b boulder.RaisedBlocker) string {
	text := fmt.Sprintf("%s (%s): %s%s", b.ID, hardness(b.Hard), b.Question, prefixed("; chosen for now: ", b.Choice))
	if b.Status.Settled() {
		text += "; " + strings.TrimPrefix(describeSettled(b.ID, b.Status, b.Allowed, b.Answer), b.ID+" ")
	}
	return text
}

func hardness(hard bool) string {
	if hard {
		return "hard"
	}
	return "soft"
}

// waitingBlockers counts what a person may still answer: of sub-tasks that are over, nothing.
type waitingBlockers struct {
	Hard int `json:"hard"` // sub-tasks stand still because of them, or will
	Soft int `json:"soft"` // the agents chose for themselves
}

func waitingIn(subTasks []boulder.SubTask) waitingBlockers {
	var w waitingBlockers
	for i := range subTasks {
		if subTasks[i].Status.Terminal() {
			continue
		}
		for _, b := range subTasks[i].Blockers {
			switch {
			case b.Status.Settled():
			case b.Hard:
				w.Hard++
			default:
				w.Soft++
			}
		}
	}
	return w
}

// awaiting reports whether a sub-task stands still until somebody answers a blocker.
func awaiting(d store.Detail) bool {
	for i := range d.SubTasks {
		if t := &d.SubTasks[i]; t.Parked && len(t.AwaitedBy(t.Attempts)) > 0 {
			return true
		}
	}
	return false
}

// text is the count for people; empty if nothing waits.
func (w waitingBlockers) text() string {
	switch {
	case w.Hard > 0 && w.Soft > 0:
		return fmt.Sprintf("%d hard and %s wait for an answer", w.Hard, plural(w.Soft, "soft blocker"))
	case w.Hard > 1 || w.Soft > 1:
		return plural(w.Hard+w.Soft, degree(w.Hard > 0)) + " wait for an answer"
	case w.Hard+w.Soft == 1:
		return "1 " + degree(w.Hard > 0) + " waits for an answer"
	}
	return ""
}

// clarifyHint is how a person gets at what waits for them.
const clarifyHint = "manager blockers clarify"
