// Package scriptmodel is a language model that plays a script: a small OpenAI-compatible server on the loopback
// interface, whose answers come from a [Handler] or from a YAML [Script].
//
// Tests, benchmarks and the offline demo point the real OpenCode at it ([OpenCodeConfig], [OpenCodeEnv]), so that real
// sessions run real tools on real files while every word of the model is known beforehand. The ledgers reach it as
// they reach any other OpenAI-compatible endpoint.
//
// It knows three kinds of request, see [Kind]: steps of an agent, structured answers and OpenCode's title requests.
// The step of an agent is counted from the conversation itself ([Request.AssistantTurns]), not remembered, so an agent
// goes on where it was after either side was restarted. Only structured answers and faults are counted by the script.
package scriptmodel
