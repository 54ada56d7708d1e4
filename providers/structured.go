package providers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const (
	repairs = 3 // how often a bad answer is sent back with the reason
	// repairPause grows with each repair: a model that just failed is often overloaded.
	repairPause = 250 * time.Millisecond
	maxQuoted   = 8000 // of a bad answer that the model sees again, in characters
)

// Structured asks c until an answer decodes into a T and passes check. T is a struct of strings, booleans, lists and
// such structs, with json tags, and perhaps a field [Rest]. check may complete the value, is called once per candidate,
// and may be nil; the model sees its error, so it says what is wrong and what would be right. used gets the cost of
// every call.
//
// A bad answer is sent back with the exact reason, after 250 ms times the number of the repair. A cut answer is
// requested again, shorter, with twice the original limit. Other errors are returned. After three repairs the error is
// an [*Error] of [KindMalformedOutput], or [KindTruncated] if the last answer was cut. It does not change req.
func Structured[T any](
	ctx context.Context, c Completer, req *Request, check func(*T) error, used func(boulder.Usage),
) (value T, err error) {
	asked := *req
	asked.Messages = slices.Clone(req.Messages)
	for repair := 1; ; repair++ {
		var problem *Error
		wish, said := "", ""
		resp, err := c.Complete(ctx, &asked)
		if err != nil {
			failure := asError(err)
			used(failure.Usage)
			if failure.Kind != KindTruncated {
				return value, failure
			}
			problem = &Error{
				Kind: KindTruncated, Provider: failure.Provider, Model: failure.Model,
				Err: errors.New("the answer was cut at the output limit before it was complete"),
			}
			wish = "Your last answer was cut at the output limit. Answer again, much shorter: one complete JSON object " +
				"that follows the schema, brief texts, and nothing else."
			// Often reasoning took the room, so a shorter answer does not help. Doubling once is enough to find out.
			asked.MaxOutputTokens = 2 * req.MaxOutputTokens
		} else {
			used(resp.Usage)
			if value, err = Decode(resp.Text, check); err == nil {
				return value, nil
			}
			problem = &Error{Kind: KindMalformedOutput, Provider: resp.Provider, Model: resp.Model, Err: err}
			wish = "Your last answer cannot be used: " + err.Error() +
				"\nAnswer again with one complete JSON object that follows the schema, and nothing else."
			said = text.Excerpt(resp.Text, maxQuoted, text.Start)
		}
		problem.Message = text.Cut(Redact(problem.Err.Error()), maxMessage)
		if repair > repairs {
			return value, problem
		}
		said = cmp.Or(said, "(no text)") // providers refuse an empty message
		asked.Messages = append(asked.Messages, Message{RoleAssistant, said}, Message{RoleUser, wish})
		if !pause(ctx, repairPause*time.Duration(repair)) {
			return value, canceled(ctx, problem)
		}
	}
}

// Decode is the pure part of [Structured]: it returns the last object in a model's answer that decodes into a T and
// passes check. The error is about the last object, in words for the model.
func Decode[T any](text string, check func(*T) error) (none T, problem error) {
	found, err := candidates(text)
	if err != nil {
		return none, err
	}
	for _, raw := range found {
		value, err := decodeObject[T](raw)
		if err == nil && check != nil {
			err = check(&value)
		}
		if err == nil {
			return value, nil
		}
		problem = cmp.Or(problem, err)
	}
	return none, problem
}

// decodeObject decodes raw and, if a type does not match, [coerced] raw. It ignores unknown keys, which models add,
// unless T has a field [Rest].
func decodeObject[T any](raw json.RawMessage) (value T, err error) {
	raw = renamed(raw, reflect.TypeFor[T]())
	err = json.Unmarshal(raw, &value)
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return value, err
	}
	var again T
	if json.Unmarshal(coerced(raw, reflect.TypeFor[T]()), &again) == nil {
		return again, nil
	}
	if mismatch.Field != "" {
		err = fmt.Errorf("%q must be %s, not %s: %w", mismatch.Field, jsonType(mismatch.Type), mismatch.Value, err)
	}
	return value, err
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	case reflect.Pointer:
		return jsonType(t.Elem())
	default:
		return "an object"
	}
}
