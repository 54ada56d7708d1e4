// Package session is what the tree of one OpenCode session does: its own session and those of its sub-agents, from
// OpenCode's events and, where events may be missing, from the server's state. It is pure: no clock, no I/O.
package session
