package session

import (
	"cmp"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// Ask is what OpenCode wants a person to say: one of the two.
type Ask struct {
	Permission *opencode.PermissionRequest
	Question   *opencode.QuestionRequest
}

// ID is the request's.
func (a Ask) ID() string {
	if a.Permission != nil {
		return a.Permission.ID
	}
	return a.Question.ID
}

// SessionID is the session that asks.
func (a Ask) SessionID() string {
	if a.Permission != nil {
		return a.Permission.SessionID
	}
	return a.Question.SessionID
}

// String says it in a line.
func (a Ask) String() string {
	if p := a.Permission; p != nil {
		return text.Short("permission to "+p.Permission+" "+strings.Join(p.Patterns, ", "), 200)
	}
	asked := "a question"
	if all := a.Question.Questions; len(all) > 0 {
		asked = "the question " + cmp.Or(all[0].Question, all[0].Header)
	}
	return text.Short(asked, 200)
}
