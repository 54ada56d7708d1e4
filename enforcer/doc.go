// Package enforcer is the arbiter of sessions: from what a session was seen to do, it decides what to do about it, and
// says why. It is pure: no clock, no I/O. Nothing else decides about a session.
//
// During a turn, [Decide] says whether to wait, look closer, nudge the agent or stop it. A [Window] for each session of
// the tree, sub-agents included, holds what that session did; [Seen] holds what is known of the whole turn.
//
// Between turns, [Continue] says whether to continue the session. [Apply] folds events into a [Track], which is stored;
// a [Situation] holds what is true now. docs/sessions.md lists the gates.
package enforcer
