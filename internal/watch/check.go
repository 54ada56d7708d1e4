package watch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/session"
)

// checks is what the costly criteria said.
type checks struct {
	unmet []string       // one line each, without the commands
	red   []boulder.Gate // commands that failed
	green []string
	fault error // why something was not checked
}

// missing is all of it in one line each, for the arbiter.
func (c *checks) missing() []string {
	lines := slices.Clone(c.unmet)
	for _, g := range c.red {
		lines = append(lines, fmt.Sprintf("`%s` fails", g.Command))
	}
	if c.fault != nil {
		lines = append(lines, "it could not be checked: "+c.fault.Error())
	}
	return lines
}

// maxFindings is how many errors of language servers an agent is told at once.
const maxFindings = 10

// check looks at the costly criteria, until it has the answer or the session shows life.
func (w *Watch) check(ctx context.Context, s *watched) {
	ctx, s.end = context.WithCancel(ctx)
	end, newest, id, request := s.end, s.rec.Track.Turn, s.rec.SessionID, s.rec.Request
	_, reached := s.tree.Reached()
	e := &boulder.Evidence{FinalMessage: reached.Answer, Todos: reached.Todos}
	var turn []string
	for _, m := range s.tree.Answers() {
		turn, e.Ended.Finish = append(turn, m.ID), m.Finish
	}
	var c checks
	if w.needs(boulder.DoneDiagnostics) {
		found := s.tree.Findings.Errors
		for _, f := range found[:min(len(found), maxFindings)] {
			c.unmet = append(c.unmet, fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message))
		}
	}
	w.background(ctx, func() func() {
		c.fault = w.verify(ctx, &c, request, e, id, turn)
		return func() {
			ended := ctx.Err() != nil
			end()
			if ended || s.rec.Track.Turn != newest {
				return
			}
			s.end, s.checks = nil, &c
			w.apply(s, enforcer.Verified{At: time.Now(), Green: c.green})
		}
	})
}

// verify runs the commands that the criteria need, and asks the judge where everything else holds, in the background.
func (w *Watch) verify(
	ctx context.Context, c *checks, request string, e *boulder.Evidence, sessionID string, turn []string,
) error {
	var commands []string
	if w.needs(boulder.DoneDiagnostics) && len(w.cfg.Lint) > 0 {
		has, err := w.dir.HasLanguageServer(ctx)
		if err != nil {
			return err
		}
		if !has {
			commands = w.cfg.Lint
		}
	}
	if w.needs(boulder.DoneTests) {
		commands = slices.Concat(commands, w.cfg.Tests)
	}
	for _, command := range commands {
		g := w.cfg.Run(ctx, command)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e.Gates = append(e.Gates, g)
		if g.Green() {
			c.green = append(c.green, command)
		} else {
			c.red = append(c.red, g)
		}
	}
	if !w.needs(boulder.DoneJudge) || len(c.unmet)+len(c.red) > 0 {
		return nil
	}
	messages, err := w.dir.Messages(ctx, sessionID, session.MaxMessages)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if slices.Contains(turn, m.Info.ID) {
			e.ToolCalls = append(e.ToolCalls, session.ToolCalls(m)...)
		}
	}
	e.ToolCount = len(e.ToolCalls)
	e.ToolCalls = e.ToolCalls[max(0, e.ToolCount-session.MaxToolCalls):]
	missing, err := w.cfg.Judge(ctx, request, e)
	if err != nil {
		return fmt.Errorf("the judge did not answer: %w", err)
	}
	c.unmet = append(c.unmet, missing...)
	return nil
}
