// Package session is what the tree of one OpenCode session does: its own session and those of its sub-agents, from
// OpenCode's events and, where events may be missing, from the server's state. [Tree], [Turn] and [Replies] are pure: no
// clock, no I/O. [Read], [Ask.Call] and [Ask.Reply] ask the server.
package session
