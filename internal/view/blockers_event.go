package view

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// ofBlocker tells what only a person can answer, and what a person answered.
func ofBlocker(body boulder.Body) string {
	switch b := body.(type) {
	case boulder.BlockerRaised:
		text := fmt.Sprintf("%s %s (%s): %s", degree(b.Blocker.Hard), b.Blocker.ID, b.Blocker.Category, b.Blocker.Question)
		return text + Prefixed("; chosen for now: ", b.Blocker.ChosenOption)
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
		return JoinedBy(": ", id+" is allowed", answer)
	}
	return JoinedBy(": ", id+" is answered", answer)
}

// raisedText is a blocker of a sub-task on one line.
func raisedText(b boulder.RaisedBlocker) string {
	text := fmt.Sprintf("%s (%s): %s%s", b.ID, hardness(b.Hard), b.Question, Prefixed("; chosen for now: ", b.Choice))
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

// ClarifyHint is how a person gets at what waits for them.
const ClarifyHint = "manager blockers clarify"
