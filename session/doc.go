// Package session is what the tree of one OpenCode session does: its own session and those of its sub-agents, from
// OpenCode's events and, where events may be missing, from the server's state. [Tree] and [Turn] are pure: no clock, no
// I/O. [Read] asks the server. [StandIn] answers what is asked in the user's stead.
package session
