package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	morning "github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

func (a *app) newBlockersClarifyCmd() *cobra.Command {
	var o blockerFilter
	cmd := &cobra.Command{
		Use:   "clarify [flags]",
		Short: "Go through what waits for an answer, one by one",
		Long: `Goes through the blockers that wait for an answer, one by one, on the terminal: what a session holds still
for first, then hard ones, then the oldest; choices that can still be changed follow. Each is shown with everything that is known about it, and your answer is stored and handed over at once, so
that you can leave at any time, and go on later with what is left.

  TEXT       Enter ends the answer. What is pasted stays one answer, however many lines it has; a line that ends with
             a backslash goes on in the next one
  (nothing)  later: it stays on the list
  /allow     give the permission that was asked for, for the rest of the sub-task; a text may follow
  /deny      refuse the permission; a text may follow
  /skip      no answer: the sub-task goes on without
  /quit      leave, as do Ctrl-D and Ctrl-C

Without a terminal: ` + "`manager blockers list --json`" + ` and ` + "`manager blockers answer ID \"TEXT\"`" + `.`,
		Args: noArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.withDesk(func(ctx context.Context, d *blockers.Desk, _ []string) error { return a.runClarify(ctx, d, &o) }),
	}
	o.register(a, cmd)
	_ = cmd.Flags().MarkHidden("status") // it is about those that wait
	return cmd
}

func (a *app) runClarify(ctx context.Context, d *blockers.Desk, o *blockerFilter) error {
	in, ok := fileOf(a.Stdin)
	if !ok || !terminal(a.Stdin) || !terminal(a.Stderr) {
		return usagef("clarify asks on a terminal, and there is none: see `manager blockers list`, and answer with" +
			" `manager blockers answer ID \"TEXT\"`")
	}
	if o.status != "" {
		return usagef("clarify is about what waits for an answer: leave --status out")
	}
	f, err := o.filter(ctx, a, boulder.BlockerPending)
	if err != nil {
		return err
	}
	c := &clarifying{app: a, desk: d, filter: f, seen: map[string]bool{}}
	c.ask = func(ctx context.Context, prompt string) (string, error) {
		text, err := view.ReadAnswer(ctx, in, bare(a.Stderr), prompt)
		if errors.Is(err, view.ErrInterrupted) {
			err = errInterrupted
		}
		return text, err
	}
	c.view = func() page.Out { return a.on(a.Stderr) }
	err = c.run(ctx)
	c.farewell(ctx)
	return err
}

// clarifying is one walk through the blockers.
type clarifying struct {
	app    *app
	desk   *blockers.Desk
	filter blockers.Filter
	ask    func(ctx context.Context, prompt string) (string, error) // io.EOF: leave
	view   func() page.Out

	seen     map[string]bool // blockers that were shown
	answered int
	resume   []string // boulders that go on when somebody resumes them
}

// run shows one blocker after the other, the most urgent first. What comes up meanwhile is shown in its turn; one that
// cannot be read is told at the end.
func (c *clarifying) run(ctx context.Context) error {
	for {
		records, err := c.desk.List(ctx, c.filter)
		records = slices.DeleteFunc(records, func(b boulder.Blocker) bool { return c.seen[b.ID] })
		open, _ := view.WithoutMoot(c.app.placed(ctx, records))
		if len(open) == 0 {
			return err
		}
		c.seen[open[0].ID] = true
		if err := c.one(ctx, &open[0], len(open)); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// one shows a blocker and asks until there is an answer that can be used. [io.EOF]: the user leaves.
func (c *clarifying) one(ctx context.Context, item *view.BlockerItem, left int) error {
	v, b := c.view(), &item.Blocker
	v.Say("")
	v.Say(v.Dim(fmt.Sprintf("── %d left ", left) + strings.Repeat("─", max(0, min(v.Width(), 60)-12))))
	var all strings.Builder
	whole := v
	whole.Writer = &all
	morning.PrintBlocker(whole, 0, b, item.Standing, true, time.Now())
	fmt.Fprint(v, all.String())
	if strings.Count(all.String(), "\n") > page.SizeOf(v.File).Height-4 { // the question has left the screen
		v.Say("")
		v.Say(v.Strong(b.Question))
	}
	v.Say("")
	switch {
	case c.app.tooLate(ctx, b) != "":
		v.Say(v.Dim("No answer is waited for: its work is over. Enter: later · /skip: take it off the list · /quit"))
	case allowable(b):
		v.Say(v.Dim("Your answer · /allow or /deny: give or refuse the permission · Enter: later · /skip: go on without · /quit"))
	default:
		v.Say(v.Dim("Your answer · Enter: later · /skip: go on without · /quit"))
	}
	for {
		typed, err := c.ask(ctx, b.ID+"> ")
		if err != nil {
			return err
		}
		s, err := parseAnswer(typed, b)
		switch {
		case errors.Is(err, io.EOF):
			return err
		case err != nil:
			v.Say(v.Yellow(err.Error()))
			continue
		case s == nil: // later
			return nil
		}
		report, err := c.app.settle(ctx, c.desk, b, *s)
		if report != nil {
			return c.settled(report, err)
		}
		v.Say(v.Yellow(text.OneLine(err.Error())))
		if now, err := c.desk.Get(ctx, b.ID); err == nil && now.Status.Settled() {
			return nil
		}
	}
}

// settled tells what comes of an answer that is stored; err: it is handed over later.
func (c *clarifying) settled(report *project.Answered, err error) error {
	c.answered++
	if c.app.json {
		if err := c.app.printJSON(report); err != nil {
			return err
		}
	}
	v := c.view()
	v.Say(v.Green("✓ ") + view.Settled(report, time.Now()))
	if err != nil {
		v.Say(v.Yellow(text.OneLine(err.Error())))
	}
	if view.GoesOnLater(report) && !slices.Contains(c.resume, report.BoulderID) {
		c.resume = append(c.resume, report.BoulderID)
	}
	return nil
}

// parseAnswer reads what was typed about a blocker: nothing is later, [io.EOF] leaves.
func parseAnswer(text string, b *boulder.Blocker) (*blockers.Settlement, error) {
	text = strings.TrimSpace(text)
	word, rest := text, ""
	if end := strings.IndexFunc(text, unicode.IsSpace); end >= 0 {
		word, rest = text[:end], strings.TrimSpace(text[end:])
	}
	answer := &blockers.Settlement{Status: boulder.BlockerAnswered, Answer: text}
	switch word {
	case "/quit", "/q", "/exit", "/later", "/skip":
		if rest != "" {
			return nil, fmt.Errorf("%s takes no text: say it alone, or answer with a text", word)
		}
	}
	switch {
	case word == "", word == "/later":
		return nil, nil
	case word == "/quit", word == "/q", word == "/exit":
		return nil, io.EOF
	case word == "/skip":
		answer.Status, answer.Answer = boulder.BlockerSkipped, ""
	case word == "/allow":
		answer.Answer, answer.Allowed = rest, true
	case word == "/deny" && !allowable(b):
		return nil, fmt.Errorf("%s asks for no permission, so there is none to refuse: answer it with a text", b.ID)
	case word == "/deny":
		answer.Answer = view.JoinedBy(": ", "Denied", rest)
	case strings.HasPrefix(word, "/") && !strings.Contains(word[1:], "/"): // a path is an answer
		return nil, fmt.Errorf("there is no %s: it is /allow, /deny, /skip, /later or /quit; an answer that begins so, begin with"+
			" another word", word)
	}
	return answer, nil
}

// farewell says what is left, and how the work goes on.
func (c *clarifying) farewell(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	all, err := c.desk.List(ctx, blockers.Filter{Status: boulder.BlockerPending}) // whatever this walk was about
	left := view.WaitingOf(c.app.placed(ctx, all))
	v := c.view()
	v.Say("")
	switch {
	case err != nil:
		v.Say(v.Yellow(err.Error()))
	case left.Awaited() != "":
		v.Say(fmt.Sprintf("%s; continue with: %s", left.Text(), view.ClarifyHint))
	case left.Soft > 0:
		v.Say(fmt.Sprintf("Nothing waits for an answer; %s: %s", left.Choices(), view.ClarifyHint))
	case c.answered > 0:
		v.Say("Nothing waits for an answer any more.")
	default:
		v.Say("Nothing waits for an answer.")
	}
	for _, id := range c.resume {
		v.Say("The work goes on with: manager resume " + id)
	}
}
