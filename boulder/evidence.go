package boulder

import (
	"fmt"
	"slices"
	"time"
)

// Evidence is what the manager itself observed of one turn. Texts are cut, visibly, to the sizes given here.
type Evidence struct {
	Ended        Ended      `json:"ended"`
	FinalMessage string     `json:"final_message"`        // the agent's own last text, at most 8,000 characters
	ToolCalls    []ToolCall `json:"tool_calls,omitempty"` // the last 30 of this turn, oldest first
	ToolCount    int        `json:"tool_count"`           // all of this turn
	Diff         Diff       `json:"diff"`
	Outside      []string   `json:"outside,omitempty"` // files of Diff, its own, that are none of [SubTask.Writes]
	// Escaped are files of the project that a turn in a slot edited; Strayed are some that changed during the turn, perhaps by
	// a command of it, and that the sub-task also claims.
	Escaped []string `json:"escaped,omitempty"`
	Strayed []string `json:"strayed,omitempty"`
	Todos   []Todo   `json:"todos,omitempty"`
	// Diagnostics are the language server's errors in the files that the session changed, after its last edit; at most 50.
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
	// NoServer: no language server ran, so that nothing is known of errors. Gates has [SubTask.Lint] then.
	NoServer    bool          `json:"no_server,omitempty"`
	Promised    bool          `json:"promised,omitempty"`    // see [DonePromise]
	Compactions int           `json:"compactions,omitempty"` // of the session in this turn
	Gates       []Gate        `json:"gates,omitempty"`
	Replied     []string      `json:"replied,omitempty"`    // blockers of the attempt that are [Blocker.Replied], by id
	Usage       Usage         `json:"usage"`                // of this turn
	Duration    time.Duration `json:"duration,omitempty"`   // of this turn at work, nanoseconds; gates not included
	Transcript  string        `json:"transcript,omitempty"` // path of the transcript file, relative to the project
}

// Ended says how a turn ended. No field of it means success.
type Ended struct {
	// Finish is OpenCode's reason: stop, tool-calls, length (truncated), unknown; empty if there was no answer.
	Finish string `json:"finish,omitempty"`
	// Error is the name of what ended the turn early (APIError, MessageAbortedError, ContextOverflowError …).
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"` // of the error, redacted
	Stopped string `json:"stopped,omitempty"` // why the manager itself ended the turn (wall clock, silence)
	Rule    Rule   `json:"rule,omitempty"`    // for which it did
	// Truncated is why the turn's end is none although it looks like one: it was cut at the output limit, or there is next to
	// no output. Such a turn never completes a sub-task.
	Truncated string `json:"truncated,omitempty"`
}

// Errors of [Ended] that something particular follows from.
const (
	ErrorAborted  = "MessageAbortedError"  // by the user, or by a server that was stopped
	ErrorOverflow = "ContextOverflowError" // the conversation does not fit the model any more
)

// Rule names what ended a turn, or an attempt, without asking a model (SEMANTICS §5 and §8).
type Rule string

const (
	RuleRepeat     Rule = "repeat"     // the same call with the same output, again and again
	RuleErrors     Rule = "errors"     // the same call failed in the same way, again and again
	RuleAlternate  Rule = "alternate"  // two calls in turns: A B A B A B
	RuleIdle       Rule = "idle"       // messages without a tool call while work is left
	RuleSilence    Rule = "silence"    // no event
	RuleWallClock  Rule = "wall_clock" // the attempt took too long
	RuleCompaction Rule = "compaction" // compacted twice without a new successful tool call
	RuleBudget     Rule = "budget"     // the sub-task's budget is used up
)

// Diagnostic is one finding of a language server.
type Diagnostic struct {
	File     string `json:"file"`     // relative to the project
	Line     int    `json:"line"`     // from 1
	Severity string `json:"severity"` // error | warning
	Message  string `json:"message"`  // at most 300 characters
}

// ToolCall is one finished or broken tool call.
type ToolCall struct {
	ID     string `json:"id"`
	Tool   string `json:"tool"`
	Title  string `json:"title,omitempty"`
	Input  string `json:"input"`  // JSON, cut to 500 characters
	Output string `json:"output"` // or the error's text; the tail, 500 characters
	Status string `json:"status"` // completed | error | running (never finished)
}

// Diff is what changed in the project since the sub-task began.
type Diff struct {
	// Unavailable says why there is no diff ("not a git repository"); empty when there is one.
	Unavailable string       `json:"unavailable,omitempty"`
	Files       []FileChange `json:"files,omitempty"`
	Patch       string       `json:"patch,omitempty"`  // unified, cut to 12,000 characters
	Hash        string       `json:"hash,omitempty"`   // of the changes that are not another sub-task's, before any cut
	Tree        string       `json:"tree,omitempty"`   // of the project's content as the gates of the turn found it
	Commit      string       `json:"commit,omitempty"` // of Tree, in a slot
	// Commands: the session ran shell commands beside other sub-tasks, so a change that is not its own may be all the same.
	Commands bool `json:"commands,omitempty"`
}

// FileChange is one changed file. Own is false when another sub-task ran at the same time and this session was not seen
// to touch the file.
type FileChange struct {
	Path    string `json:"path"`
	Added   int    `json:"added"`   // lines; -1 for a binary file
	Removed int    `json:"removed"` // lines; -1 for a binary file
	Own     bool   `json:"own"`
}

// Empty reports whether a diff was taken and shows no change that could be this sub-task's.
func (d Diff) Empty() bool {
	return d.Unavailable == "" && (!d.Commands || len(d.Files) == 0) &&
		!slices.ContainsFunc(d.Files, func(f FileChange) bool { return f.Own })
}

// Split sorts the changes: the session's own, those that no sub-task claims (a shell command's), and other sub-tasks'.
func (d Diff) Split(claimed map[string]bool) (own, unclaimed, others []FileChange) {
	for _, f := range d.Files {
		switch {
		case f.Own:
			own = append(own, f)
		case !claimed[f.Path]:
			unclaimed = append(unclaimed, f)
		default:
			others = append(others, f)
		}
	}
	return own, unclaimed, others
}

// Claimed are the files that sub-tasks call their own.
func Claimed(subTasks []*SubTask) map[string]bool {
	files := map[string]bool{}
	for _, t := range subTasks {
		for _, f := range t.Files {
			files[f] = true
		}
	}
	return files
}

// Todo is one item of the agent's own list.
type Todo struct {
	Content string `json:"content"`
	Status  string `json:"status"` // pending | in_progress | completed | cancelled | blocked
}

// Open reports whether the item is still work to do. Blocked items are not: nothing the agent does can close them.
func (t Todo) Open() bool { return t.Status == "pending" || t.Status == "in_progress" }

// Gate is one run of a command that must exit 0.
type Gate struct {
	Command  string        `json:"command"`
	ExitCode int           `json:"exit_code"` // -1 if it was killed or could not be started
	Output   string        `json:"output"`    // tail of stdout and stderr together, 2,000 characters
	Duration time.Duration `json:"duration"`  // nanoseconds
	TimedOut bool          `json:"timed_out,omitempty"`
	NotFound string        `json:"not_found,omitempty"` // the program that is missing; with NotIn, the script or target
	NotIn    string        `json:"not_in,omitempty"`    // the file that does not have it
	Failing  []string      `json:"failing,omitempty"`   // tests that the output names as failed, sorted; at most 200
	NoWorse  string        `json:"no_worse,omitempty"`  // why a red gate of [SubTask.NoWorse] does not count: it was red before
}

// Green reports whether the command passed.
func (g Gate) Green() bool { return g.ExitCode == 0 && !g.TimedOut }

// End says how the command ended, for agents and judges.
func (g Gate) End() string {
	switch {
	case g.TimedOut:
		return fmt.Sprintf("was stopped after %s", g.Duration.Round(time.Second))
	case g.ExitCode < 0:
		return "could not be run"
	}
	return fmt.Sprintf("exit code %d", g.ExitCode)
}

// Holds reports whether the gate lets the sub-task pass: it is green, or no worse than before where that is enough.
func (g Gate) Holds() bool { return g.Green() || g.NoWorse != "" }

// Red returns the gates that do not hold.
func (e *Evidence) Red() []Gate { return filter(e.Gates, func(g Gate) bool { return !g.Holds() }) }

func filter[T any](all []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !keep(x) })
}

// OpenGate is a gate that forbids completion: Run does not hold, or is nil: the gate did not run.
type OpenGate struct {
	Command string
	Run     *Gate
}

// String says what is wrong.
func (g OpenGate) String() string {
	switch {
	case g.Run == nil:
		return fmt.Sprintf("the gate `%s` did not run", g.Command)
	case g.Run.TimedOut:
		return fmt.Sprintf("the gate `%s` did not end in time", g.Command)
	}
	return fmt.Sprintf("the gate `%s` is red (exit code %d)", g.Command, g.Run.ExitCode)
}

// OpenGates returns what forbids that the sub-task is completed with these runs of its gates, whatever a judge says.
func (t *SubTask) OpenGates(runs []Gate, noServer bool) []OpenGate {
	var open []OpenGate
	for i, g := range runs {
		if !g.Green() && (g.NoWorse == "" || !t.MayStayRed(g.Command)) {
			open = append(open, OpenGate{g.Command, &runs[i]})
		}
	}
	wanted := slices.Concat(t.Gates, t.NoWorse)
	if noServer {
		wanted = append(wanted, t.Lint...)
	}
	for _, command := range wanted {
		if GateOf(runs, command) == nil {
			open = append(open, OpenGate{Command: command})
		}
	}
	return open
}

// AllGates are the commands that have to hold: its gates, and those that stood in for a language server.
func (t *SubTask) AllGates() []string {
	all := slices.Concat(t.Gates, t.NoWorse)
	for _, g := range t.GateRuns {
		addTo(&all, g.Command)
	}
	return all
}

// GateOrigin returns the replaced sub-task from which a gate of t was taken over; empty: it is its own, or everybody's.
func (b *Boulder) GateOrigin(t *SubTask, all []*SubTask, gate string) string {
	if slices.Contains(b.Gates, gate) || slices.Contains(b.NoWorse, gate) || slices.Contains(b.Checks.Tests, gate) {
		return ""
	}
	for _, old := range all {
		has := slices.Contains(old.Gates, gate) || slices.Contains(old.NoWorse, gate)
		if has && old.Status == SubTaskSuperseded && old.Revision < t.Revision {
			return old.ID
		}
	}
	return ""
}

// Unverified is what OpenGates says of the newest runs.
func (t *SubTask) Unverified() []OpenGate { return t.OpenGates(t.GateRuns, false) }

// OpenTodos returns the items that are still work to do.
func (e *Evidence) OpenTodos() []Todo { return filter(e.Todos, Todo.Open) }

// Errors are the diagnostics that are no warnings, each with its place.
func (e *Evidence) Errors() (all []string) {
	for _, d := range e.Diagnostics {
		if d.Severity != "warning" {
			all = append(all, fmt.Sprintf("%s:%d: %s", d.File, d.Line, d.Message))
		}
	}
	return all
}

// Verdict is the Progress Ledger's judgement of one turn, after normalisation.
type Verdict struct {
	Completed  bool        `json:"completed"`
	Summary    string      `json:"summary"`
	Criteria   []Criterion `json:"criteria,omitempty"`
	OutputData string      `json:"output_data,omitempty"` // handed on to dependents
	Remaining  []string    `json:"remaining,omitempty"`

	ContinuationPrompt string `json:"continuation_prompt,omitempty"`

	IsProgress   bool     `json:"is_progress"`
	IsInLoop     bool     `json:"is_in_loop"`
	IsStuck      bool     `json:"is_stuck"`
	StuckReason  string   `json:"stuck_reason,omitempty"`
	BlockedBy    string   `json:"blocked_by,omitempty"` // none|missing_info|permission|environment|wrong_plan|external
	NeedReplan   bool     `json:"need_replan,omitempty"`
	ReplanReason string   `json:"replan_reason,omitempty"`
	GoalAchieved bool     `json:"goal_achieved,omitempty"`
	NewFacts     []string `json:"new_facts,omitempty"`

	// Overruled says what forced Completed to false although the model said true ("gate `go test` is red").
	Overruled []string `json:"overruled,omitempty"`
	// JudgeUnavailable: no usable answer came from the model; the gates alone decided.
	JudgeUnavailable bool `json:"judge_unavailable,omitempty"`
}

// Criterion is one success criterion with the judge's finding.
type Criterion struct {
	Criterion string `json:"criterion"`
	Met       bool   `json:"met"`
	Evidence  string `json:"evidence"`
}
