package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/transport"
)

// failure classifies a call that gave no answer. It reads the recorded answer and not go-openai's error types: those
// lose what some servers say (xAI's string errors, errors inside of a 200), and carry the body into the error chain,
// where no redaction reaches it. err is kept only if it arose on this side.
func (c *Client) failure(req *providers.Request, answer *transport.Answer, err error) *providers.Error {
	if answer.Status == 0 || errors.Is(err, transport.ErrRedirect) || errors.Is(err, transport.ErrTooLarge) {
		return c.local(req, answer, err)
	}
	said := parseError(answer.Body)
	status := answer.Status
	if status < http.StatusBadRequest && said.status >= http.StatusBadRequest {
		status = said.status // OpenRouter reports an upstream's failure with status 200
	}
	text := said.text
	switch {
	case text != "":
	case isHTML(answer):
		text = "the server answered with a web page instead of JSON"
	case status < http.StatusBadRequest && err == nil:
		text = "the answer contains no choices"
	case status < http.StatusBadRequest:
		text = "the answer cannot be read: " + err.Error()
	default:
		text = strings.TrimSpace(string(answer.Body))
	}
	failure := providers.Classify(status, said.code, c.key.Scrub(text), answer.Header, sideError(err))
	if status < http.StatusBadRequest && isHTML(answer) {
		failure.Kind = providers.KindBadRequest // a wrong base URL answers like that every time
	}
	return c.about(req, failure)
}

// local classifies what arose on this side: no connection, a refused redirect, a request that go-openai did not send.
func (c *Client) local(req *providers.Request, answer *transport.Answer, err error) *providers.Error {
	// net/http puts the whole URL in front, after a redirect that of the other server with all its parameters.
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	failure := providers.Classify(0, "", c.key.Scrub(err.Error()), answer.Header, err)
	if unsendable(err) {
		failure.Kind = providers.KindBadRequest
	}
	return c.about(req, failure)
}

// unsendable reports errors that repeat with every attempt, although no server said so.
func unsendable(err error) bool {
	for _, target := range []error{
		transport.ErrRedirect, transport.ErrTooLarge,
		sdk.ErrChatCompletionInvalidModel, sdk.ErrReasoningEffortUnsupported, sdk.ErrReasoningSamplingUnsupported,
		sdk.ErrReasoningModelLimitationsOther, sdk.ErrReasoningModelMaxTokensDeprecated,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// refused makes the error for an answer that came, was billed and cannot be used.
func (c *Client) refused(
	req *providers.Request, answer *transport.Answer, kind providers.Kind, text string, spent providers.Usage,
) *providers.Error {
	failure := providers.Classify(answer.Status, "", c.key.Scrub(text), answer.Header, nil)
	failure.Kind, failure.Usage = kind, spent
	return c.about(req, failure)
}

func (c *Client) about(req *providers.Request, failure *providers.Error) *providers.Error {
	failure.Provider, failure.Model, failure.KeyEnv = c.endpoint.Name, req.Model, c.endpoint.KeyEnv
	return failure
}

// sideError drops the errors in which go-openai repeats what the server said.
func sideError(err error) error {
	if _, ok := errors.AsType[*sdk.RequestError](err); ok {
		return nil
	}
	if _, ok := errors.AsType[*sdk.APIError](err); ok {
		return nil
	}
	return err
}

func isHTML(answer *transport.Answer) bool {
	mediaType, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return mediaType == "text/html" || bytes.HasPrefix(bytes.TrimSpace(answer.Body), []byte("<"))
}

// said is the error in an answer's body. Zero fields were not there.
type said struct {
	code   string
	text   string
	status int
}

// parseError reads the forms in use: {"error":{"message","type","code"}} (OpenAI, most others), {"error":"text",
// "code":"text"} (xAI), {"object":"error","message",…} and {"detail":…} (vLLM, FastAPI), and a list around any of them.
func parseError(body []byte) said {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var flat map[string]json.RawMessage
	if json.Unmarshal(body, &flat) != nil {
		return said{}
	}
	fields := flat
	var nested map[string]json.RawMessage
	if json.Unmarshal(flat["error"], &nested) == nil && nested != nil {
		fields = nested
	}
	out := said{code: word(fields["code"]), text: word(fields["message"])}
	if out.text == "" {
		out.text = word(flat["error"])
	}
	if out.text == "" && len(flat["detail"]) > 0 {
		out.text = word(flat["detail"])
	}
	// A numeric code is an HTTP status in disguise, and the type says more. A null one says nothing at all.
	if status, err := strconv.Atoi(out.code); err == nil {
		out.status, out.code = status, ""
	}
	if out.code == "" {
		out.code = word(fields["type"])
	}
	return out
}

// word gives a string as it is, null and nothing as "", and any other value as JSON.
func word(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
