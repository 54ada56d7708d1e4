// Package fakeopencode is a stand-in for the server of OpenCode 2, for tests: no released 2.x can be installed where they
// run. It is a real server with a state that survives it, real tools on real files, and the scripted model for a model.
// [Main] is used in the place of OpenCode's program.
//
// It does what version 2.0.21 is known to do, surprises included; [Behaviour] takes some of them away and has those of
// other versions. What a fact is worth is said in the notes that it was made from (OPENCODE2.md, not part of this
// repository): most were seen on a branch older than 2.0.0. The server is no proof that a real one behaves like that.
//
// All state is guarded by [Server.mu]. One goroutine runs each execution of a session; it gives the lock up while it
// waits for the model, a tool or a person.
package fakeopencode
