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

	raisedTimeout = 2 * time.Second  // to read blockers while an agent waits; another process may hold the database
	lastTimeout   = 10 * time.Second // to read them when no agent waits
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

// tellRuled reports what becomes of each ask. Blockers come first: the orchestrator only takes answers to known ones.
func (t *turn) tellRuled(ctx context.Context, ruled []*session.Ruled) error {
	err := t.offerTools(ctx) // the diverter may have been off when the turn began
	if err == nil && slices.ContainsFunc(ruled, func(r *session.Ruled) bool { return r.Ruling.BlockerID != "" }) {
		err = t.reportRaised(ctx, false)
	}
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

// blockerPart tells the diverter which session calls the blocker tool, and reports what an ended call recorded.
func (t *turn) blockerPart(ctx context.Context, p opencode.Part) error {
	ended, err := t.asks.Called(ctx, p)
	if err != nil || !ended {
		return fault(err)
	}
	return t.reportRaised(ctx, false)
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
	return t.reportRaised(ctx, true)
}

// reportRaised reports the blockers recorded for the attempt. [turn.conclude] repeats a failed read. markObsolete also
// marks asks that no session waits for any longer, such as those of an aborted turn or a dead server. Set it only after
// all pending asks were looked at.
func (t *turn) reportRaised(ctx context.Context, markObsolete bool) error {
	if t.cfg.Diverter == nil {
		return nil
	}
	limit := raisedTimeout
	if markObsolete {
		limit = lastTimeout
	}
	reading, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all, err := t.cfg.Diverter.Raised(reading, t.asks.Scope)
	if err != nil {
		t.cfg.Logger.Warn("blockers could not be read", "error", err)
	}
	t.seen.raisedErr, t.seen.replied = err, nil
	for _, b := range all {
		if markObsolete && b.Ask != nil && b.Ask.Reply == boulder.ReplyWaiting && !t.asks.Awaits(b.ID) {
			t.asks.Gone(ctx, b.ID)
		}
		if b.Replied() && b.SessionID == t.job.Attempt.SessionID {
			t.seen.replied = append(t.seen.replied, b.ID)
		}
		known := func(k boulder.RaisedBlocker) bool { return k.ID == b.ID }
		if slices.ContainsFunc(t.job.SubTask.Blockers, known) {
			continue
		}
		if err := t.report(boulder.BlockerRaised{AttemptRef: t.job.Attempt.AttemptRef, Blocker: b}); err != nil {
			return err
		}
		t.job.SubTask.Blockers = append(slices.Clip(t.job.SubTask.Blockers), boulder.RaisedBlocker{
			ID: b.ID, Attempt: t.job.Attempt.Attempt, Hard: b.Hard, Question: b.Question, Status: b.Status,
		}) // for [boulder.Job.Awaits]
	}
	return nil
}

// conclude reports all recorded blockers before the turn's end is reported, so that no blocked work continues. If they
// cannot be read, the error wraps [boulder.ErrTrouble], and the end of the turn is repeated.
func (t *turn) conclude(ctx context.Context) error {
	t.asks.End(ctx)
	if err := t.reportRaised(ctx, true); err != nil {
		return err
	}
	if t.seen.raisedErr != nil && (len(t.seen.offered) > 0 || t.asks.Diverted()) {
		return fmt.Errorf("%w: what the agent reported as blocked cannot be read: %w", boulder.ErrTrouble, t.seen.raisedErr)
	}
	return nil
}
