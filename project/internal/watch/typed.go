package watch

import (
	"context"
	"strings"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/prompts"
	"github.com/bouldermgr/manager/session"
)

// typed is a word that the user typed after /blockers in OpenCode. The command does not know its session and runs
// before its message exists, so it prints a token, and the watch looks for the prompt with that token.
type typed struct {
	word string
	at   time.Time
}

// keepTyped is how long a token is looked for. Its prompt comes when the command ends.
const keepTyped = time.Minute

// typedIn looks for a token in a prompt, carries out the word, and sends the result as a prompt that joins the
// command's turn. Switches hold for a session and its sub-agents, so they apply to the main session.
func (w *Watch) typedIn(ctx context.Context, sessionID, text string) {
	for token, t := range w.typed {
		if !strings.Contains(text, token) {
			continue
		}
		delete(w.typed, token)
		main, p, dir := sessionID, opencode.Prompt{Metadata: map[string]any{session.TagKey: "watch"}}, w.dir
		for s := range w.watched() {
			if s.tree.Has(sessionID) {
				main = s.rec.SessionID
			}
			if m := s.tree.Chosen(); main == sessionID && s.rec.SessionID == main {
				p.Agent, p.Model, p.Variant = s.tree.Agent(), m.Model, m.Variant
			}
		}
		w.inBackground(ctx, func() {
			p.Text = w.cfg.Redact(prompts.Typed(t.word, w.cfg.Typed(ctx, main, t.word)))
			p.MessageID = opencode.NewMessageID(time.Now())
		}, func() {
			w.switched(ctx)
			if err := dir.Prompt(ctx, sessionID, p); err != nil {
				w.log.Warn("what came of /blockers could not be said", "session", sessionID, "error", err)
			}
		})
	}
}

// switched rereads the blockers of all sessions after a switch.
func (w *Watch) switched(ctx context.Context) {
	for s := range w.watched() {
		if s.blockersRead = (time.Time{}); w.online {
			w.lookAtBlockers(ctx, s, w.cfg.Now())
		}
		s.wake()
	}
}
