package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

// ClarifyHint is the command that asks the user about the blockers that wait for an answer.
const ClarifyHint = "manager blockers clarify"

// BlockersStatus is what `manager blockers status --json` prints: one object.
type BlockersStatus struct {
	Type string `json:"type"` // blockers-status
	// On reports whether blockers are diverted: in the session, or with none named, in the project or in running work.
	On        bool   `json:"on"`
	SessionID string `json:"session_id,omitempty"` // of the session that On is about; empty: the project
	// Diverted lists the running boulders that were started with --blockers. It is filled only if no switch decides.
	Diverted []string `json:"diverted,omitempty"`
	// Watched reports whether a watch runs that was started with --blockers.
	Watched bool `json:"watched,omitempty"`
	blockers.Status
	Pending int `json:"pending"` // without an answer: hard, asks, soft and moot
	WaitingBlockers
	Moot     int `json:"moot"` // obsolete
	Answered int `json:"answered"`
	Skipped  int `json:"skipped"`
}

// Print shows whether blockers are diverted, and how many wait.
func (s *BlockersStatus) Print(o page.Out) {
	o.Say(o.Bold("blockers"), " ", cmp.Or(text.If(s.On, o.Green("on")), o.Dim("off")), "  ", o.Faint(s.why()))
	recorded := s.Pending + s.Answered + s.Skipped
	o.Say(text.JoinedBy(" · ", text.If(s.SessionID != "", text.Plural(recorded, "blocker")+" recorded in it"),
		cmp.Or(o.Yellow(s.Awaited()), "nothing waits for an answer"), s.Choices(),
		o.Dim(text.Some(s.Answered, "answered")), o.Dim(text.Some(s.Skipped, "skipped")), o.Dim(text.Some(s.Moot, "obsolete")),
		text.If(recorded > 0, o.Faint(s.File))))
	if s.Unwritten == 0 && s.Trouble != "" {
		o.Say(o.Yellow(s.Trouble))
	}
	if s.Unwritten > 0 {
		o.Say(o.Yellow(fmt.Sprintf("%s not in %s yet", text.Are(s.Unwritten, "item"), o.Plain(s.File))),
			text.Prefixed(": ", o.Plain(s.Trouble)), ". Nothing is lost; it is tried again with every command.")
	}
	switch {
	case s.Awaited() != "":
		o.Say("Answer with: ", o.Code(ClarifyHint))
	case s.Soft > 0:
		o.Say("Go through them with: ", o.Code(ClarifyHint))
	}
}

func (s *BlockersStatus) why() string {
	said := map[bool]string{true: "on", false: "off"}
	var diverted []string
	for _, id := range s.Diverted {
		diverted = append(diverted, boulder.ShortID(id))
	}
	atWork := text.JoinedBy(", ", append(diverted, text.If(s.Watched, "manager watch"))...)
	line := "by the configuration" + text.If(!s.On, "; runs that were begun with --blockers keep it")
	switch on, own := s.Sessions[s.SessionID]; {
	case own:
		line = "by `manager blockers " + said[on] + " --session " + s.SessionID + "`"
	case s.Switch != nil:
		line = "by `manager blockers " + said[*s.Switch] + "`"
	case atWork != "":
		line = "by --blockers of what is at work: " + atWork
	}
	if s.SessionID != "" {
		return "for session " + text.OneLine(s.SessionID) + ", " + line
	}
	return line + text.If(len(s.Sessions) > 0, "; switched by itself: "+text.Plural(len(s.Sessions), "session"))
}

// PrintBlockers prints a table with one line per blocker. all must be grouped by Standing. A narrow terminal gets fewer
// columns.
func PrintBlockers(o page.Out, all []report.Blocker, now time.Time) {
	width := min(o.Width(), page.Widest)
	columns := []column{{}, {right: true}, {}, {}, {}, {}, {flexible: true}}
	var rows [][]string
	for _, b := range all {
		degree, widest, over := o.Dim, widestID, b.Standing == blockers.Over
		if b.Hard && !over {
			degree = o.Yellow
		}
		if width < 100 {
			widest = 12
		}
		left := text.If(b.Awaited && b.Waiting(now),
			"("+text.Elapsed(b.Until.Sub(now).Truncate(time.Second))+" left) ")
		rows = append(rows, []string{
			degree(b.ID), text.Elapsed(now.Sub(b.CreatedAt)), degree(Hardness(b.Hard)),
			text.If(over, string(b.Status)), text.If(width >= 100, o.Dim(string(b.Category))),
			text.If(width >= 60, o.Cyan(text.Clip(cmp.Or(b.SubTaskID, b.SessionID, "plan"), widest))), left + text.OneLine(b.Question),
		})
	}
	group := blockers.Awaited // the first group needs no heading
	for i, line := range table(width, columns, rows) {
		if all[i].Standing != group {
			if group = all[i].Standing; i > 0 {
				o.Say()
			}
			o.Say(o.Dim(map[blockers.Standing]string{
				blockers.Awaited: "waiting for an answer:", blockers.Choice: "can still be changed:",
				blockers.Moot: "obsolete:", blockers.Over: "settled:",
			}[group]))
		}
		fmt.Fprintln(o, line)
	}
}

// BlockersMarkdown formats blockers and their answers as a document, hard ones before soft ones.
func BlockersMarkdown(all []report.Blocker, now time.Time) string {
	var s strings.Builder
	o := page.Out{Writer: &s, Markdown: true}
	now = now.UTC()
	pending := slices.DeleteFunc(slices.Clone(all), func(b report.Blocker) bool { return b.Status.Settled() })
	o.Title("Blockers")
	o.Say(fmt.Sprintf("%s, %d of them without an answer. Exported %s.", text.Plural(len(all), "blocker"), len(pending),
		now.Format("2006-01-02 15:04 MST")))
	for _, hard := range []bool{true, false} {
		heading := sync.OnceFunc(func() { o.Heading(map[bool]string{true: "Hard blockers", false: "Soft blockers"}[hard]) })
		for i := range all {
			if all[i].Hard == hard {
				heading()
				PrintBlocker(o, &all[i], 1, true, now)
			}
		}
	}
	return s.String()
}

// WithoutMoot returns the blockers that are not obsolete.
func WithoutMoot(all []report.Blocker) []report.Blocker {
	return slices.DeleteFunc(all, func(b report.Blocker) bool { return b.Standing == blockers.Moot })
}

// WaitingBlockers counts the blockers that the user can still answer. Obsolete ones are not counted.
type WaitingBlockers struct {
	Hard int `json:"hard"` // they block sub-tasks, or will at the end of the turn
	Asks int `json:"asks"` // they hold up sessions for a limited time
	Soft int `json:"soft"` // the agents continue without an answer, and one can still reach them
	// Refused is how many of Soft are refused permissions.
	Refused int `json:"refused,omitempty"`
}

// WaitingOf counts the blockers in all that can still be answered.
func WaitingOf(all []report.Blocker) (w WaitingBlockers) {
	for _, b := range all {
		switch {
		case b.Awaited && b.Hard:
			w.Hard++
		case b.Awaited:
			w.Asks++
		case b.Standing == blockers.Choice:
			w.Soft++
			if b.AsksPermission() {
				w.Refused++
			}
		}
	}
	return w
}

// Text returns the counts for people, or "" if all are zero.
func (w WaitingBlockers) Text() string { return text.JoinedBy(" · ", w.Awaited(), w.Choices()) }

// Awaited says how many blockers wait for an answer; empty if none does.
func (w WaitingBlockers) Awaited() string {
	all := text.JoinedBy(" and ", text.If(w.Hard > 0, text.Plural(w.Hard, "hard blocker")),
		text.If(w.Asks > 0, text.Plural(w.Asks, "ask")))
	return text.If(all != "", all+" wait"+text.If(w.Hard+w.Asks == 1, "s")+" for an answer")
}

// Choices says how many of the agents' choices can still be changed; empty if there are none.
func (w WaitingBlockers) Choices() string {
	all := text.JoinedBy(" and ", text.If(w.Soft > w.Refused, text.Plural(w.Soft-w.Refused, "choice")),
		text.If(w.Refused > 0, text.Plural(w.Refused, "refused permission")))
	return text.If(all != "", all+" can still be changed")
}

// AnswerHint says how to answer a blocker. later describes the keys that leave it unanswered.
func AnswerHint(b *boulder.Blocker, later string) string {
	return "Your answer · " + text.If(b.AsksPermission(), "/allow or /deny: give or refuse the permission · ") +
		text.If(len(b.Options) > 0, "a number: that option · ") + later
}

// ParseAnswer parses what the user typed about a blocker. It returns nil for "later", and [io.EOF] to leave.
func ParseAnswer(typed string, b *boulder.Blocker) (*blockers.Settlement, error) {
	typed = strings.TrimSpace(typed)
	word, _, _ := strings.Cut(text.Fold(typed), " ")
	rest := strings.TrimSpace(strings.TrimPrefix(typed, word))
	if rest != "" && slices.Contains([]string{"/quit", "/q", "/exit", "/later", "/skip"}, word) {
		return nil, fmt.Errorf("%s takes no text: say it alone, or answer with a text", word)
	}
	answer := &blockers.Settlement{Status: boulder.BlockerAnswered, Answer: typed}
	switch word {
	case "", "/later":
		return nil, nil
	case "/quit", "/q", "/exit":
		return nil, io.EOF
	case "/skip":
		return &blockers.Settlement{Status: boulder.BlockerSkipped}, nil
	case "/allow":
		answer.Answer, answer.Allowed = rest, true
	case "/deny":
		if !b.AsksPermission() {
			return nil, fmt.Errorf("%s asks for no permission, so there is none to refuse: answer it with a text", b.ID)
		}
		answer.Answer = text.JoinedBy(": ", "Denied", rest)
	default:
		if strings.HasPrefix(word, "/") && !strings.Contains(word[1:], "/") { // a path is an answer
			return nil, fmt.Errorf("there is no %s: it is /allow, /deny, /skip, /later or /quit; begin an answer with another word", word)
		}
	}
	return answer, nil
}

// SettledBlocker says what happened to an answer and what follows; empty if r is nil, as then the answer was not accepted.
func SettledBlocker(r *project.Answered, now time.Time) string {
	did, with := "Answered", "with the answer"
	switch {
	case r == nil:
		return ""
	case r.Status == boulder.BlockerSkipped:
		did, with = "Skipped", "without an answer"
	case r.Allowed:
		did, with = "Allowed", "with the permission"
	}
	follows := fmt.Sprintf("%q continues %s.", r.SubTaskID, with)
	switch {
	case r.PlanQuestion != "":
		follows = questionSettled(r)
	case r.BoulderID == "" && !r.Gone && r.Until.After(now):
		follows = "The session that waits for it gets it."
	case r.BoulderID == "" && IsSession(r.SessionID):
		follows = "It came up outside of a run: its session is told by the next prompt of `manager watch`, if that watches it."
	case r.BoulderID == "":
		follows = "It came up outside a run: no sub-task waits for it."
	case len(r.Awaited) > 0:
		follows = fmt.Sprintf("%q still waits for %s.", r.SubTaskID, strings.Join(r.Awaited, ", "))
	case GoesOnLater(r):
		follows = fmt.Sprintf("%q continues %s when the boulder does: manager resume %s", r.SubTaskID, with, boulder.ShortID(r.BoulderID))
	}
	option := text.If(slices.Contains(r.Options, r.Answer), ": "+strings.TrimSuffix(text.Short(r.Answer, 100), "."))
	return strings.TrimSpace(did + " " + r.ID + option + ". " + follows)
}

// questionSettled says what follows from the answer to a question of the plan.
func questionSettled(r *project.Answered) string {
	switch {
	case r.Status == boulder.BlockerSkipped || r.Answer == r.ChosenOption:
		return "The default stays, and nothing changes."
	case len(r.Redo) > 0:
		return text.If(!r.BoulderStatus.Terminal(), "What has not begun is told. ") + fmt.Sprintf("Done with %q: %s; do it again with: manager redo %s -b %s",
			text.Short(r.ChosenOption, 100), strings.Join(r.Redo, ", "), strings.Join(r.Redo, " "), r.BoulderID)
	case r.BoulderStatus.Terminal():
		return "No result rests on the question."
	}
	return "Sub-tasks that depend on it are told with their next prompts."
}

// GoesOnLater reports whether the boulder has the answer but continues only when the user resumes it.
func GoesOnLater(r *project.Answered) bool {
	return r.BoulderID != "" && !r.BoulderStatus.Terminal() && (r.RunBy == nil || r.BoulderStatus == boulder.Paused)
}
