package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/session"
)

// checks is what the costly criteria said.
type checks struct {
	missing []string       // one line each, for the arbiter
	lines   []string       // those among them that are no commands, for the agent
	red     []boulder.Gate // commands that failed
	green   []string
}

// maxFindings is how many errors of language servers an agent is told at once.
const maxFindings = 10

// check looks at the costly criteria, until it has the answer or the session shows life.
func (w *Watch) check(ctx context.Context, s *watched) {
	ctx, s.end = context.WithCancel(ctx)
	q := Question{Request: s.rec.Request, Todos: s.tree.Todos()}
	_, reached := s.tree.Reached()
	q.Answer = reached.Answer
	var turn []string
	for _, m := range s.tree.Answers() {
		turn, q.Finish = append(turn, m.ID), m.Finish
	}
	var findings []string
	for _, f := range s.tree.Findings() {
		findings = append(findings, fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message))
	}
	findings = findings[:min(len(findings), maxFindings)]
	end := s.end
	newest, id := s.rec.Track.Turn, s.rec.SessionID
	evidence := func(ctx context.Context, q *Question) error { return w.calls(ctx, id, turn, q) }
	w.background(ctx, func() func() {
		c, err := w.verify(ctx, q, findings, evidence)
		return func() {
			ended := ctx.Err() != nil
			end()
			if ended || s.rec.Track.Turn != newest {
				return
			}
			s.end = nil
			if err != nil {
				c.missing = append(c.missing, "it could not be checked: "+err.Error())
			}
			s.checks = &c
			w.apply(s, enforcer.Verified{At: w.cfg.Now(), Green: c.green})
		}
	})
}

// verify runs the checks, the cheapest first; the judge is asked only where all others hold, with more evidence.
func (w *Watch) verify(
	ctx context.Context, q Question, findings []string, evidence func(context.Context, *Question) error,
) (checks, error) {
	var c checks
	commands, err := w.commands(ctx)
	if err != nil {
		return c, err
	}
	if w.needs(boulder.DoneDiagnostics) {
		c.miss(findings...)
	}
	for _, command := range commands {
		g := w.cfg.Run(ctx, command)
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		q.Gates = append(q.Gates, g)
		if g.Green() {
			c.green = append(c.green, command)
			continue
		}
		c.red = append(c.red, g)
		c.missing = append(c.missing, fmt.Sprintf("`%s` fails", command))
	}
	if w.needs(boulder.DoneJudge) && len(c.missing) == 0 {
		if err := evidence(ctx, &q); err != nil {
			return c, err
		}
		missing, err := w.cfg.Judge(ctx, q)
		if err != nil {
			return c, errors.Join(errors.New("the judge did not answer"), err)
		}
		c.miss(missing...)
	}
	return c, nil
}

// calls reads the tool calls of a turn, which are not kept.
func (w *Watch) calls(ctx context.Context, sessionID string, turn []string, q *Question) error {
	messages, err := w.dir.Messages(ctx, sessionID, session.MaxMessages)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if slices.Contains(turn, m.Info.ID) {
			q.Tools = append(q.Tools, session.ToolCalls(m)...)
		}
	}
	q.Called = len(q.Tools)
	q.Tools = q.Tools[max(0, q.Called-session.MaxToolCalls):]
	return nil
}

// commands are those that the criteria need: tests, and what stands in for a language server where none works.
func (w *Watch) commands(ctx context.Context) (all []string, err error) {
	if w.needs(boulder.DoneDiagnostics) && len(w.cfg.Lint) > 0 {
		has, err := w.dir.HasLanguageServer(ctx)
		if err != nil {
			return nil, err
		}
		if !has {
			all = append(all, w.cfg.Lint...)
		}
	}
	if w.needs(boulder.DoneTests) {
		all = append(all, w.cfg.Tests...)
	}
	return all, nil
}

func (c *checks) miss(lines ...string) {
	c.missing = append(c.missing, lines...)
	c.lines = append(c.lines, lines...)
}
