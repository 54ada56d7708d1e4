// Package ledger holds what both ledgers share: asking their model, its cost, and what a provider's failure means, also
// for turns of agents.
package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
)

// ErrNoAnswer is returned by [Ask] if the model gave no usable answer.
var ErrNoAnswer = errors.New("the model gave no usable answer")

// Ask puts a prompt to a ledger's model; if it is too long for the model, then the next, shorter one. check tells the
// model what is wrong with an answer. Ask blocks until the model answered, perhaps for minutes. spent is valid with an
// error too. Errors are those of [Outage], or wrap [ErrNoAnswer], or [boulder.ErrFatal] without a model.
func Ask[T any](
	ctx context.Context, c providers.Completer, log *slog.Logger, question providers.Request, check func(*T) error, prompts ...string,
) (answer T, spent boulder.Usage, err error) {
	used := func(u boulder.Usage) { // of all attempts of a call
		u.Calls, u.Unpriced = 1, min(u.Unpriced, 1)
		spent = spent.Add(u)
	}
	if c == nil {
		return answer, spent, fmt.Errorf("%w: the ledger has no model: set its Completer", boulder.ErrFatal)
	}
	for _, prompt := range prompts {
		question.Messages = []providers.Message{{Role: providers.RoleUser, Text: prompt}}
		if answer, err = providers.Structured(ctx, c, &question, check, used); err == nil {
			return answer, spent, nil
		}
		log.InfoContext(ctx, "the ledger's model gave no usable answer", "schema", question.SchemaName, "error", err)
		if kindOf(err) != providers.KindContextLength {
			break
		}
	}
	return answer, spent, cmp.Or(Outage(ctx, err), error(unanswered{err}))
}

// unanswered is an [ErrNoAnswer] that says only what the model did, since that says it all.
type unanswered struct{ error }

func (unanswered) Is(target error) bool { return target == ErrNoAnswer }
func (u unanswered) Unwrap() error      { return u.error }

// Schema returns the JSON Schema of T, a struct of strings, booleans, slices and such structs, in the form that all
// vendors' strict modes accept: all fields required, no others allowed, no bounds. Models write properties in this
// order. only lists the allowed values of a string by path (criteria.id); without lists fields to omit.
func Schema[T any](only map[string][]string, without ...string) json.RawMessage {
	var of func(t reflect.Type, path string) string
	of = func(t reflect.Type, path string) string {
		switch t.Kind() {
		case reflect.Pointer:
			return of(t.Elem(), path)
		case reflect.Slice:
			return `{"type":"array","items":` + of(t.Elem(), path) + `}`
		case reflect.Bool:
			return `{"type":"boolean"}`
		case reflect.String:
			if values, err := json.Marshal(only[path]); err == nil && only[path] != nil {
				return `{"type":"string","enum":` + string(values) + `}`
			}
			return `{"type":"string"}`
		}
		var fields, names []string
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			at := strings.TrimPrefix(path+"."+name, ".")
			if name != providers.Rest && !slices.Contains(without, at) {
				fields = append(fields, fmt.Sprintf("%q:%s", name, of(f.Type, at)))
				names = append(names, fmt.Sprintf("%q", name))
			}
		}
		return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`,
			strings.Join(fields, ","), strings.Join(names, ","))
	}
	return json.RawMessage(of(reflect.TypeFor[T](), ""))
}

// Headed returns a section of a prompt, or "" if the body is empty.
func Headed(heading, body string) string {
	if body = strings.TrimSpace(strings.ToValidUTF8(body, "\uFFFD")); body == "" {
		return ""
	}
	return fmt.Sprintf("## %s\n\n%s\n\n", heading, body)
}

// Bullets formats a list for a prompt.
func Bullets(items []string) string {
	var b strings.Builder
	for _, item := range items {
		fmt.Fprintf(&b, "- %s\n", item)
	}
	return b.String()
}

// Marked encloses untrusted data in marks that contain its digest, so that no text can contain its own closing mark.
func Marked(name, data string) string {
	data = strings.ToValidUTF8(data, "\uFFFD")
	mark := fmt.Sprintf("%s %.8x", name, sha256.Sum256([]byte(data)))
	return fmt.Sprintf("<<<%s\n%s\n%s>>>\n\n", mark, data, mark)
}

// probe is when a limit is asked about again whose end was named without a zone: it may be hours earlier. With the
// usual number of rate limits in a row it covers a limit of five hours.
const probe = 30 * time.Minute

// Outage returns an error if the model could not be asked, and nil if it answered, though unusably. The error is the
// cause of ctx's end, or wraps [boulder.ErrFatal] if further calls would fail too, or is a [*boulder.TroubleError] with
// the time to ask again.
func Outage(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch kindOf(err) {
	case providers.KindContextLength, providers.KindContentFilter, providers.KindTruncated, providers.KindMalformedOutput:
		return nil
	case providers.KindQuota:
		return fmt.Errorf("%w: %w", boulder.ErrNoCredit, err)
	case providers.KindAuth:
		return fmt.Errorf("%w: %w", boulder.ErrKey, err)
	case providers.KindBadRequest, providers.KindSetup:
		kind := boulder.ErrFatal
		if failure, ok := errors.AsType[*providers.Error](err); ok && failure.UnknownModel() {
			kind = boulder.ErrUnknownModel
		}
		return fmt.Errorf("%w: %w", kind, err)
	}
	trouble := &boulder.TroubleError{Kind: boulder.TroubleNetwork, Err: err}
	if failure, ok := errors.AsType[*providers.Error](err); ok {
		guess := min(failure.Guess, probe)
		trouble.RetryAfter, trouble.Guessed = max(failure.RetryAfter, guess), guess > failure.RetryAfter
		switch failure.Kind {
		case providers.KindRateLimit:
			trouble.Kind = boulder.TroubleRateLimit
		case providers.KindOverloaded:
			trouble.Kind = boulder.TroubleOverloaded
		}
	}
	return trouble
}

// kindOf returns the provider's error kind. Errors that break the Completer contract count as network errors.
func kindOf(err error) providers.Kind {
	if err == nil {
		return ""
	}
	if failure, ok := errors.AsType[*providers.Error](err); ok {
		return failure.Kind
	}
	return providers.KindNetwork
}
