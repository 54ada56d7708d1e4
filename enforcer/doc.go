// Package enforcer is the arbiter of a session: given what a session has been seen to do, it says what to do about it,
// and why. It is pure: no clock, no I/O. There is no second place that decides about a session.
//
// Of a running turn, [Decide] says whether to wait, to look closer, to nudge the agent, or to stop it. What a session
// does is kept in a [Window], one for each session of the tree, sub-agents included; what is known of the turn as a
// whole goes into [Seen].
//
// Between two turns, [Continue] says whether the session is told to go on. What happened is taken in by [Apply], event
// by event, and remembered in a [Track], which is stored; what holds now goes into a [Situation]. docs/sessions.md has
// a picture of the gates.
package enforcer
