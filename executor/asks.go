package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// Asks is the policy for permissions that OpenCode's configuration reserves for the user.
type Asks string

const (
	AsksReject Asks = "reject" // the tool call fails with an explanation, and the agent continues
	AsksAllow  Asks = "allow"  // once, each time it is asked
)

// Words lists the policies.
func (Asks) Words() []string { return []string{string(AsksReject), string(AsksAllow)} }

const (
	refusal = "The user is away and cannot give this permission. Go on without it: find another way, or leave this part out" +
		" and say so in your final message."
	// questionReply answers a question. Rejecting it would end the turn (observed).
	questionReply = "The user is not there to answer. Choose yourself what fits the task best, go on, and note the question and" +
		" your choice in your final message."

	raisedTimeout = 2 * time.Second // to read blockers; they may be on another machine
)

func (t *turn) policy(a opencode.Request) boulder.Ruling {
	switch {
	case a.Permission == "":
		return boulder.Ruling{Reply: boulder.ReplyDiverted, Message: questionReply}
	case t.cfg.Asks == AsksAllow, session.IsDoomLoop(a):
		return boulder.Ruling{Reply: boulder.ReplyAllowed}
	}
	return boulder.Ruling{Reply: boulder.ReplyDiverted, Message: refusal}
}

// answerAsks answers the pending asks of the session tree, and returns when to look again; zero: at the next ask.
func (t *turn) answerAsks(ctx context.Context) (again time.Time, err error) {
	again, looked, err := t.asks.Answer(ctx)
	if !looked {
		return again, nil
	}
	now := t.cfg.Now()
	t.seen.LastEvent, t.seen.Looked = now, false
	if since := t.seen.waitingSince; !since.IsZero() { // waiting for the user counts neither as work nor as silence
		t.seen.Began = t.seen.Began.Add(max(0, now.Sub(since)))
	}
	t.seen.waitingSince = time.Time{}
	if t.asks.Waits() {
		t.seen.waitingSince = now
	}
	return again, fault(err)
}

// about describes the circumstances of an ask, for its record.
func (t *turn) about(a opencode.Request) string {
	asks := t.tree.Member(a.SessionID)
	title, _, _ := strings.Cut(asks.Title, " (@") // OpenCode appends the agent: "Read (@general subagent)"
	return "The sub-task: " + strings.TrimRight(t.job.SubTask.Subject, ".") + "." +
		text.If(a.SessionID != t.job.Attempt.SessionID,
			" A sub-agent asks, which is to do this: "+cmp.Or(text.Short(title, 100), "unknown")+".") +
		text.If(asks.Directory != "" && asks.Directory != t.path, " It works in "+asks.Directory+".")
}

// tellRuled reports what becomes of each ask.
func (t *turn) tellRuled(ctx context.Context, ruled []*session.Ruled) error {
	err := t.offerTools(ctx) // the diverter may have been off when the turn began
	t.readRaised(ctx, false)
	for _, r := range ruled {
		if err == nil {
			err = t.say(boulder.SubTaskProgress{Activity: r.Says, Notice: r.Notice})
		}
	}
	return err
}

// Withdraw removes manager's tools from the servers they were offered to. Call it when no turn runs any more.
func (e *Executor) Withdraw(ctx context.Context) error { return e.tool.Withdraw(ctx) }

func (t *turn) ownTools() []string {
	return session.Wanted(t.cfg.Diverter, t.conn.Client.Caps(), t.asks.Diverted())
}

// offerTools offers manager's tools once per turn and directory. Agents can do without, unless the todo list decides.
func (t *turn) offerTools(ctx context.Context) error {
	diverted, lack := t.asks.Diverted(), "agents have no todo list: "
	if diverted {
		lack = "agents have no tool to report blockers with, what they ask for is diverted all the same: "
	}
	if t.cfg.Diverter != nil {
		if err := t.asks.ShowTool(ctx); err != nil {
			return fault(err)
		}
	}
	tools := t.ownTools()
	for _, id := range t.tree.Sessions() {
		dir := t.tree.In(t.dir, id)
		if slices.Equal(t.seen.offered[dir.Path()], tools) {
			continue
		}
		t.seen.offered[dir.Path()] = tools
		err := t.tool.Offer(ctx, t.cfg.Diverter, dir, tools...)
		if err == nil {
			continue
		}
		if slices.Contains(tools, opencode.TodoTool) && t.job.SubTask.DoneNeeds(boulder.DoneTodos) && !t.job.SubTask.DoneDefault {
			return fmt.Errorf("%w: the agent has no todo list: %w", boulder.ErrTrouble, err)
		}
		t.cfg.Logger.Warn("manager's tools could not be offered", "error", err)
		lacks := lack + text.Short(t.cfg.Redact.Text(err.Error()), 200)
		if !slices.Contains(t.seen.lacks, lacks) {
			t.seen.lacks = append(t.seen.lacks, lacks)
		}
		if err := t.notice(lacks); err != nil {
			return err
		}
	}
	return nil
}

// blockerPart tells the diverter which session calls the blocker tool, and reads what an ended call recorded.
func (t *turn) blockerPart(ctx context.Context, p opencode.Part) error {
	ended, err := t.asks.Called(ctx, p)
	if err != nil || !ended {
		return fault(err)
	}
	t.readRaised(ctx, false)
	return nil
}

// blockersMissed catches up after missed events: on calls of the blocker tool, which wait until the diverter knows
// their session, and on recorded blockers. Call it after [turn.answerAsks].
func (t *turn) blockersMissed(ctx context.Context) error {
	clear(t.seen.offered) // the server may have been replaced
	if err := t.offerTools(ctx); err != nil {
		return err
	}
	if t.cfg.Diverter == nil {
		return nil
	}
	const newest = 2
	for _, id := range t.tree.Sessions() {
		messages, err := t.tree.In(t.dir, id).Messages(ctx, id, newest)
		if err != nil && !errors.Is(err, opencode.ErrNotFound) {
			return fault(err)
		}
		for _, m := range messages {
			for _, p := range m.Parts {
				if p.Tool != nil && p.Tool.State == opencode.ToolRunning {
					if err := t.blockerPart(ctx, p); err != nil {
						return err
					}
				}
			}
		}
	}
	t.readRaised(ctx, true)
	return nil
}

// readRaised reads the blockers of the sub-task, for [boulder.Job.Awaits]; if it fails, the orchestrator still refuses to
// send what it must not. endWaits also ends waits that no session has any longer, such as those of a dead server: set it
// only after all pending asks were looked at.
func (t *turn) readRaised(ctx context.Context, endWaits bool) {
	if t.cfg.Diverter == nil {
		return
	}
	reading, cancel := context.WithTimeout(ctx, raisedTimeout)
	defer cancel()
	all, err := t.job.Raised(reading)
	if err != nil {
		t.cfg.Logger.Warn("blockers could not be read", "error", err)
		return
	}
	t.job.SubTask.Blockers = all
	for _, b := range all {
		if endWaits && b.Attempt == t.job.Attempt.Attempt && b.Waiting(t.cfg.Now()) && !t.asks.Awaits(b.ID) {
			t.asks.EndWait(ctx, b.ID, false)
		}
	}
}

// book makes what a turn records events of its boulder.
type book struct{ *turn }

func (b book) Blockers(ctx context.Context) ([]boulder.Blocker, error) { return b.job.Raised(ctx) }

func (b book) Raise(ctx context.Context, raised boulder.Blocker) (boulder.Blocker, error) {
	if err := b.report(boulder.BlockerRaised{AttemptRef: b.job.Attempt.AttemptRef, Blocker: raised}); err != nil {
		return raised, err
	}
	all, err := b.job.Raised(ctx)
	for _, known := range slices.Backward(all) {
		if known.Key == raised.Key {
			return known, nil
		}
	}
	return raised, fmt.Errorf("it is recorded, but not under which id: %w", err)
}

func (b book) EndWait(_ context.Context, id string, replied bool) error {
	return b.report(boulder.WaitEnded{AttemptRef: b.job.Attempt.AttemptRef, BlockerID: id, Replied: replied})
}
