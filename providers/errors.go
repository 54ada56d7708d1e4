package providers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/retryafter"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/text"
)

// Kind classifies an error by what the caller can do about it.
type Kind string

// Only rate_limit, overloaded and network are worth repeating the same request.
const (
	KindAuth            Kind = "auth"             // key missing, wrong or not allowed to use the model: stop the run
	KindQuota           Kind = "quota"            // no credit, or a spending limit without a known end
	KindRateLimit       Kind = "rate_limit"       // RetryAfter may say when it passes, possibly in days
	KindOverloaded      Kind = "overloaded"       // the provider has no capacity at the moment
	KindContextLength   Kind = "context_length"   // the request is too long for the model: shorten it and try once
	KindContentFilter   Kind = "content_filter"   // the provider's filter or the model refused, and will again
	KindNetwork         Kind = "network"          // no connection, a cut, late or empty answer, or a 5xx
	KindTruncated       Kind = "truncated"        // the output limit cut a structured answer
	KindMalformedOutput Kind = "malformed_output" // unusable answers, after all repairs; see [Structured]
	KindBadRequest      Kind = "bad_request"      // the request itself was refused: an unknown model or parameter
	KindCanceled        Kind = "canceled"         // the caller's context ended
	KindSetup           Kind = "setup"            // a program is missing, has another version, or refuses the password
)

// Error is every error of a [Completer]. Its text says what happened and what to do, without secrets. Branch on Kind.
type Error struct {
	Kind Kind
	// Provider and Model were asked; Model is the provider's own name.
	Provider, Model string
	// KeyEnv is the environment variable of the key, for messages about the key.
	KeyEnv string
	// Status is the HTTP status, or the one claimed by an error in a 200 answer. Zero: no answer.
	Status  int
	Code    string // the provider's own error code ("insufficient_quota"). Empty: none.
	Message string // the provider's text, without secrets, at most 600 characters
	// RetryAfter is how long the provider asked to wait, from its answer on. Zero: not said.
	RetryAfter time.Duration
	// Guess is how long a limit holds if the time that the provider named, without a zone, is local. Set without
	// RetryAfter only, it is not worth waiting for without a look before.
	Guess time.Duration
	Usage boulder.Usage // the cost of the failed attempt, as far as reported
	// Err is the local cause: a transport, context or decoding error. Nil if the provider answered with an error.
	Err error
}

// meanings say what happened, what to do, and whether the same request may succeed later.
var meanings = map[Kind]struct {
	what, todo string
	passes     bool
}{
	KindAuth: {"the key was refused", "check the provider's key and that it may use this model", false},
	KindQuota: {"no credit left or a spending limit reached",
		"add credit with the provider or choose another model", false},
	KindRateLimit:  {"rate limit reached", "try again later or choose another model", true},
	KindOverloaded: {"the provider is overloaded", "try again later or choose another model", true},
	KindContextLength: {"the request is too long for the model",
		"shorten the request or choose a model with a larger context", false},
	KindContentFilter: {"the request was refused by the provider's filter or the model",
		"reword the request or choose another model", false},
	KindNetwork:         {"no usable answer from the provider", "check the connection and the provider's base URL", true},
	KindTruncated:       {"the answer was cut by the output limit", "raise the output limit or ask for less", false},
	KindMalformedOutput: {"the model gave no usable answer", "choose another with --ledger-model", false},
	KindBadRequest: {"the provider did not accept the request",
		"check the model's name and the provider's settings", false},
	KindCanceled: {"cancelled", "", false},
	KindSetup:    {"no way to ask a model", "", false},
}

// Error implements error.
func (e *Error) Error() string {
	meaning := meanings[e.Kind]
	what := cmp.Or(meaning.what, "failed")
	switch {
	case e.Kind == KindAuth && e.Status == http.StatusForbidden && strings.Contains(strings.ToLower(e.Message), "model"):
		what = "the key is valid but lacks this model"
	case e.Kind == KindAuth && e.Status == http.StatusForbidden:
		what = "the key is valid but may not do this"
	case e.UnknownModel():
		what = "the provider does not have this model, or the key lacks it"
	}
	if status := text.JoinedBy(" ", text.If(e.Status != 0, strconv.Itoa(e.Status)), e.Code); status != "" {
		what += " (" + status + ")"
	}
	todo := meaning.todo
	switch key := cmp.Or(text.Prefixed("the key in ", e.KeyEnv), "the key"); {
	case e.Kind == KindAuth && e.Status == http.StatusForbidden:
		todo = "check with the provider what " + key + " may use, or choose another model"
	case e.Kind == KindAuth && e.KeyEnv != "":
		todo = "check " + key + " and that it may use this model"
	case e.UnknownModel():
		todo = "check its name (`opencode models` lists what there is) and what " + key + " may use, or choose another with --ledger-model"
	case (e.Kind == KindRateLimit || e.Kind == KindOverloaded) && e.RetryAfter > 0:
		todo = "try again in " + e.RetryAfter.Round(time.Second).String()
	}
	who := strings.Trim(e.Provider+"/"+e.Model, "/")
	return text.JoinedBy(": ", who, what, strings.TrimRight(e.Message, ". \n")) + text.Prefixed("; ", todo)
}

// Unwrap returns the local cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool { return meanings[e.Kind].passes }

// UnknownModel reports whether the provider does not have the model.
func (e *Error) UnknownModel() bool {
	return e.Kind == KindBadRequest &&
		(e.Status == http.StatusNotFound || e.Code == "model_not_found" || errors.Is(e.Err, boulder.ErrUnknownModel))
}

// asError returns a copy of a Completer's error, and classifies one that is no [*Error].
func asError(err error) *Error {
	if typed, ok := errors.AsType[*Error](err); ok {
		return new(*typed)
	}
	return Classify(0, "", "", nil, err)
}

func (r *refusal) classify(status int, said string, header http.Header, err error) *Error {
	if claimed := r.claimed(); status < http.StatusBadRequest && claimed >= http.StatusBadRequest {
		status = claimed // an upstream's failure, or one after the headers were sent
	}
	if strings.Contains(said, "limit: 0,") && status == http.StatusTooManyRequests { // Gemini's tier without the model
		r.codes = slices.Insert(r.codes, 0, perDay)
	}
	code := ""
	for _, one := range r.codes {
		if code == "" || codes[strings.ToLower(code)] == "" && codes[strings.ToLower(one)] != "" {
			code = one
		}
	}
	e := &Error{
		Status:  status,
		Code:    text.Cut(Redact(text.If(code != perDay, code)), 100),
		Message: text.Cut(Redact(strings.TrimSpace(said)), maxMessage),
		Err:     err,
	}
	if e.Message == "" && err != nil {
		e.Message = text.Cut(Redact(err.Error()), maxMessage)
	}
	exact, known := codes[strings.ToLower(code)]
	if e.Kind = kindOf(status, strings.ToLower(strings.Join(r.codes, " ")), strings.ToLower(said), err); known &&
		e.Kind != KindCanceled {
		e.Kind = exact
	}
	e.limited(said+r.hint, max(retryafter.Of(header, time.Now()), r.wait))
	return e
}

// claimed returns the status in a body.
func (r *refusal) claimed() int {
	for _, code := range r.codes {
		if status, ok := statuses[code]; ok && r.status == 0 {
			return status
		}
	}
	return r.status
}

// limited sets the end of a limit: of a header or a field, else of the provider's words. A time without a zone is only
// a Guess. A limit with an end is temporary, whatever its code.
func (e *Error) limited(said string, exact time.Duration) {
	const notable = 10 * time.Minute // less is how long to wait between requests, also without credit
	e.RetryAfter = exact
	wait, sure := retryafter.Text(said, time.Now())
	named := wait > 0 || exact >= notable
	switch {
	case !named:
		return
	case e.Kind == KindQuota:
		if wait == 0 && !usageLimit().MatchString(said) {
			return
		}
		e.Kind = KindRateLimit
	case e.Kind == KindBadRequest, e.Kind == KindNetwork, e.Kind == KindAuth && e.Status == http.StatusForbidden:
		if !usageLimit().MatchString(said) {
			return
		}
		e.Kind = KindRateLimit
	case e.Kind != KindRateLimit && e.Kind != KindOverloaded:
		return
	}
	switch {
	case exact > 0:
	case sure:
		e.RetryAfter = wait
	default:
		e.Guess = wait
	}
}

// usageLimit matches the names of limits that end with a period of time.
var usageLimit = text.Regexp(`(?i)usage.limit|hit your (\w+ )?limit|limit (reached|exceeded|will reset)|quota|` +
	`(daily|weekly|monthly|spend|spending)[ _]limit`)

func kindOf(status int, code, text string, err error) Kind {
	says := func(cues ...string) bool {
		for _, cue := range cues {
			if strings.Contains(code, cue) || strings.Contains(text, cue) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.Is(err, context.Canceled):
		return KindCanceled
	case status == http.StatusPaymentRequired,
		says("insufficient_quota", "billing_hard_limit", "billing_not_active", "credit balance", "insufficient credit",
			"insufficient balance", "available credits", "spending limit", "specified api usage limits",
			"credits are depleted", "credits are required", "extra usage is required", "billing_disabled",
			"requires billing", "enable billing", "no credits", "out of credits", "not enough credit", "any credits",
			"insufficient_balance", "insufficient fund", "balance is insufficient", "balance is not enough",
			"balance not enough", "exceeded_current_quota", "key limit exceeded", "spend limit", "spend cap", "spending cap",
			"budget has been exceeded", "please recharge", "please top up", "in arrears", "arrearage", "overdue",
			"payment required", "余额不足", "余额已", "欠费", "请充值", "额度不足", "额度已用", "账户余额", "無可用", "餘額不足"):
		return KindQuota
	case status == http.StatusUnauthorized,
		says("invalid_api_key", "api_key_invalid", "incorrect api key", "invalid api key", "api key not valid",
			"authentication_error", "no auth credentials", "身份验证失败", "密钥无效", "令牌已过期"):
		return KindAuth
	case status == http.StatusRequestEntityTooLarge,
		says("context_length", "exceed_context_size", "maximum context", "context window", "prompt is too long",
			"maximum prompt length", "input is too long", "request too large", "request_too_large",
			"exceeds the available context", "exceed context limit", "exceeds the maximum number of tokens"):
		return KindContextLength
	case says("content_filter", "content_policy", "content management policy", "content filtering policy",
		"usage policies", "safety_violation", "敏感内容"):
		return KindContentFilter
	case status == http.StatusForbidden:
		return KindAuth
	case status == http.StatusServiceUnavailable, status == 529, says("overloaded", "访问量过大", "系统繁忙", "服务繁忙"):
		return KindOverloaded
	case status == http.StatusTooManyRequests, says("rate_limit", "resource_exhausted", "too many requests", "请求过于频繁", "速率限制", "频率限制", "并发数过高", "使用上限"):
		return KindRateLimit
	case status >= 500, status == http.StatusRequestTimeout, status == 0, status < 300:
		return KindNetwork
	default:
		return KindBadRequest
	}
}

const redacted = secret.Redacted

// Key is a provider's secret. It always prints as "[redacted]"; only [Key.Reveal] returns it. Zero means no key.
type Key struct {
	// A function, since fmt would print a string: it reads unexported fields of an enclosing struct by reflection, without
	// calling their String methods. Of a function it prints the address.
	reveal func() string
}

// NewKey wraps a secret, without surrounding white space such as that of a file.
func NewKey(key string) Key {
	key = strings.TrimSpace(key)
	if key == "" {
		return Key{}
	}
	return Key{reveal: func() string { return key }}
}

// Reveal returns the secret. Use it only for the header of a request.
func (k Key) Reveal() string {
	if k.reveal == nil {
		return ""
	}
	return k.reveal()
}

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.reveal == nil }

// Scrub replaces the secret itself in s, and then what [Redact] knows. A secret shorter than eight bytes is a
// placeholder for a server without keys ("none", "ollama"), and replacing it would only mangle text.
func (k Key) Scrub(s string) string {
	if key := k.Reveal(); len(key) >= 8 {
		s = strings.ReplaceAll(s, key, redacted)
	}
	return Redact(s)
}

// Format implements [fmt.Formatter] for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText covers JSON and YAML.
func (k Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// maxMessage bounds a provider's text in an [Error], in characters. Gateways answer with whole HTML pages.
const maxMessage = 600

// loose matches what is a key in a provider's error, but may be something else elsewhere. Vendors echo keys partly
// starred, hence the * in the classes. Package secret knows what is a key anywhere.
var loose = []struct {
	pattern func() *regexp.Regexp
	with    string
}{
	{text.Regexp(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=*-]{6,}`), "$1 " + redacted},
	{text.Regexp(`\b(?:sk|xai|gsk|pk|rk)[-_][A-Za-z0-9_*-]{8,}`), redacted},
	{text.Regexp(`\bAIza[A-Za-z0-9_*-]{6,}`), redacted},
	{text.Regexp(`(?i)([?&\s"']|^)((?:api[-_]?)?key|access_token|token)=[^&\s"'<>]+`), "$1$2=" + redacted},
	{
		text.Regexp(`(?i)\b((?:x-)?(?:goog-)?api[-_]?key["']?\s*[:=]\s*["']?)[A-Za-z0-9._~+/=*-]{6,}`),
		"${1}" + redacted,
	},
}

// byForm knows no values: a provider's key is known to its [Key].
var byForm *secret.Redactor

// Redact replaces what looks like a key in text to be logged, stored or shown: sk-…, xai-…, AIza…, "Bearer …", "key=…",
// and so on. Only [Key.Scrub] also knows the key itself.
func Redact(s string) string {
	s = byForm.Text(s)
	for _, l := range loose {
		s = l.pattern().ReplaceAllString(s, l.with)
	}
	return s
}
