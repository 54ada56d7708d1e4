package prompts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/prompts"
	"github.com/bouldermgr/manager/testkit/golden"
)

func settled() []boulder.Blocker {
	return []boulder.Blocker{
		{ID: "B1", Question: "Which key\nsigns the tokens?", Status: boulder.BlockerAnswered, Answer: "The new one.\nThe old one goes.\n"},
		{ID: "B2", Question: "May it run `git push`?", Status: boulder.BlockerAnswered, Allowed: true},
		{ID: "B3", Question: "May it run `npm publish`?", Status: boulder.BlockerAnswered, Allowed: true, Answer: "with --dry-run"},
		{ID: "B4", Question: "Who pays?", Status: boulder.BlockerSkipped},
	}
}

// All texts about blockers: in the brief, a continuation, the resume prompt, and the prompt of a watched session.
func TestBlockersGolden(t *testing.T) {
	t.Parallel()
	in := input()
	in.Diversion = boulder.Diversion{Tool: "manager_blocker", Marker: "ALL_DONE!", Soft: []string{"a name", "a colour"}}
	in.Answers = prompts.Answers(settled())
	in.Notes = []string{"The tests need Node 22."}
	waited := prompts.WaitDigest("needed an answer to B1: Which key signs the tokens?", boulder.Evidence{
		FinalMessage: "The theme is stored.\nSigning waits for you.", Transcript: ".manager/runs/01kboulder/page/1.jsonl",
	})
	in.SubTask.Before = waited
	told := prompts.Extra{News: in.News, Diversion: in.Diversion}
	golden.Compare(t, "blockers.md", strings.Join([]string{
		prompts.Build(in).Text,
		prompts.Continuation(in.SubTask, boulder.Turn{
			Evidence: &boulder.Evidence{Todos: []boulder.Todo{{Content: "Sign the tokens", Status: "blocked"}}},
			Verdict:  &boulder.Verdict{ContinuationPrompt: "Sign the tokens."},
		}, told),
		prompts.Resume(prompts.ResumeInput{
			Boulder: boulder.Boulder{ID: "01kboulder", Task: "Add dark mode"}, SubTask: in.SubTask, Total: 3,
			News: prompts.News{Answers: in.Answers},
		}),
		prompts.KeepGoing(prompts.Unfinished{
			Items: []string{"Sign the tokens"}, Answers: in.Answers[:1], Diversion: in.Diversion, Promise: true,
		}),
		prompts.KeepGoing(prompts.Unfinished{Diversion: in.Diversion, Idle: 3}),
		prompts.GoAround(in.SubTask, prompts.Extra{Aside: prompts.Questions(settled()[:2]), Diversion: in.Diversion}),
		prompts.KeepGoing(prompts.Unfinished{
			Items: []string{"Write the page"}, Aside: prompts.Questions(settled()[3:]), Diversion: in.Diversion,
		}),
	}, "\n======\n\n"))
}

// TestManyNotesAreCutVisibly: the prompt says how many notes it omits.
func TestManyNotesAreCutVisibly(t *testing.T) {
	t.Parallel()
	var notes []string
	for i := range 13 {
		notes = append(notes, fmt.Sprintf("note %02d", i))
	}
	turn := boulder.Turn{Evidence: &boulder.Evidence{}, Verdict: &boulder.Verdict{}}
	got := prompts.Continuation(boulder.SubTask{ID: "a"}, turn, prompts.Extra{News: prompts.News{Notes: notes}})
	if !strings.Contains(got, "[cut: the first 3 of 13 notes]") || strings.Contains(got, "note 02") || !strings.Contains(got, "note 03") {
		t.Error(got)
	}
}
