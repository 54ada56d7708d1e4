package opencode

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// v2prompt is an item for a session's inbox.
type v2prompt struct {
	ID       string         `json:"id"`
	Text     string         `json:"text"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Prompt sends a prompt that has to run again under a new id, since OpenCode 2 runs no message twice, see [againMark].
func (v v2) Prompt(ctx context.Context, sessionID string, p Prompt) error {
	id := cmp.Or(p.MessageID, NewMessageID(time.Now()))
	if p.MessageID != "" {
		var settled bool
		var err error
		if id, settled, err = v.due(ctx, sessionID, p.MessageID); settled || err != nil {
			return err
		}
	}
	if err := v.ensureOurs(ctx, sessionID); err != nil {
		return err
	}
	if err := v.choose(ctx, sessionID, p); err != nil {
		return err
	}
	return v.send(ctx, sessionID, v2prompt{id, p.Text, p.Metadata})
}

// send puts a prompt into a session's inbox. If its id is there already, so is the prompt.
func (v v2) send(ctx context.Context, sessionID string, p v2prompt) error {
	err := post(ctx, v, "send prompt", v2path(sessionID, "prompt"), p)
	if conflict(err) {
		return nil
	}
	return err
}

func conflict(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return ok && failed.Status == http.StatusConflict
}

// due returns the id under which to send a prompt. settled reports that it was answered or is being answered.
func (v v2) due(ctx context.Context, sessionID, messageID string) (id string, settled bool, err error) {
	_, err = v.message(ctx, sessionID, messageID)
	switch {
	case errors.Is(err, ErrNotFound): // it may wait in the inbox, which accepts an id once
		return messageID, false, nil
	case err != nil:
		return "", false, err
	}
	active, err := v.active(ctx)
	if err != nil {
		return "", false, err
	}
	if _, busy := active[sessionID]; busy {
		return "", true, nil
	}
	tries, answered := 0, false
	query := url.Values{"limit": {strconv.Itoa(v2page)}, "order": {"desc"}}
	err = v2pages(ctx, v, "list messages", v2path(sessionID, "message"), query, func(m v2message) bool {
		switch {
		case m.Type == "assistant" && !answered && tries == 0:
			answered = m.Error == nil && m.Finish != "" && m.Finish != FinishToolCalls
		case m.Type == "user" && original(m.ID) == messageID:
			tries++
		}
		return m.ID != messageID
	})
	return messageID + againMark + strconv.Itoa(tries), answered, err
}

// revived is OpenCode's description of the message with which a starting background service resumes an unfinished turn.
const revived = "Continuing after restart"

// revivalEnds is how long such a service may show no sign before it counts as gone.
const revivalEnds = 15 * time.Minute

// ensureOurs checks once that no background service works on a session: a service resumes turns only when it starts.
func (v v2) ensureOurs(ctx context.Context, sessionID string) error {
	if _, ours := v.ours.Load(sessionID); ours {
		return nil
	}
	err := v.taken(ctx, sessionID)
	if err == nil {
		v.ours.Store(sessionID, true)
	}
	return err
}

// taken returns an error that matches [ErrUnavailable] while a background service works on a session. No other process
// can stop it, and two servers at work on one session would undo each other's changes.
func (v v2) taken(ctx context.Context, sessionID string) error {
	taken, sign := false, millis(0)
	query := url.Values{"limit": {strconv.Itoa(v2page)}, "order": {"desc"}}
	err := v2pages(ctx, v, "list messages", v2path(sessionID, "message"), query, func(m v2message) bool {
		sign = max(sign, m.Time.Created, m.Time.Completed) // the session's own time is that of its last prompt
		taken = m.Type == "synthetic" && m.Description == revived
		return !taken && m.Type != "idle" && m.Type != "user"
	})
	if err != nil || !taken {
		return err
	}
	active, err := v.active(ctx)
	if err != nil {
		return err
	}
	if _, here := active[sessionID]; here || time.Since(sign.time()) > revivalEnds {
		return nil
	}
	return &Error{
		Op: "send prompt", kind: ErrUnavailable,
		Message: "OpenCode's background service has taken up the session's turn, which has to end first",
	}
}

// againMark separates the id of a message from the number of its repetition.
const againMark = "again"

// original returns the id under which a prompt was first sent.
func original(messageID string) string {
	id, number, found := strings.Cut(messageID, againMark)
	if _, err := strconv.Atoi(number); !found || err != nil {
		return messageID
	}
	return id
}

// choose gives the session the agent, model and instructions of a prompt, since prompts have none of their own.
func (v v2) choose(ctx context.Context, sessionID string, p Prompt) error {
	now, err := getData[struct {
		Agent string
		Model *sessionModel
	}](ctx, v, "get session", v2path(sessionID), nil)
	if err == nil && p.Agent != "" && p.Agent != now.Agent {
		err = post(ctx, v, "choose agent", v2path(sessionID, "agent"), map[string]string{"agent": p.Agent})
	}
	if now.Model != nil && now.Model.Variant == "default" { // what the server makes of none
		now.Model.Variant = ""
	}
	if m := modelOf(p.Model, p.Variant); err == nil && m != nil && (now.Model == nil || *m != *now.Model) {
		err = post(ctx, v, "choose model", v2path(sessionID, "model"), map[string]any{"model": m})
	}
	if err == nil && p.System != "" {
		err = v.call(ctx, request{
			op: "set instructions", method: http.MethodPut, in: map[string]string{"value": p.System},
			path: "/api/experimental" + sessionPath(sessionID, "instructions", "entries", instruction),
		})
	}
	return err
}
