package managertest

import (
	"testing"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// Requests to a [Model], and its answers.
type (
	// Model is a server on the loopback interface that speaks OpenAI's chat completions API at URL and records Requests.
	Model = scriptmodel.Server
	// Handler answers one request. It is called from many goroutines at once.
	Handler = scriptmodel.Handler
	// Request is one request. Kind tells an agent's steps from structured answers, FirstUser is the task, AssistantTurns
	// counts the steps made, Text is the whole conversation.
	Request = scriptmodel.Request
	// Kind is what a request is for.
	Kind = scriptmodel.Kind
	// Reply is the answer: Text, ToolCalls, or JSON to a structured request; or a fault: Status, Header and Body, or Cut.
	Reply = scriptmodel.Reply
	// ToolCall has the Name and the Args of a tool, as in OpenCode 1.
	ToolCall = scriptmodel.ToolCall
	// Script is a scripted Handler (its method Reply), read from YAML.
	Script = scriptmodel.Script
)

// The kinds of request.
const (
	KindAgent      = scriptmodel.KindAgent      // a step of an agent, or a plain question
	KindStructured = scriptmodel.KindStructured // asks for JSON, as the ledgers do
	KindTitle      = scriptmodel.KindTitle      // OpenCode names a session
)

// ParseScript reads a script; `go doc github.com/bouldermgr/manager/testkit/scriptmodel.Script` shows one.
func ParseScript(yaml []byte) (*Script, error) { return scriptmodel.ParseScript(yaml) }

// StartModel starts a model that stops at the end of the test.
func StartModel(t testing.TB, handler Handler) *Model {
	t.Helper()
	model, err := scriptmodel.Start(handler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	return model
}

// OpenCodeEnv returns environ for an OpenCode or a manager that asks only the model at url, as scripted/agent, and
// keeps all its files below home.
func OpenCodeEnv(environ []string, home, url string) []string {
	return scriptmodel.OpenCodeEnv(environ, home, url)
}
