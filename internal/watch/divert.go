package watch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/prompts"
	"github.com/bouldermgr/manager/session"
)

const (
	// blockerLook is how often it is looked whether a blocker was answered that a session waits for, and readTimeout bounds
	// that.
	blockerLook = 5 * time.Second
	readTimeout = 2 * time.Second
	// withdrawTimeout bounds the end of a watch.
	withdrawTimeout = 5 * time.Second
)

// offer makes the tool known to the server, once while it is connected.
func (w *Watch) offer(ctx context.Context) {
	if w.offered {
		return
	}
	w.offered = true
	if err := w.offers.Offer(ctx, w.cfg.Diverter, w.dir); err != nil {
		w.cfg.Note("Agents cannot report blockers with a tool; what they ask is diverted all the same.")
		w.log.Warn("the blocker tool could not be added to OpenCode", "error", err)
		return
	}
	w.cfg.Note("Blockers are taken down; agents report them with the tool " + w.cfg.Diverter.ToolName() + ".")
}

// withdraw takes the tool back when the watch ends.
func (w *Watch) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	if err := w.offers.Withdraw(ctx); err != nil {
		w.log.Warn("the blocker tool could not be taken back", "error", err)
	}
}

// away is what stands in for the user in one session.
type away struct {
	standIn  *session.StandIn  // of the goroutine that answers, while answers is set
	answers  bool              // what is asked is being answered
	on       bool              // the session is diverted
	blockers []boulder.Blocker // of the session and its sub-agents
	looked   time.Time         // when these two were read last
}

// diverts reports whether there is somebody who could stand in for the user in a session.
func (w *Watch) diverts(s *watched) bool {
	return w.cfg.Diverter != nil && s.notOwned == "" && !w.cfg.DryRun
}

// divert has what a session asks answered, as far as that is due, in the background.
func (w *Watch) divert(ctx context.Context, s *watched, now time.Time) {
	x := &s.away
	if !w.diverts(s) || x.answers {
		return
	}
	if x.standIn == nil {
		x.standIn = &session.StandIn{
			Diverter: w.cfg.Diverter, Scope: boulder.BlockerScope{SessionID: s.rec.SessionID}, Now: time.Now, Log: w.log,
		}
	}
	pending := s.tree.Pending()
	at := x.standIn.Next(pending, now)
	if at.IsZero() {
		return
	}
	if now.Before(at) {
		s.due = earlier(s.due, at)
		return
	}
	dirs := map[string]*opencode.Directory{}
	for _, id := range s.tree.Sessions() {
		dirs[id] = w.dir
		if path := s.tree.Member(id).Directory; path != "" {
			dirs[id] = w.client.In(path)
		}
	}
	var notes []string
	x.standIn.In = func(id string) *opencode.Directory { return dirs[id] }
	x.standIn.Tell = func(_ context.Context, ruled []*session.Ruled) error {
		for _, r := range ruled {
			notes = append(notes, w.noteOf(r))
		}
		return nil
	}
	x.answers = true
	w.background(ctx, func() func() {
		found, err := x.standIn.Round(ctx, pending)
		return func() {
			x.answers, x.looked = false, time.Time{}
			s.wake()
			for _, a := range found {
				s.tree.Ask(a, time.Now())
			}
			if err != nil {
				w.failed(err)
			}
			for _, note := range notes {
				if note != "" {
					w.cfg.Note(note)
				}
			}
		}
	})
}

// noteOf says in a sentence what becomes of an ask; nothing, if the policy allows it.
func (w *Watch) noteOf(r *session.Ruled) string {
	what, id := text.Short(w.cfg.Redact(r.String()), 200), r.Ruling.BlockerID
	switch {
	case r.Failed != nil:
		w.log.Warn("a blocker could not be taken down", "session", r.SessionID, "ask", what, "error", r.Failed)
		return ""
	case id == "":
		return ""
	case r.Waits():
		return fmt.Sprintf("%s waits for you until %s: manager blockers answer %s …", what,
			r.Ruling.Until.Local().Format(time.TimeOnly), id)
	case r.Ruling.Reply == boulder.ReplyAllowed:
		return fmt.Sprintf("%s is answered, as %s.", what, id)
	}
	return fmt.Sprintf("%s was refused, and is taken down as %s.", what, id)
}

// called tells the diverter of a call of the tool that reports blockers.
func (w *Watch) called(s *watched, e opencode.Event) {
	p, ok := e.Payload.(opencode.PartUpdated)
	if !ok || !w.diverts(s) || p.Part.Tool == nil || p.Part.Tool.Tool != w.cfg.Diverter.ToolName() {
		return
	}
	switch p.Part.Tool.State {
	case opencode.ToolRunning:
		w.cfg.Diverter.Called(boulder.BlockerCall{
			BlockerScope: boulder.BlockerScope{SessionID: s.rec.SessionID}, CallID: p.Part.ID, // of any session of the tree
			Input: p.Part.Tool.Input,
		})
	case opencode.ToolCompleted, opencode.ToolError:
		s.away.looked = time.Time{}
	}
}

// lookAtBlockers reads what was recorded for a session, if that was not done a moment ago, or since a call of the tool.
func (w *Watch) lookAtBlockers(ctx context.Context, s *watched, now time.Time) {
	x := &s.away
	if !w.diverts(s) || now.Sub(x.looked) < blockerLook {
		return
	}
	scope := boulder.BlockerScope{SessionID: s.rec.SessionID}
	x.looked, x.on = now, w.cfg.Diverter.On(scope)
	if x.on {
		w.offer(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	all, err := w.cfg.Diverter.Raised(ctx, scope)
	if err != nil {
		w.log.Warn("the blockers of a session could not be read", "session", scope.SessionID, "error", err)
		return
	}
	x.blockers = all
	answers, _ := s.answers()
	if awaits := len(s.awaited())+len(answers) > 0; awaits != s.rec.Awaits {
		s.rec.Awaits, s.changed = awaits, true
	}
}

// awaited are the hard blockers of a session that nobody has settled. It is not told to go on before.
func (s *watched) awaited() []string {
	var texts []string
	for _, b := range s.away.blockers {
		if b.Hard && !b.Status.Settled() {
			texts = append(texts, "an answer to "+b.ID+": "+text.Short(b.Question, 200))
		}
	}
	return texts
}

// answers are what the user said about blockers of the session, and its agent has not been told.
func (s *watched) answers() (texts, ids []string) {
	var news []boulder.RaisedBlocker
	for _, b := range s.away.blockers {
		// In time it was the reply to the ask itself, unless nobody heard that: the session was aborted, or OpenCode was
		// started anew.
		replied := b.Ask != nil && !b.SettledAt.After(b.Until) &&
			b.Ask.Reply != boulder.ReplyWaiting && b.Ask.Reply != boulder.ReplyGone
		if b.Status.Settled() && !replied && !slices.Contains(s.rec.Answered, b.ID) {
			news = append(news, boulder.RaisedBlocker{
				ID: b.ID, Question: b.Question, Status: b.Status, Answer: b.Answer, Allowed: b.Allowed,
			})
			ids = append(ids, b.ID)
		}
	}
	return prompts.Answers(news), ids
}
