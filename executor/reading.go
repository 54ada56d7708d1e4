package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

// reading is one pass over the messages of a session, oldest first: into the transcript, the evidence and the account.
// It holds one message, and of the turn's own what their end is told by.
type reading struct {
	own        []opencode.Message // that followed the turn's prompt, without the bulk
	transcript *transcript
	before     account // of all messages but the last
	last       opencode.Message
	lastAt     int64 // where the last begins in the transcript, in bytes
}

// session is the account of all messages.
func (r *reading) session() account { return r.before.with(r.last) }

// take goes one message further.
func (r *reading) take(m opencode.Message) error {
	r.before.add(r.last)
	r.last, r.lastAt = m, r.transcript.size
	return transcriptFault(r.transcript.add(m))
}

// read reads what the turn added to the session. What it costs depends on the turn, and not on the session, unless the
// session has to be read as a whole: with its first turn, after a start of the manager, and if anything is not as the turn
// before left it.
func (t *turn) read(ctx context.Context, e *boulder.Evidence) (*reading, error) {
	if m, ok := t.marks.take(t.job.Attempt.SessionID); ok {
		messages, err := t.since(ctx, m)
		if err != nil {
			return nil, err
		}
		if messages != nil {
			if w := t.continueTranscript(m); w != nil {
				return t.readOn(e, messages, m, w)
			}
		}
	}
	return t.readAll(ctx, e)
}

func (t *turn) readAll(ctx context.Context, e *boulder.Evidence) (*reading, error) {
	w, err := t.newTranscript(t.transcriptName())
	if err != nil {
		return nil, transcriptFault(err)
	}
	r := &reading{transcript: w}
	own := false
	for m, err := range t.dir.EachMessage(ctx, t.job.Attempt.SessionID) {
		m = t.clean(m)
		if err != nil {
			err = fault(err)
		} else {
			err = r.take(m)
		}
		if err != nil {
			w.discard()
			return nil, err
		}
		if own {
			r.own = append(r.own, t.readMessage(e, m))
		}
		own = own || m.Info.ID == t.job.Turn.MessageID
	}
	return r, nil
}

// readOn goes on where the mark was made.
func (t *turn) readOn(e *boulder.Evidence, messages []opencode.Message, m mark, w *transcript) (*reading, error) {
	r := &reading{transcript: w, before: m.before}
	for _, x := range messages[index(messages, m.last):] {
		if err := r.take(x); err != nil {
			w.discard()
			return nil, err
		}
	}
	for _, x := range messages[index(messages, t.job.Turn.MessageID)+1:] {
		r.own = append(r.own, t.readMessage(e, x))
	}
	return r, nil
}

// sinceMost bounds how many messages are held at once. Of a turn with more, the whole session is read instead, one message
// at a time.
const sinceMost = 64

// since gives the newest messages, the marked one and the turn's prompt among them; none if that is not to be had.
func (t *turn) since(ctx context.Context, m mark) ([]opencode.Message, error) {
	// What the events told of, the marked message, and the prompt in case that it was missed.
	for limit := len(t.seen.messages) + 2; limit <= sinceMost; limit *= 4 {
		messages, err := t.dir.Messages(ctx, t.job.Attempt.SessionID, limit)
		if err != nil {
			return nil, fault(err)
		}
		switch m.in(messages, t.job.Turn.MessageID) {
		case markFits:
			for i := range messages {
				messages[i] = t.clean(messages[i])
			}
			return messages, nil
		case markIsOff:
			return nil, nil
		}
		if len(messages) < limit {
			return nil, nil // these are all
		}
	}
	return nil, nil
}

func index(messages []opencode.Message, id string) int {
	return slices.IndexFunc(messages, func(m opencode.Message) bool { return m.Info.ID == id })
}

// keep sees to it that the transcript is on the disk, and remembers how far it goes.
func (t *turn) keep(r *reading) error {
	file, err := r.transcript.save()
	if err != nil {
		return transcriptFault(err)
	}
	t.marks.put(t.job.Attempt.SessionID, mark{
		turn: t.job.Turn.MessageID, last: r.last.Info.ID, lastAt: r.lastAt, before: r.before,
		name: r.transcript.name, file: file,
	})
	return nil
}

// slim keeps of a message what tells how the turn ended.
func slim(m opencode.Message) opencode.Message {
	s := opencode.Message{Info: m.Info}
	s.Info.Diffs, s.Info.Structured = nil, nil
	for _, p := range m.Parts {
		switch {
		case p.Tool != nil:
			s.Parts = append(s.Parts, opencode.Part{Type: p.Type, Tool: &opencode.ToolCall{Tool: p.Tool.Tool}})
		case p.Type == opencode.PartText:
			s.Parts = append(s.Parts, opencode.Part{Type: p.Type, Text: p.Text, Synthetic: p.Synthetic})
		}
	}
	return s
}

// errTranscript wraps a transcript that could not be written: without it the record of the attempt would be incomplete.
var errTranscript = errors.New("the transcript could not be written")

func transcriptFault(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w: %w", boulder.ErrTrouble, errTranscript, err)
}
