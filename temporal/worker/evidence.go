package worker

import (
	"encoding/json"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// largest bounds evidence in a history, which has room for 50 MB, in bytes. The transcript has all of it.
const largest = 60_000

// fit shortens evidence until it fits, first what the judge needs least. Texts say where they are cut.
func fit(e boulder.Evidence) boulder.Evidence {
	for keep := 16; size(e) > largest && keep > 0; keep /= 2 {
		e.ToolCalls = append([]boulder.ToolCall(nil), e.ToolCalls[max(0, len(e.ToolCalls)-keep):]...)
		e.Diagnostics = e.Diagnostics[:min(len(e.Diagnostics), keep)]
		e.Diff.Patch = text.Excerpt(e.Diff.Patch, keep*700, text.Start)
		e.Todos = append([]boulder.Todo(nil), e.Todos[:min(len(e.Todos), keep*4)]...)
		for i := range e.Todos {
			e.Todos[i].Content = text.Excerpt(e.Todos[i].Content, keep*100, text.Start)
		}
		for _, files := range []*[]string{&e.Outside, &e.Escaped, &e.Strayed, &e.Diff.Unstored} {
			*files = (*files)[:min(len(*files), keep*25)]
		}
		e.Gates = append([]boulder.Gate(nil), e.Gates...)
		e.FinalMessage = text.Excerpt(e.FinalMessage, keep*500, text.Ends)
		e.Said = text.Excerpt(e.Said, keep*500, text.Ends)
		for i := range e.Gates {
			e.Gates[i].Output = text.Excerpt(e.Gates[i].Output, keep*100, text.End)
			e.Gates[i].Failing = e.Gates[i].Failing[:min(len(e.Gates[i].Failing), keep*10)]
		}
		if n := keep * 25; len(e.Diff.Files) > n { // the session's own files first
			own, others, _ := e.Diff.Split(nil)
			e.Diff.Files = slices.Concat(own, others)[:n]
		}
	}
	return e
}

func size(e boulder.Evidence) int {
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	return len(data)
}
