package boulder

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Evidence is what the manager itself observed of one turn. Texts are cut, visibly, to the given sizes.
type Evidence struct {
	Ended        Ended  `json:"ended"`
	FinalMessage string `json:"final_message"` // the agent's own last text, at most 8,000 characters
	// Said is all that the agent said since the prompt, if more than FinalMessage: the answer to the user may stand beside a
	// tool call. The calls between two texts are one line. At most 8,000 characters; the middle is cut.
	Said      string     `json:"said,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"` // the turn's last 30, oldest first
	ToolCount int        `json:"tool_count"`           // all of the turn
	Diff      Diff       `json:"diff"`
	Outside   []string   `json:"outside,omitempty"` // own files of Diff that are not in [SubTask.Writes]
	// Escaped are project files that a turn in a slot edited. Strayed changed meanwhile, perhaps by one of its commands,
	// and belong to what the sub-task changed or may write.
	Escaped []string `json:"escaped,omitempty"`
	Strayed []string `json:"strayed,omitempty"`
	// Ignored is what a slot has that git ignores, beyond its set-up, before the gates ran; at most 50. It does not land.
	Ignored []string `json:"ignored,omitempty"`
	Todos   []Todo   `json:"todos,omitempty"`
	// Warnings tell the user, not the judge, what is otherwise easily missed: tools that the agent did not have, and where
	// it left the project's git, compared with [SubTask.Repo].
	Warnings []string `json:"warnings,omitempty"`
	// Diagnostics are the language server's errors in files that the session changed, after its last edit; at most 50.
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
	// NoServer: no language server ran, so errors are unknown. Gates then includes [SubTask.Lint].
	NoServer    bool          `json:"no_server,omitempty"`
	Promised    bool          `json:"promised,omitempty"`    // see [DonePromise]
	Marked      bool          `json:"marked,omitempty"`      // the turn gave [Diversion.Marker]
	Compactions int           `json:"compactions,omitempty"` // in this turn
	Gates       []Gate        `json:"gates,omitempty"`
	Usage       Usage         `json:"usage"`                // of the turn
	Duration    time.Duration `json:"duration,omitempty"`   // working time of the turn, nanoseconds; without gates
	Transcript  string        `json:"transcript,omitempty"` // path of the transcript file, relative to the project
}

// Words returns all that the agent said to the user.
func (e *Evidence) Words() string { return cmp.Or(e.Said, e.FinalMessage) }

// Ended says how a turn ended. None of its fields means success.
type Ended struct {
	// Finish is OpenCode's reason: stop, tool-calls, length (truncated), unknown; empty without an answer.
	Finish string `json:"finish,omitempty"`
	// Error names what ended the turn early (APIError, MessageAbortedError, ContextOverflowError …).
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"` // of the error, redacted
	Stopped string `json:"stopped,omitempty"` // why the manager itself ended the turn (wall clock, silence)
	Rule    Rule   `json:"rule,omitempty"`    // the rule by which it did
	// Truncated says why an apparent end is none (output limit, almost no output). It never completes a sub-task.
	Truncated string `json:"truncated,omitempty"`
}

// Errors of [Ended] that are handled specially.
const (
	ErrorAborted  = "MessageAbortedError"  // by the user, or by a server that was stopped
	ErrorOverflow = "ContextOverflowError" // the conversation no longer fits the model's context
)

// Rule names what ended a turn or an attempt without a model call (docs/rules.md).
type Rule string

const (
	RuleRepeat     Rule = "repeat"     // the same call with the same output, repeatedly
	RuleErrors     Rule = "errors"     // the same call with the same failure, repeatedly
	RuleAlternate  Rule = "alternate"  // two alternating calls: A B A B A B
	RuleIdle       Rule = "idle"       // messages without tool calls while work is left
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
	Hash        string       `json:"hash,omitempty"`   // of the changes not owned by other sub-tasks, before any cut
	Tree        string       `json:"tree,omitempty"`   // of the project as the turn's gates found it
	Commit      string       `json:"commit,omitempty"` // commit of Tree in a slot
	// Unstored are files of the slot, with the reason, that Tree lacks or has only as they are on disk: they cannot land.
	Unstored []string `json:"unstored,omitempty"`
	// Commands: shell commands ran alongside other sub-tasks, so that changes not marked Own may be the session's.
	Commands bool `json:"commands,omitempty"`
}

// FileChange is one changed file. Own is false if others ran meanwhile and this session was not seen to touch it.
type FileChange struct {
	Path    string `json:"path"`
	Added   int    `json:"added"`   // lines; -1 for a binary file
	Removed int    `json:"removed"` // lines; -1 for a binary file
	Own     bool   `json:"own"`
}

// Empty reports whether the diff is known and shows no change that could be this sub-task's.
func (d Diff) Empty() bool {
	return d.Unavailable == "" && (!d.Commands || len(d.Files) == 0) &&
		!slices.ContainsFunc(d.Files, func(f FileChange) bool { return f.Own })
}

// Split sorts the changes: the session's own, those that no sub-task claims (by a shell command), and those of others.
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

// Claimed returns the files that the sub-tasks changed.
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

// Open reports whether the item is left to do. Blocked items are not: the agent cannot close them.
func (t Todo) Open() bool { return t.Status == "pending" || t.Status == "in_progress" }

// Gate is one run of a command that must exit 0.
type Gate struct {
	Command  string        `json:"command"`
	ExitCode int           `json:"exit_code"` // -1 if it was killed or could not be started
	Output   string        `json:"output"`    // tail of stdout and stderr together, 2,000 characters
	Duration time.Duration `json:"duration"`  // nanoseconds
	TimedOut bool          `json:"timed_out,omitempty"`
	NotFound string        `json:"not_found,omitempty"` // the missing program; with NotIn, the missing script or target
	NotIn    string        `json:"not_in,omitempty"`    // the file that lacks it
	Failing  []string      `json:"failing,omitempty"`   // tests that the output names as failed, sorted; at most 200
	NoWorse  string        `json:"no_worse,omitempty"`  // why a red gate of [SubTask.NoWorse] passes
	// FlakySuspected: red on files on which it then passed, and had passed on the parts that they were combined of.
	FlakySuspected bool `json:"flaky_suspected,omitempty"`
}

// Green reports whether the command passed.
func (g Gate) Green() bool { return g.ExitCode == 0 && !g.TimedOut }

// Ordinary reports whether the command ran and said no: shells use higher exit codes for what they could not run.
func (g Gate) Ordinary() bool { return !g.TimedOut && 0 < g.ExitCode && g.ExitCode <= lastOrdinaryExit }

const lastOrdinaryExit = 125

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

// NeverEnded says why a command that was stopped for its time before the work is no gate.
func (g Gate) NeverEnded() string {
	return fmt.Sprintf("did not end in %s before the work; is it a watch mode?", lasted(g.Duration))
}

func lasted(d time.Duration) string {
	if minutes := int(d.Round(time.Minute).Minutes()); minutes > 1 {
		return fmt.Sprintf("%d minutes", minutes)
	}
	return d.Round(time.Second).String()
}

// Holds reports whether the gate lets the sub-task pass: green, or no worse than before where that suffices.
func (g Gate) Holds() bool { return g.Green() || g.NoWorse != "" }

// Red returns the gates that do not hold.
func (e *Evidence) Red() []Gate { return filter(e.Gates, func(g Gate) bool { return !g.Holds() }) }

func filter[T any](all []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !keep(x) })
}

// OpenGate is a gate that forbids completion: its run does not hold, or Run is nil because it did not run.
type OpenGate struct {
	Command string
	Run     *Gate
}

func (g OpenGate) String() string {
	switch {
	case g.Run == nil:
		return fmt.Sprintf("the gate `%s` did not run", g.Command)
	case g.Run.TimedOut:
		return fmt.Sprintf("the gate `%s` did not end in time", g.Command)
	}
	return fmt.Sprintf("the gate `%s` is red (exit code %d)", g.Command, g.Run.ExitCode)
}

// OpenGates returns the gates that forbid completion given these runs, whatever a judge says.
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

// AllGates returns the commands that must hold: the gates, and commands that ran in place of a language server.
func (t *SubTask) AllGates() []string {
	all := slices.Concat(t.Gates, t.NoWorse)
	for _, g := range t.GateRuns {
		addTo(&all, g.Command)
	}
	return all
}

// GateOrigin returns the id of the superseded sub-task that a gate of t comes from, or "" if it is t's own or global.
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

// Unverified returns OpenGates for the newest runs.
func (t *SubTask) Unverified() []OpenGate { return t.OpenGates(t.GateRuns, false) }

// OpenTodos returns the items left to do.
func (e *Evidence) OpenTodos() []Todo { return filter(e.Todos, Todo.Open) }

// Errors returns the diagnostics that are not warnings, with their places.
func (e *Evidence) Errors() (all []string) {
	for _, d := range e.Diagnostics {
		if d.Severity != "warning" {
			all = append(all, fmt.Sprintf("%s:%d: %s", d.File, d.Line, d.Message))
		}
	}
	return all
}

// Verdict is the Progress Ledger's verdict on one turn, after normalization.
type Verdict struct {
	Completed  bool        `json:"completed"`
	Summary    string      `json:"summary"`
	Criteria   []Criterion `json:"criteria,omitempty"`
	OutputData string      `json:"output_data,omitempty"` // passed on to dependents
	Answer     string      `json:"answer,omitempty"`      // to the user, if the sub-task is the only one
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

	Overruled        []string `json:"overruled,omitempty"`         // why Completed is false although the model said true
	JudgeUnavailable bool     `json:"judge_unavailable,omitempty"` // no usable answer came; the gates alone decided
}

// Needs returns the category of what the verdict needs from the user, or "".
func (v *Verdict) Needs() BlockerCategory {
	return map[string]BlockerCategory{
		"missing_info": BlockerQuestion, "permission": BlockerPermission, "external": BlockerOther,
	}[v.BlockedBy]
}

// Blocked returns the items of the agent's list that it calls blocked.
func (e *Evidence) Blocked() (items []string) {
	for _, t := range e.Todos {
		if t.Status == "blocked" {
			items = append(items, t.Content)
		}
	}
	return items
}

// Criterion is one success criterion with the judge's finding.
type Criterion struct {
	Criterion string `json:"criterion"`
	Met       bool   `json:"met"`
	Evidence  string `json:"evidence"`
}
