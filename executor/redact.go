package executor

import (
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/opencode"
)

// Redactor takes secrets out of text, whatever an agent or a gate printed. Its methods may be called from any
// goroutine, do not block, and change nothing when they are called again with what they returned.
type Redactor interface {
	// Text gives a text without secrets.
	Text(s string) string
	// JSON does the same to the strings in a JSON text, which stays valid.
	JSON(data []byte) []byte
}

// asItIs is the Redactor that knows no secret.
type asItIs struct{}

func (asItIs) Text(s string) string    { return s }
func (asItIs) JSON(data []byte) []byte { return data }

// clean takes secrets out of a message as soon as it is read: what is cut to a length afterwards may cut a secret in
// two, which nobody would know any more.
func (e *Executor) clean(m opencode.Message) opencode.Message {
	parts := m.Parts
	m.Parts = make([]opencode.Part, len(parts))
	for i, p := range parts {
		p.Text, p.Tool = e.cfg.Redact.Text(p.Text), e.cleanCall(p.Tool)
		m.Parts[i] = p
	}
	m.Info.Error = e.cleanError(m.Info.Error)
	return m
}

func (e *Executor) cleanCall(c *opencode.ToolCall) *opencode.ToolCall {
	if c == nil {
		return nil
	}
	r, clean := e.cfg.Redact, *c
	clean.Title, clean.Output, clean.Error = r.Text(c.Title), r.Text(c.Output), r.Text(c.Error)
	clean.Input, clean.Metadata = r.JSON(c.Input), r.JSON(c.Metadata)
	return &clean
}

func (e *Executor) cleanError(err *opencode.TurnError) *opencode.TurnError {
	if err == nil {
		return nil
	}
	clean := *err
	clean.Message, clean.Body = e.cfg.Redact.Text(err.Message), e.cfg.Redact.Text(err.Body)
	return &clean
}

// handOver is what leaves the executor: with every text in it once more without secrets, wherever it came from.
func handOver[T any](e *Executor, v T) T {
	return secret.Each(v, e.cfg.Redact.Text, e.cfg.Redact.JSON)
}

// reporting gives a report function that tells no secrets.
func (e *Executor) reporting(report func(boulder.Body) error) func(boulder.Body) error {
	return func(b boulder.Body) error { return report(handOver(e, b)) }
}

// fault is err with a text that holds no secrets.
func (e *Executor) fault(err error) error {
	if err == nil {
		return nil
	}
	if text := e.cfg.Redact.Text(err.Error()); text != err.Error() {
		return &cleanedError{text, err}
	}
	return err
}

// cleanedError is an error that is shown in other words.
type cleanedError struct {
	text string
	err  error
}

func (e *cleanedError) Error() string { return e.text }
func (e *cleanedError) Unwrap() error { return e.err }
