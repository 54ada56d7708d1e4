package simulate

import (
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/prompts"
)

// checkRun: a turn runs only in a running boulder, for an attempt that is live on disk, after its dependencies, once at
// a time, within the limits, and after any wait.
func (w *world) checkRun(c *call) {
	w.checkWorks(c.process)
	ref, model := c.job.Attempt.AttemptRef, c.job.Attempt.Model
	o := w.disk.Open(ref.SubTaskID)
	if o == nil || o.Attempt.AttemptRef != ref || !o.Attempt.Status.Live() || o.Turn.Number != c.job.Turn.Number ||
		o.Turn.Evidence != nil || !strings.HasPrefix(c.job.Turn.Prompt, o.Turn.Prompt) {
		w.violate("intent before effect", "turn %d of %v runs, of which the disk knows nothing", c.job.Turn.Number, ref)
		return
	}
	w.checkFull(c.now())
	if other := w.writer(o.SubTask); other != "" {
		w.violate("two that write the same files are not at work at once", "%v and %s are", ref, other)
	}
	if d := c.now(); d.Before(o.Attempt.NotBefore) {
		w.violate("waits are waited out", "%v runs at %s, and not before %s", ref, d, o.Attempt.NotBefore)
	}
	if cool := w.disk.Boulder.Cooldowns[model]; c.job.Turn.MessageID == "" && c.now().Before(cool.Until) {
		w.violate("waits are waited out", "%v runs at %s, and %s cools down until %s", ref, c.now(), model, cool.Until)
	}
	if (c.job.Resume != "") != (c.job.Recovered || c.job.Turn.MessageID != "") || c.job.Alone == nil || c.job.Project == "" {
		w.violate("a job says what it takes to run it", "%+v", c.job)
	}
	mine := func(s *session) bool { return s.ref == ref }
	if !c.job.Recovered && c.job.Attempt.SessionID == "" && w.find(mine) != nil {
		w.violate("sessions are adopted by their tag", "%v runs and is not told that it may have a session", ref)
	}
	prompt := c.job.Resume
	if c.job.Turn.MessageID == "" {
		prompt = strings.TrimPrefix(c.job.Turn.Prompt, o.Turn.Prompt)
	}
	w.checkNotes(ref.SubTaskID, o.Turn.Seq, prompt)
	w.checkAnswers(ref.SubTaskID, o.Turn.Seq, prompt)
	models := []string{model} // of all running calls
	for _, r := range c.calls {
		if r.ctx == nil || r.ctx.Err() != nil {
			continue
		}
		if r.ref.SubTaskID == ref.SubTaskID {
			w.violate("one live attempt each", "%v runs beside %v", ref, r.ref)
		}
		models = append(models, r.model)
	}
	w.checkSlots(models, model)
}

// checkWorks: work starts only in a running boulder, and not after a stop or a pause.
func (w *world) checkWorks(p *process) {
	if s := w.disk.Boulder.Status; s != boulder.Running {
		w.violate("a stop is heeded", "work begins in a boulder that is %s", s)
	}
	w.checkStopped(p)
}

func (w *world) checkStopped(p *process) {
	if now := p.now(); w.disk.Boulder.Waits(now) {
		w.violate("nothing begins before its time", "work begins at %s, and may at %s", now, w.disk.Boulder.StartAt)
	}
	if !p.stopped.IsZero() && time.Now().After(p.stopped) {
		w.violate("a stop is heeded", "work begins %s after it", time.Since(p.stopped))
	}
}

// checkPrompt: a prompt was stored before, comes from the session's own attempt, and finds the session idle.
func (w *world) checkPrompt(s *session, id string, resume bool, job boulder.Job) {
	id = promptOf(id)
	ref := job.Attempt.AttemptRef
	o := w.disk.Open(ref.SubTaskID)
	switch {
	case o == nil || o.Attempt.AttemptRef != ref || o.Attempt.SessionID != s.id:
		if !w.ended(ref) {
			w.violate("intent before effect", "session %s is prompted, of which the disk knows nothing", s.id)
		}
	case resume && o.Turn.ResumeID != id, !resume && o.Turn.MessageID != id:
		w.violate("intent before effect", "%s is sent (resume: %v); the disk has %q and %q",
			id, resume, o.Turn.MessageID, o.Turn.ResumeID)
	}
	if m := s.newest; m != nil && m.state == working && promptOf(m.id) != id {
		w.violate("one prompt in flight for each session", "%s is sent to session %s while %s is at work", id, s.id, m.id)
	}
	if t := w.disk.SubTask(ref.SubTaskID); t.Status == boulder.SubTaskCompleted {
		w.violate("nothing is done twice", "%v is prompted after it completed", ref)
	}
}

// ended reports whether the user ended an attempt while it ran.
func (w *world) ended(ref boulder.AttemptRef) bool {
	return w.attempts[ref] == boulder.AttemptCancelled
}

func (w *world) count(job boulder.Job, id string, resume bool) {
	prompt := promptRef{job.Attempt.AttemptRef, job.Turn.Number, resume}
	if old := w.prompts[prompt]; old != "" && old != id {
		w.violate("each prompt reaches the model once", "%+v is %s, and now %s", prompt, old, id)
	}
	w.prompts[prompt] = id
}

// checkTold: an acknowledged report is on disk.
func (w *world) checkTold(b boulder.Body) {
	for i := len(w.events) - 1; i >= max(0, len(w.events)-50); i-- {
		if boulder.TypeOf(w.events[i].Body) == boulder.TypeOf(b) {
			return
		}
	}
	w.violate("intent before effect", "a report of %s is acknowledged, and not on disk", boulder.TypeOf(b))
}

// checkJudge: the turn is current and not judged yet. Its evidence need not be stored: judging twice does no harm.
func (w *world) checkJudge(req boulder.JudgeRequest) {
	w.checkStopped(w.process)
	ref := req.Attempt.AttemptRef
	o := w.disk.Open(ref.SubTaskID)
	if o == nil || o.Attempt.AttemptRef != ref || o.Turn.Number != req.Turn.Number || o.Turn.Verdict != nil ||
		req.Turn.Evidence == nil {
		w.violate("intent before effect", "turn %d of %v is judged, and is not the one to judge", req.Turn.Number, ref)
		return
	}
	var answers []string
	answered := prompts.PlanAnswers(w.disk.Questions(o.SubTask))
	for t := o.SubTask; t != nil; t = w.disk.SubTask(t.Replaces) {
		answers = slices.Concat(prompts.Answers(t.SettledSince(0)), answers)
	}
	if notes := slices.Concat(w.disk.Boulder.NotesFor(ref.SubTaskID, 0), answered, answers); !slices.Equal(notes, req.Notes) {
		w.violate("orders are carried out", "the judge of %v gets the notes %q, not %q", ref, req.Notes, notes)
	}
}

// checkReplan: a replan is stored before it is requested.
func (w *world) checkReplan(req boulder.ReplanRequest) {
	w.checkWorks(w.process)
	if r := w.disk.Boulder.Replan; r == nil || r.SubTaskID != req.Failed.ID || len(r.Missing) != len(req.Missing) {
		w.violate("intent before effect", "a replan for %s is asked for, of which the disk knows nothing", req.Failed.ID)
	}
}

func (w *world) checkYielded(e boulder.Event) {
	if e.Seq > w.disk.Boulder.Seq {
		w.violate("events are shown after they are stored", "event %d is shown, and %d is stored", e.Seq, w.disk.Boulder.Seq)
	}
}

// checkEnded: no work outlives its run, and a stop is not slower than allowed.
func (w *world) checkEnded(p *process) {
	for _, r := range p.calls {
		if r.ctx != nil {
			w.violate("who starts work waits for it", "%v is at work when the run is over", r.ref)
		}
	}
	if !p.stopped.IsZero() && !p.dead {
		if took := time.Since(p.stopped); took > w.sc.grace+time.Minute {
			w.violate("a stop is heeded", "it took %s", took)
		}
	}
}
