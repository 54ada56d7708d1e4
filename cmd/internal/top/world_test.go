package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

const hostile = "\x1b[31mred\x1b[2J \u202eright to left 漢字"

func commit(t *testing.T, dir string, samples ...*sample.Boulder) {
	t.Helper()
	state, err := store.EnsureDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(filepath.Join(state, store.FileName), store.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		if err := db.Commit(t.Context(), s.State, s.State.TakeEvents()); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// world stores three boulders in a project: one in the middle of its work; one whose sub-task theme waits for an answer
// to B1, with a choice B2 of its own; and, newest, one of 200 sub-tasks with a hostile name.
func world(t *testing.T, dir string) {
	t.Helper()
	at := sample.New(t, "01k3middle")
	at.Play()
	asks, theme := sample.New(t, sample.ID), boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	asks.Plan()
	asks.Start(theme)
	for _, b := range []boulder.Blocker{
		{Category: boulder.BlockerSecurity, Question: "Which key signs the theme? " + hostile, Context: hostile, Hard: true},
		{
			Category: boulder.BlockerArchitecture, Question: "Variables or classes?", Context: "Both work.",
			Options: []string{"CSS variables", "classes"}, ChosenOption: "CSS variables", ChosenReasoning: "No build step.",
		},
	} {
		asks.Raise(theme, b)
	}
	asks.Apply(boulder.TurnEnded{AttemptRef: theme, Turn: 1, Evidence: boulder.Evidence{FinalMessage: hostile}})
	asks.Apply(boulder.Parked{AttemptRef: theme, Reason: "waits for an answer to B1", Digest: "It waits."})
	many := &sample.Boulder{T: t, ID: "01k4many", State: boulder.NewState(), Now: sample.Began.Add(time.Hour)}
	plan := boulder.Plan{Version: 1, Task: "Migrate 200 packages " + hostile}
	planned := boulder.Decomposed{Revision: 1, Origin: boulder.OriginModel}
	many.Apply(boulder.Created{Boulder: boulder.Boulder{ID: many.ID, Task: plan.Task, Project: dir}})
	for i := range 200 {
		spec := boulder.Spec{ID: fmt.Sprintf("p%03d", i), Subject: fmt.Sprintf("Migrate package %d %s", i, hostile)}
		if i%10 > 0 {
			spec.DependsOn = []string{fmt.Sprintf("p%03d", max(i-1-i%3, i/10*10))}
		}
		plan.SubTasks = append(plan.SubTasks, spec)
		planned.SubTasks = append(planned.SubTasks, boulder.PlannedIn{ID: spec.ID, Subject: spec.Subject, DependsOn: spec.DependsOn})
	}
	planned.Plan = boulder.PlanRevision{Number: 1, Plan: plan, Hash: "abcdef0123456789", Origin: boulder.OriginModel, AdoptedAt: many.Now}
	many.Apply(boulder.Planned{Revision: 1, Origin: boulder.OriginModel, Plan: planned.Plan})
	many.Apply(planned)
	ref, said := boulder.AttemptRef{SubTaskID: "p000", Attempt: 1}, ".manager/runs/01k4many/p000/1.jsonl"
	many.Start(ref)
	many.Apply(boulder.TurnEnded{AttemptRef: ref, Turn: 1, Evidence: boulder.Evidence{FinalMessage: "done", Transcript: said}})
	path := filepath.Join(dir, said)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(executor.TranscriptLine{Type: "text", Text: "migrated it " + hostile})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, line, 0o600); err != nil {
		t.Fatal(err)
	}
	commit(t, dir, at, asks, many)
}

// screen is the screen of a project. It runs commands synchronously.
type screen struct {
	*model
	t    *testing.T
	left bool
}

func open(t *testing.T, dir string, width, height int) *screen {
	t.Helper()
	p, err := project.Open(dir, project.Options{Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	s := &screen{New(t.Context(), p, page.Paint{}, func(context.Context) (*project.Access, error) {
		return nil, errors.New("no server in this test")
	}).(*model), t, false}
	s.Update(tea.WindowSizeMsg{Width: width, Height: height})
	s.run(s.look())
	return s
}

func (s *screen) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, one := range msg {
			s.run(one)
		}
	case tea.QuitMsg:
		s.left = true
	default:
		_, next := s.Update(msg)
		s.run(next)
	}
}

// keys are the keys with a name; other characters are typed one by one.
var keys = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "down": tea.KeyDown, "pgdown": tea.KeyPgDown,
}

// press presses keys, and checks the picture after each.
func (s *screen) press(names ...string) {
	s.t.Helper()
	for _, name := range names {
		var pressed []tea.KeyPressMsg
		if code, special := keys[name]; special {
			pressed = append(pressed, tea.KeyPressMsg{Code: code})
		} else {
			for _, r := range name {
				pressed = append(pressed, tea.KeyPressMsg{Code: r, Text: string(r)})
			}
		}
		for _, key := range pressed {
			_, cmd := s.Update(key)
			s.run(cmd)
			s.picture()
		}
	}
}

// picture returns the drawn screen, and checks that it fits and has no escape sequences.
func (s *screen) picture() string {
	s.t.Helper()
	content := s.View().Content
	lines := strings.Split(content, "\n")
	if len(lines) != s.size.Height {
		s.t.Errorf("%d lines on a terminal of %d:\n%s", len(lines), s.size.Height, content)
	}
	for _, line := range lines {
		if w := ansi.StringWidthWc(line); w > s.size.Width {
			s.t.Errorf("a line has %d columns on a terminal of %d: %q", w, s.size.Width, line)
		}
	}
	if strings.ContainsAny(content, "\x1b\u202e\r\t") {
		s.t.Errorf("what agents wrote reaches the terminal as it is: %q", content)
	}
	return content
}

func (s *screen) shows(words ...string) {
	s.t.Helper()
	for _, w := range words {
		if word, not := strings.CutPrefix(w, "NOT "); strings.Contains(s.picture(), word) == not {
			s.t.Errorf("%q is to be seen: %v, in:\n%s", word, not, s.picture())
		}
	}
}
