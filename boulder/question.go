package boulder

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Question is what the Task Ledger asks the user before it splits a task. If nobody can be asked, its default is the answer.
type Question struct {
	ID       string     `json:"id"` // letters, digits, - and _; "q1"
	Question string     `json:"question"`
	Why      string     `json:"why,omitempty"` // what another answer would change
	Default  string     `json:"default"`
	Answer   string     `json:"answer,omitempty"` // that counts; empty in a file: the default
	By       AnsweredBy `json:"by,omitempty"`     // who gave it
}

// AnsweredBy says whose the answer to a [Question] is.
type AnsweredBy string

const (
	ByDefault AnsweredBy = "default" // nobody was asked
	ByUser    AnsweredBy = "user"    // also if the user agreed to the default
)

// Words returns all values.
func (AnsweredBy) Words() []string { return []string{string(ByDefault), string(ByUser)} }

// Fill sets the answer and whose it is: one that differs from the default is the user's.
func (q *Question) Fill() {
	if strings.TrimSpace(q.Answer) == "" {
		q.Answer = q.Default
	}
	if q.Answer != q.Default {
		q.By = ByUser
	}
	q.By = cmp.Or(q.By, ByDefault)
}

func (s *State) prepared(_ *Event, b Prepared) error {
	switch {
	case s.Boulder.Status != Planning || s.Revision != nil || s.Boulder.Look != nil:
		return fmt.Errorf("boulder is %s, and there may be a plan or have been a look", s.Boulder.Status)
	case b.Known == nil || len(b.Known.Facts.Questions) == 0:
		return errors.New("there is nothing to ask the user")
	case b.Asked != s.Boulder.Asking():
		return fmt.Errorf("asked: %t, and the user is being asked: %t", b.Asked, s.Boulder.Asking())
	}
	s.Boulder.Prepared, s.Boulder.PlanFaults = &b, PlanFaults{}
	return nil
}

// Answer returns what is prepared with the user's answers, by place; an empty one agrees to the default. Questions without one
// stay as they are.
func (b *Prepared) Answer(answers []string) (Prepared, error) {
	known := b.Known.Clone()
	for i := range known.Facts.Questions[:min(len(answers), len(known.Facts.Questions))] {
		q := &known.Facts.Questions[i]
		if n := utf8.RuneCountInString(answers[i]); n > maxNote {
			return *b, fmt.Errorf("the answer to %q has %d characters and may have %d: put it into a file of the project and name that", q.ID, n, maxNote)
		}
		q.Answer, q.By = cmp.Or(strings.TrimSpace(answers[i]), q.Default), ByUser
	}
	return Prepared{Find: b.Find, Asked: true, Known: &known}, nil
}

// Undecided returns the questions of the plan that are answered by default, and are no blockers yet.
func (s *State) Undecided() []Question {
	if s.Revision == nil {
		return nil
	}
	return filter(s.Revision.Plan.Facts.Questions, func(q Question) bool {
		return q.By != ByUser && !slices.ContainsFunc(s.Boulder.Blockers, func(b Blocker) bool { return b.PlanQuestion == q.ID })
	})
}

// Resting returns the sub-tasks of the plan that depend on the answer to a question.
func (p *Plan) Resting(question string) (ids []string) {
	for _, s := range p.SubTasks {
		if slices.Contains(s.Questions, question) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// Questions returns those of the plan on whose answers a sub-task depends.
func (s *State) Questions(t *SubTask) []Question {
	if s.Revision == nil || len(t.Questions) == 0 {
		return nil
	}
	return filter(s.Revision.Plan.Facts.Questions, func(q Question) bool { return slices.Contains(t.Questions, q.ID) })
}

// SettledSince returns the blockers of a sub-task that the user settled after event afterSeq, and of the questions on which it
// depends those that were answered otherwise than by default.
func (s *State) SettledSince(t *SubTask, afterSeq uint64) []Blocker {
	return slices.Concat(filter(s.Boulder.Blockers, func(b Blocker) bool {
		return b.Status == BlockerAnswered && b.Answer != b.ChosenOption && b.Seq > afterSeq && slices.Contains(t.Questions, b.PlanQuestion)
	}), t.SettledSince(afterSeq))
}

// questionRaised records that a question of the plan was answered by default: a soft blocker of no sub-task.
func (s *State) questionRaised(e *Event, b BlockerRaised) error {
	raised := b.Blocker
	switch {
	case raised.ID == "" || raised.Question == "" || raised.Status != BlockerPending || raised.Hard || b.Attempt != 0:
		return fmt.Errorf("blocker %q of no sub-task has no id or no question, is %q, or work waits for it", raised.ID, raised.Status)
	case s.Boulder.Status != Running:
		return fmt.Errorf("boulder is %s", s.Boulder.Status)
	case slices.ContainsFunc(s.Boulder.Blockers, func(b Blocker) bool { return b.ID == raised.ID }):
		return fmt.Errorf("blocker %s is known", raised.ID)
	case !slices.ContainsFunc(s.Undecided(), func(q Question) bool { return q.ID == raised.PlanQuestion }):
		return fmt.Errorf("the question %q is not in the plan, answered, or a blocker", raised.PlanQuestion)
	}
	raised.BlockerScope = BlockerScope{BoulderID: e.BoulderID}
	s.Boulder.Blockers = append(slices.Clone(s.Boulder.Blockers), raised)
	s.Boulder.BlockersRaised++
	return nil
}

// questionSettled gives the user's answer to a question of the plan, also after the end: what depends on it can be redone.
func (s *State) questionSettled(e *Event, b BlockerSettled) error {
	i := slices.IndexFunc(s.Boulder.Blockers, func(known Blocker) bool { return known.ID == b.BlockerID })
	switch {
	case i < 0:
		return fmt.Errorf("the boulder has no blocker %q", b.BlockerID)
	case s.Boulder.Closed():
		return fmt.Errorf("boulder %s is over, and %s begins it no more: start another one", ShortID(s.Boulder.ID), s.Boulder.Engine)
	case b.Allowed:
		return fmt.Errorf("blocker %s asks for no permission", b.BlockerID)
	}
	if err := s.Boulder.Blockers[i].settleable(b); err != nil {
		return err
	}
	s.Boulder.Blockers = slices.Clone(s.Boulder.Blockers)
	s.Boulder.Blockers[i].settle(e, b)
	s.takeAnswers()
	return nil
}

// settleable refuses an answer that cannot be one.
func (b *Blocker) settleable(by BlockerSettled) error {
	switch {
	case b.Status.Settled():
		return fmt.Errorf("blocker %s is %s already", b.ID, b.Status)
	case !by.Status.Settled():
		return fmt.Errorf("a blocker cannot be settled as %q", by.Status)
	case by.Status == BlockerAnswered && by.Answer == "" && !by.Allowed:
		return fmt.Errorf("the answer to blocker %s is empty", b.ID)
	case utf8.RuneCountInString(by.Answer) > maxNote:
		return fmt.Errorf("the answer to blocker %s has more than %d characters", b.ID, maxNote)
	}
	return nil
}

func (b *Blocker) settle(e *Event, by BlockerSettled) {
	b.Status, b.Answer, b.Allowed, b.SettledAt, b.Seq = by.Status, by.Answer, by.Allowed, e.Time, e.Seq
}

// takeAnswers puts the answers that came after the plan into the present plan, where that has none of the user's.
func (s *State) takeAnswers() {
	questions := slices.Clone(s.Revision.Plan.Facts.Questions)
	for i := range questions {
		for _, b := range s.Boulder.Blockers {
			if q := &questions[i]; b.PlanQuestion == q.ID && b.Status == BlockerAnswered && q.By != ByUser {
				q.Answer, q.By = b.Answer, ByUser
			}
		}
	}
	now := *s.Revision
	now.Plan.Facts.Questions = questions
	s.Revision = &now
}

// KeepAnswers returns a plan in which questions that it answers by default have the user's answers of an earlier one.
func (p *Plan) KeepAnswers(was *Plan) *Plan {
	now := p.Clone()
	for i := range now.Facts.Questions {
		q := &now.Facts.Questions[i]
		for _, old := range was.Facts.Questions {
			if old.ID == q.ID && old.By == ByUser && q.By != ByUser {
				q.Answer, q.By = old.Answer, ByUser
			}
		}
	}
	return &now
}

// Settlements returns the answers to pending blockers that an edited plan gives.
func (s *State) Settlements(now *Plan) (all []BlockerSettled) {
	for _, q := range now.Facts.Questions {
		for _, b := range s.Boulder.Blockers {
			if b.PlanQuestion == q.ID && !b.Status.Settled() && q.By == ByUser {
				all = append(all, BlockerSettled{BlockerID: b.ID, Status: BlockerAnswered, Answer: q.Answer})
			}
		}
	}
	return all
}

// checkQuestions: a question of the plan is one blocker at most, and an answer stays.
func (s *State) checkQuestions(bad func(string, ...any)) {
	known := map[string]bool{}
	for _, b := range s.Boulder.Blockers {
		if b.ID == "" || b.PlanQuestion == "" || b.Hard || b.SubTaskID != "" || known[b.ID] || known["question "+b.PlanQuestion] {
			bad("blocker %q of the question %q is there twice, or not that of a question", b.ID, b.PlanQuestion)
		}
		if b.Status.Settled() != (b.Seq > 0) || b.Seq > s.Boulder.Seq {
			bad("blocker %s is %s by event %d of %d", b.ID, b.Status, b.Seq, s.Boulder.Seq)
		}
		for _, q := range s.Revision.Plan.Facts.Questions {
			if q.ID == b.PlanQuestion && b.Status == BlockerAnswered && q.By != ByUser {
				bad("the question %q is answered (%s), and the plan goes by its default", q.ID, b.ID)
			}
		}
		known[b.ID], known["question "+b.PlanQuestion] = true, true
	}
}
