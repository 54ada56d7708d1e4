// Package enforcer is the arbiter of a session: given what a session has been seen to do, it says whether to wait, to
// look closer, to nudge it, or to stop it, and why. It is pure: no clock, no I/O. The executor asks it for every turn;
// there is no second place that decides about a session.
//
// What a session does is kept in a [Window], one for each session of the tree, sub-agents included. What is known of
// the turn as a whole goes into [Seen]. [Decide] gives one answer.
package enforcer
