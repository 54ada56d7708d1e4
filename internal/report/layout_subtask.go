package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

func (r *Report) subTask(d *document, s *SubTask) {
	outcome := s.Summary
	if s.Status != boulder.SubTaskCompleted {
		outcome = stated(strings.ReplaceAll(string(s.Status), "_", " "), s.Reason)
	}
	m := statusMark(s.Status)
	if m == markGood && !s.completed() {
		m = markBad
		outcome = prefixed("completed, but a gate does not hold any more: ", outcome)
	}
	d.marked(m, strong(s.Subject), faint(" ("+s.ID+")"), plain(prefixed(": ", text.Clip(outcome, textShown))))
	if s.Replaces != "" {
		d.below(faint("in place of: "), plain(s.Replaces))
	}
	s.verified(d)
	for _, g := range s.Gates {
		g.layout(d)
	}
	for _, g := range s.GateHints {
		d.markedBelow(markOff, plain("not run, since nobody approved it: "), code(g))
	}
	for _, c := range s.Criteria {
		m := markBad
		if c.Met {
			m = markGood
		}
		d.markedBelow(m, plain(text.Clip(c.Criterion, evidenceShown)),
			faint(prefixed(" — ", text.Clip(c.Evidence, evidenceShown))))
	}
	named := "remaining"
	if s.Status == boulder.SubTaskCompleted {
		named = "the judge also named"
	}
	for _, x := range s.Remaining {
		if !slices.ContainsFunc(s.Criteria, func(c boulder.Criterion) bool { return c.Criterion == x }) {
			field(d, named, x)
		}
	}
	s.changed(d)
	if !done(s.Status) {
		for i, f := range s.Failures {
			field(d, fmt.Sprintf("failed try %d", i+1), f)
		}
	}
	if s.Usage.Calls > 0 || s.WorkedMS > 0 {
		d.below(faint(fmt.Sprintf("%s, %s, %s", Usage(s.Usage), text.Elapsed(milliseconds(s.WorkedMS)),
			text.Plural(s.Attempts, "attempt"))))
	}
}

// stated is a status and the reason for it, which often begins with the same word.
func stated(status, reason string) string {
	if reason == "" || strings.HasPrefix(reason, status) {
		return status + strings.TrimPrefix(reason, status)
	}
	return status + ": " + reason
}

func statusMark(s boulder.SubTaskStatus) mark {
	switch s {
	case boulder.SubTaskCompleted:
		return markGood
	case boulder.SubTaskFailed:
		return markBad
	case boulder.SubTaskBlocked:
		return markWaits
	case boulder.SubTaskPending, boulder.SubTaskInProgress:
		return markOpen
	}
	return markOff
}

// verified says where a completion rests on less than gates and the judge.
func (s *SubTask) verified(d *document) {
	switch s.VerifiedBy {
	case ByGates:
		d.markedBelow(markSoSo, plain("by the gates alone: no usable answer came from the judge"))
	case ByJudge:
		d.markedBelow(markSoSo, plain("by the judge alone: it has no gates"))
	case ByOriginal:
		d.markedBelow(markSoSo, plain("taken over from the boulder that this one is a fork of"))
	case ByRecord:
		d.markedBelow(markSoSo, plain("how it was verified is not stored"))
	case ByGatesAndJudge:
	}
}

func (g *Gate) layout(d *document) {
	took := faint(" (" + text.Elapsed(milliseconds(g.DurationMS)) + prefixed(", taken over from ", g.From) + ")")
	switch g.Result {
	case GatePassed:
		d.markedBelow(markGood, plain("passed: "), code(g.Command), took)
		return
	case GateNoWorse:
		d.markedBelow(markSoSo, plain("red, but no worse than before: "), code(g.Command),
			plain(prefixed(", ", text.Clip(g.Why, evidenceShown))), took)
		return
	case GateNotRun:
		d.markedBelow(markBad, plain("did not run: "), code(g.Command))
	case GateTimedOut:
		d.markedBelow(markBad, plain("did not end in time: "), code(g.Command), took)
	case GateFailed:
		d.markedBelow(markBad, plain(fmt.Sprintf("failed with exit code %d: ", g.ExitCode)), code(g.Command), took)
	}
	if out := lastLines(g.Output); out != "" {
		d.output(out)
	}
}

// lastLines is the end of an output, each line cut to what can be read.
func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(text.Safe(s)), "\n")
	lines = lines[max(0, len(lines)-outputShown):]
	for i, line := range lines {
		lines[i] = text.Cut(line, lineShown)
	}
	return strings.Join(lines, "\n")
}

func (s *SubTask) changed(d *document) {
	if s.ChangesUnknown != "" {
		field(d, "changes", "not known: "+s.ChangesUnknown)
		return
	}
	if len(s.Changes) == 0 {
		if s.Status == boulder.SubTaskCompleted && s.VerifiedBy != ByOriginal && s.VerifiedBy != ByRecord {
			field(d, "changes", "none")
		}
		return
	}
	spans := append([]span{faint("changes: ")}, changes(s.own)...)
	also := func(more ...span) {
		if len(spans) > 1 {
			spans = append(spans, faint("; "))
		}
		spans = append(spans, more...)
	}
	if len(s.unclaimed) > 0 {
		also(append(changes(s.unclaimed), faint(" (by this or another sub-task)"))...)
	}
	if n := len(s.others); n > 0 {
		also(faint(text.Plural(n, "file") + " by other sub-tasks"))
	}
	d.below(spans...)
}

// changes lists files by name.
func changes(files []boulder.FileChange) (spans []span) {
	for i, f := range files[:min(len(files), filesShown)] {
		if i > 0 {
			spans = append(spans, plain(", "))
		}
		spans = append(spans, code(f.Path))
		if f.Added >= 0 {
			spans = append(spans, plain(fmt.Sprintf(" +%d −%d", f.Added, f.Removed)))
		}
	}
	if more := len(files) - filesShown; more > 0 {
		spans = append(spans, plain(fmt.Sprintf(", and %d more", more)))
	}
	return spans
}
