package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/prompts"
	"github.com/bouldermgr/manager/session"
)

const (
	// blockerLook is the time between looks at a session's blockers; readTimeout bounds a look.
	blockerLook = 5 * time.Second
	readTimeout = 2 * time.Second
	// withdrawTimeout bounds the cleanup when a watch ends.
	withdrawTimeout = 5 * time.Second
)

// offer adds manager's tools to the server, once per connection: the blocker tool if sessions are diverted, and a todo
// list if OpenCode has none and the criterion needs one. Only a missing list is an error.
func (w *Watch) offer(ctx context.Context, diverted bool) error {
	caps := w.client.Caps()
	caps.Todos = caps.Todos || !w.needs(boulder.DoneTodos)
	tools := session.Wanted(w.cfg.Diverter, caps, diverted)
	missing := slices.DeleteFunc(tools, func(tool string) bool { return slices.Contains(w.offered, tool) })
	if w.cfg.DryRun || len(missing) == 0 {
		return nil
	}
	err, list := w.offers.Offer(ctx, w.cfg.Diverter, w.dir, missing...), slices.Contains(missing, opencode.TodoTool)
	switch {
	case err != nil && list:
		return fmt.Errorf("agents have no todo list: %w", err)
	case err != nil:
		w.cfg.Note("Agents cannot report blockers with a tool; what they ask is diverted all the same.")
		w.log.Warn("the blocker tool could not be added to OpenCode", "error", err)
	case list:
		w.cfg.Note("This OpenCode has no todo list; agents get one of manager's.")
	}
	if err == nil && slices.Contains(missing, boulder.BlockerTool) {
		w.cfg.Note("Blockers are recorded; agents report them with the tool " + boulder.BlockerTool + ".")
	}
	w.offered = append(w.offered, missing...)
	return nil
}

func (w *Watch) standIn(s *watched) *session.StandIn {
	return &session.StandIn{
		Tree: s.tree, Dir: w.dir, Diverter: w.cfg.Diverter, Scope: boulder.BlockerScope{SessionID: s.rec.SessionID},
		SkipAgents: w.cfg.Policy.SkipAgents, Redact: w.cfg.Redact, Now: time.Now, Log: w.log,
		Tell: func(_ context.Context, ruled []*session.Ruled) error {
			for _, r := range ruled {
				if r.Notice {
					w.cfg.Note(strings.ToUpper(r.Says[:1]) + r.Says[1:] +
						text.If(r.Waits(), ". Answer with: manager blockers answer "+r.Ruling.BlockerID+" …"))
				}
			}
			return nil
		},
	}
}

// diverts reports whether a session's asks can be diverted.
func (w *Watch) diverts(s *watched) bool {
	return w.cfg.Diverter != nil && s.notOwned == "" && !w.cfg.DryRun
}

// diversion returns what its agent is told, or the zero value if the session is not diverted.
func (s *watched) diversion() (d boulder.Diversion) {
	if s.diverted {
		d = s.standIn.Diverter.Diversion()
	}
	return d
}

// divert answers the asks of a session that are due.
func (w *Watch) divert(ctx context.Context, s *watched) {
	if !w.diverts(s) {
		return
	}
	again, looked, err := s.standIn.Answer(ctx)
	s.due = session.Earliest(s.due, again)
	if looked {
		s.blockersRead = time.Time{}
		s.wake()
	}
	if err != nil {
		w.failed(err)
	}
}

func (w *Watch) called(ctx context.Context, s *watched, e opencode.Event) {
	p, ok := e.Payload.(opencode.PartUpdated)
	if !ok || !w.diverts(s) {
		return
	}
	ended, err := s.standIn.Called(ctx, p.Part)
	if err != nil {
		w.failed(err)
	}
	if ended {
		s.blockersRead = time.Time{}
	}
}

// lookAtBlockers reads what was recorded for a session, unless it did so within blockerLook and no call came since.
func (w *Watch) lookAtBlockers(ctx context.Context, s *watched, now time.Time) {
	if !w.diverts(s) || now.Sub(s.blockersRead) < blockerLook {
		return
	}
	scope := boulder.BlockerScope{SessionID: s.rec.SessionID}
	s.blockersRead, s.diverted = now, w.cfg.Diverter.On(scope)
	if s.diverted {
		if err := w.offer(ctx, true); err != nil {
			w.failed(err)
		}
	}
	if slices.Contains(w.offered, boulder.BlockerTool) {
		if err := s.standIn.ShowTool(ctx); err != nil {
			w.failed(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	all, err := w.cfg.Diverter.Raised(ctx, scope)
	if err != nil {
		w.log.Warn("the blockers of a session could not be read", "session", scope.SessionID, "error", err)
		return
	}
	s.blockers = all
	answers, _ := s.answers()
	if awaits := len(s.awaited())+len(answers) > 0; awaits != s.rec.Awaits {
		s.rec.Awaits, s.changed = awaits, true
	}
}

// awaited returns the unsettled hard blockers of a session. The agent is told to do what does not need the answers.
func (s *watched) awaited() (all []boulder.Blocker) {
	for _, b := range s.blockers {
		if b.Hard && !b.Status.Settled() {
			all = append(all, b)
		}
	}
	return all
}

// aside returns those that the next prompt tells the agent to leave aside, once of each, and the ids of all.
func (s *watched) aside() (news []boulder.Blocker, ids []string) {
	for _, b := range s.awaited() {
		ids = append(ids, b.ID)
		if !slices.Contains(s.rec.Track.Aside, b.ID) {
			news = append(news, b)
		}
	}
	return news, ids
}

// answers returns the user's answers that the agent has not been told, and the ids of their blockers.
func (s *watched) answers() (texts, ids []string) {
	var news []boulder.Blocker
	for _, b := range s.blockers {
		if b.Status.Settled() && !b.Replied && !slices.Contains(s.rec.Answered, b.ID) {
			news, ids = append(news, b), append(ids, b.ID)
		}
	}
	return prompts.Answers(news), ids
}
