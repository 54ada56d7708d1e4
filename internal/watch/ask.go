package watch

import (
	"cmp"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// ask is what OpenCode wants a person to say: one of the two.
type ask struct {
	permission *opencode.PermissionRequest
	question   *opencode.QuestionRequest
}

func (a ask) id() string {
	if a.permission != nil {
		return a.permission.ID
	}
	return a.question.ID
}

func (a ask) sessionID() string {
	if a.permission != nil {
		return a.permission.SessionID
	}
	return a.question.SessionID
}

// String says it in a line.
func (a ask) String() string {
	if p := a.permission; p != nil {
		return text.Short("permission to "+p.Permission+" "+strings.Join(p.Patterns, ", "), 200)
	}
	asked := "a question"
	if all := a.question.Questions; len(all) > 0 {
		asked = "the question " + cmp.Or(all[0].Question, all[0].Header)
	}
	return text.Short(asked, 200)
}
