package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

// reading is one pass over the messages of a session, oldest first: into the transcript, the evidence and the account.
// It holds one message, and of the turn's own what their end is told by.
type reading struct {
	own        []opencode.Message // that followed the turn's prompt, without the bulk
	transcript *transcript
	session    account // of all messages
}

// read reads the session's messages: into the evidence those of the turn.
func (t *turn) read(ctx context.Context, e *boulder.Evidence) (*reading, error) {
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
			err = transcriptFault(w.add(m))
		}
		if err != nil {
			w.discard()
			return nil, err
		}
		r.session.add(m)
		if own {
			r.own = append(r.own, t.readMessage(e, m))
		}
		own = own || m.Info.ID == t.job.Turn.MessageID
	}
	return r, nil
}

// slim keeps of a message what tells how the turn ended.
func slim(m opencode.Message) opencode.Message {
	s := opencode.Message{Info: m.Info}
	s.Info.Structured = nil
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
