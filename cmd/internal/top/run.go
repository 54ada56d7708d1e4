package top

import (
	"errors"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/workspace"
)

// confirmation is what waits for the user's y.
type confirmation struct {
	question string
	do       func() tea.Cmd
}

func (m *model) confirm(question string, do func() tea.Cmd) {
	m.toConfirm = &confirmation{question, do}
}

// chosen returns the boulder at the cursor, or "" with a message.
func (m *model) chosen() string {
	id := m.pane[onBoulders].id()
	if id == "" {
		m.say("", errors.New("there is no boulder here"))
	}
	return id
}

func (m *model) resume() tea.Cmd {
	id := m.chosen()
	if id == "" {
		return nil
	}
	return m.do(nil, func() (string, error) {
		pid, err := m.project.Continue(m.ctx, id, m.starter)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Boulder %s continues in process %d.", boulder.ShortID(id), pid), nil
	})
}

func (m *model) land() {
	id := m.chosen()
	if id == "" {
		return
	}
	m.confirm("land the results of boulder "+boulder.ShortID(id)+" in your files?", func() tea.Cmd {
		return m.do(nil, func() (string, error) {
			l, err := m.project.Land(m.ctx, id, project.Land{How: boulder.LandedFiles})
			if _, conflict := errors.AsType[*workspace.ConflictError](err); conflict {
				err = fmt.Errorf("%w: see `manager land --files %s`", err, boulder.ShortID(id))
			}
			if err != nil {
				return "", err
			}
			return "Results: " + view.Landed(l.Landed) + ".", nil
		})
	})
}

func (m *model) start() {
	m.prompt("plan file (Enter: .manager/plan.yaml)> ", func(typed string, complete bool) tea.Cmd {
		if !complete {
			return nil
		}
		file := strings.TrimSpace(typed)
		if file == "" {
			file = m.project.PlanPath()
		}
		return m.startPlan(file, false)
	})
}

// startPlan starts a plan file. One that was completed runs again if the user says so.
func (m *model) startPlan(file string, again bool) tea.Cmd {
	typed := m.editor
	return m.do(typed, func() (string, error) {
		id, pid, err := m.project.StartPlan(m.ctx, file, again, m.starter)
		if ran, is := errors.AsType[*project.RanError](err); is {
			return "", &unsureError{
				confirmation{ran.Error() + ". Run it again?", func() tea.Cmd { return m.startPlan(file, true) }}, typed,
			}
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Boulder %s runs in the background (process %d).", boulder.ShortID(id), pid), nil
	})
}

// unsureError is the outcome of what has to be confirmed first. typed is the editor that it closes, or nil.
type unsureError struct {
	confirmation
	typed *view.Editor
}

func (e *unsureError) Error() string { return e.question }
