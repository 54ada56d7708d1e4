// Package opencode is a client of an OpenCode server: it starts one or attaches to one, drives sessions and follows
// their events. It knows nothing of the work that is done in those sessions.
//
// A [Server] is a process that this package starts and stops. A [Client] is a connection to any server. A [Directory]
// is a client's view of one working directory. Nearly every call of OpenCode's API needs one: a server runs one
// instance per directory, and a call sent to the wrong instance acts on the wrong files.
//
//	server, err := opencode.Start(ctx, opencode.ServerConfig{Dir: repo})
//	defer server.Stop(ctx)
//	dir := server.Client().In(repo)
//	events := server.Client().Subscribe(opencode.Filter{Directory: repo})
//	defer events.Close()
//	session, err := dir.CreateSession(ctx, opencode.NewSession{Title: "fix the build"})
//	err = dir.Prompt(ctx, session.ID, opencode.Prompt{MessageID: id, Text: "..."})
//	for event := range events.C() { ... }
//
// # When is a turn over?
//
// [API.Prompt] returns when the server has admitted the prompt, not when a turn runs. For up to three seconds (for the
// first prompt in a directory) [API.Statuses] still omits the session, exactly as after a turn. A turn is over when
// [StatusChanged] reports idle after busy. If the state is read after a [Resync], a turn is over when the statuses omit
// the session and its newest assistant message is completed and has the prompt as parent.
//
// A prompt with an unknown agent only causes a [SessionFailed]: no busy, no idle, no message. One with an unknown model
// causes busy and idle, with a [SessionFailed] before and after the idle, but no message either; see [ErrUnknownModel].
// While a directory's instance boots, such a failure may cause no event at all.
//
// So after [API.Prompt], wait only some seconds for a sign of the turn (busy, a message with the prompt as parent, a
// failure). Without one, send the prompt again under the same MessageID, which is harmless.
//
// # Generations
//
// OpenCode 1 and 2 have different APIs. The client detects which one a server speaks when it connects. This package
// reports in the terms of OpenCode 1: tool names, parents of messages, states. [Caps] say what a server lacks.
//
// Facts about OpenCode in this package's comments were observed on [TestedVersion]. Those about OpenCode 2 were
// observed on a build from before 2.0.0, or reported by others.
package opencode
