// Package opencode is a client of an OpenCode server: it starts or attaches to one, drives sessions and follows their
// events. It knows nothing of the work that is done in those sessions.
//
// A [Server] is a process started here and ended here; a [Client] is a connection to any server; a [Directory] is
// that client's view of one working directory, which nearly every call of OpenCode's API needs: a server runs one
// instance per directory, and a call sent to the wrong one acts on the wrong files.
//
//	server, err := opencode.Start(ctx, opencode.ServerConfig{Dir: repo})
//	defer server.Stop(ctx)
//	dir := server.Client().In(repo)
//	events := server.Client().Subscribe(opencode.Filter{Directory: repo})
//	defer events.Close()
//	session, err := dir.CreateSession(ctx, opencode.NewSession{Title: "fix the build"})
//	err = dir.Prompt(ctx, session.ID, opencode.Prompt{MessageID: id, Parts: ...})
//	for event := range events.C() { ... }
//
// # When is a turn over?
//
// [API.Prompt] returns when the prompt is admitted, not when a turn runs. For up to three seconds (the first
// prompt in a directory) the session is still absent from [API.Statuses], exactly like one that has finished. A
// turn is over when [StatusChanged] says idle after it said busy; or, when state is read after a [Resync], when the
// session is absent from the statuses and its newest assistant message has the prompt as parent and is completed. A
// prompt with an unknown agent ends with [SessionFailed] alone: never busy, never idle, no message. One with an
// unknown model is busy and idle, and [SessionFailed] comes before and after the idle, again without any message; see
// [ErrUnknownModel]. While a directory's instance boots, such a failure may even pass without any event.
//
// So after [API.Prompt] wait for a sign of the turn (busy, a message with the prompt as parent, a failure) for
// some seconds only, and without one send the prompt again under the same MessageID, which is harmless.
//
// # Generations
//
// OpenCode 1 and 2 have different APIs; what a server speaks is found out when it is connected to. All is told in the terms
// of OpenCode 1: names of tools, parents of messages, states. [Caps] say what a server cannot do.
//
// Facts about OpenCode in this package's comments were observed on [TestedVersion], those about OpenCode 2 on a build from
// before 2.0.0, or reported by others.
package opencode
