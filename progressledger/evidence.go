package progressledger

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/providers/ledger"
)

type part struct {
	heading string
	body    string
	keep    text.Keep
}

// renderEvidence renders all evidence of a turn in at most limit characters.
func renderEvidence(req boulder.JudgeRequest, limit int) string {
	t, turn, e := req.SubTask, req.Turn, req.Turn.Evidence
	var nudges, todos []string
	for _, n := range turn.Nudges {
		nudges = append(nudges, fmt.Sprintf("rule %s: %s", n.Rule, strings.Join(strings.Fields(n.Prompt), " ")))
	}
	for _, todo := range e.Todos {
		todos = append(todos, oneLine(todo.Status+": "+todo.Content))
	}
	ending := "by itself"
	if why := unfinished(e); why != "" {
		ending = oneLine(why) + text.If(e.Ended.Rule != "", fmt.Sprintf(" (rule %s)", e.Ended.Rule)) +
			". By itself that is no completion: what was announced for later has not happened."
	}
	analysed := ledger.Bullets(oneLines(e.Errors()))
	if e.NoServer && len(e.Diagnostics) == 0 {
		analysed = "not known: no language server ran"
	}
	promise := "not given"
	if e.Promised {
		promise = "given, which is a claim and no evidence"
	}
	parts := []part{
		{"What the agent was told before this turn", text.Quote(text.If(turn.Kind == boulder.TurnContinuation, turn.Prompt)), text.Start},
		{"How the turn ended", ending, text.Start},
		{"What the manager told the agent during the turn, because it seemed stuck", ledger.Bullets(nudges), text.End},
		{"Gates: commands that the manager ran itself after the turn", gates(t, e.Gates), text.Start},
		{"Errors that the language server found in changed files, after the last edit of each",
			analysed, text.Start},
		{"The promise of the agent that everything is done",
			text.If(t.DoneNeeds(boulder.DonePromise), promise), text.Start},
		{"Choices that the agent made itself, and reported", ledger.Bullets(oneLines(choices(t))), text.End},
		{"Todo list of the agent", ledger.Bullets(todos), text.Start},
		{"Changed files since the attempt began", changedFiles(e.Diff), text.Start},
		{"Of these, outside of what the sub-task was to write", ledger.Bullets(oneLines(e.Outside)), text.Start},
		{"Patch", text.Quote(e.Diff.Patch), text.Start},
		{fmt.Sprintf("Tool calls: the last %d of %d, oldest first", len(e.ToolCalls), max(e.ToolCount, len(e.ToolCalls))),
			toolCalls(e.ToolCalls), text.End},
		{"What the agent said, oldest first: claims, not evidence", cmp.Or(text.Quote(e.Words()), "none"), text.Ends},
	}
	var lengths []int
	for i := range parts {
		parts[i].body = strings.TrimSpace(strings.ToValidUTF8(parts[i].body, "\uFFFD"))
		lengths = append(lengths, utf8.RuneCountInString(parts[i].body))
		limit -= len(ledger.Headed(parts[i].heading, "-")) - 1
	}
	level := text.Level(lengths, max(0, limit))
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(ledger.Headed(p.heading, text.Excerpt(p.body, level, p.keep)))
	}
	return strings.TrimSpace(b.String())
}

// oneLine keeps names and short texts within their line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func oneLines(items []string) (lines []string) {
	for _, item := range items {
		lines = append(lines, oneLine(item))
	}
	return lines
}

// choices returns the soft blockers without an answer of the user; answers are among the notes.
func choices(t boulder.SubTask) []string {
	var all []string
	for _, b := range t.Blockers {
		if !b.Hard && b.ChosenOption != "" && !b.Status.Settled() {
			all = append(all, b.Question+" It chose: "+b.ChosenOption)
		}
	}
	return all
}

// gates lists all results first, then the outputs, those of red gates first.
func gates(t boulder.SubTask, all []boulder.Gate) string {
	var results, red, green strings.Builder
	for _, g := range all {
		state, end := "passed", g.End()
		switch {
		case g.Green():
		case g.Holds():
			state, end = "red before too, no worse now", end+"; "+g.NoWorse
		case t.MayStayRed(g.Command):
			state, end = "FAILED, worse than before", worse(t, g)
		default:
			state = "FAILED"
		}
		fmt.Fprintf(&results, "- %s: %s (%s, took %s)\n", state, oneLine(g.Command), oneLine(end), g.Duration.Round(time.Millisecond))
		output := fmt.Sprintf("\nEnd of the output of: %s\n%s\n", oneLine(g.Command), text.Quote(g.Output))
		switch {
		case strings.TrimSpace(g.Output) == "":
		case g.Holds():
			green.WriteString(output)
		default:
			red.WriteString(output)
		}
	}
	return results.String() + red.String() + green.String()
}

func changedFiles(d boulder.Diff) string {
	switch {
	case d.Unavailable != "":
		return "not known: " + oneLine(d.Unavailable)
	case len(d.Files) == 0:
		return "none"
	}
	var b strings.Builder
	for _, f := range d.Files {
		lines := fmt.Sprintf("+%d -%d", f.Added, f.Removed)
		if f.Added < 0 {
			lines = "binary"
		}
		fmt.Fprintf(&b, "- %s (%s)%s\n", oneLine(f.Path), lines,
			text.If(!f.Own, ", perhaps by another sub-task that ran at the same time"))
	}
	return b.String()
}

func toolCalls(calls []boulder.ToolCall) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "- %s (%s) %s\n", oneLine(c.Tool), oneLine(c.Status), oneLine(c.Input))
		if output := strings.TrimSpace(c.Output); output != "" {
			fmt.Fprintf(&b, "  gave:\n%s\n", text.Quote(output))
		}
	}
	return b.String()
}
