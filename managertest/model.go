package managertest

import (
	"testing"

	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// What a [Model] is asked, and answers.
type (
	// Model is a server on the loopback interface that speaks OpenAI's chat completions. URL is its base URL, Requests are
	// those that it has got.
	Model = scriptmodel.Server
	// Handler answers one request. It is called from many goroutines at once.
	Handler = scriptmodel.Handler
	// Request is one request: Kind tells steps of an agent from structured answers, FirstUser is the task, AssistantTurns
	// are the steps made, Text is everything that was said.
	Request = scriptmodel.Request
	// Kind is what a request is for.
	Kind = scriptmodel.Kind
	// Reply is the answer: Text, ToolCalls, or JSON to a structured request; or a fault: Status with Header and Body, Cut.
	Reply = scriptmodel.Reply
	// ToolCall has the Name and the Args of a tool, as in OpenCode 1.
	ToolCall = scriptmodel.ToolCall
	// Script is a Handler (its method Reply) that is read from YAML.
	Script = scriptmodel.Script
)

// The kinds of request.
const (
	KindAgent      = scriptmodel.KindAgent      // a step of an agent, or a plain question
	KindStructured = scriptmodel.KindStructured // asks for JSON, as the ledgers do
	KindTitle      = scriptmodel.KindTitle      // OpenCode names a session
)

// ParseScript reads a script; `go doc github.com/bouldermgr/manager/internal/scriptmodel.Script` shows one.
func ParseScript(yaml []byte) (*Script, error) { return scriptmodel.ParseScript(yaml) }

// StartModel starts a model, which ends with the test.
func StartModel(t testing.TB, handler Handler) *Model {
	t.Helper()
	model, err := scriptmodel.Start(handler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	return model
}

// OpenCodeEnv is environ for an OpenCode, or a manager, that asks the model at url alone, as scripted/agent, and keeps
// all its files below home.
func OpenCodeEnv(environ []string, home, url string) []string {
	return scriptmodel.OpenCodeEnv(environ, home, url)
}
