package opencode

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/internal/text"
)

// unmarshal is json.Unmarshal, to which a field of an unexpected type is a field that is not there: one odd part must
// not make the rest of a session unreadable.
func unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if odd, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if odd.Field != "" {
			return nil
		}
		// Not wrapped: to whom it is a field, it must not pass for one that may be left out.
		return fmt.Errorf("unexpected JSON %s", odd.Value)
	}
	return err
}

// cutText keeps at most limit bytes of a text, in a copy that does not hold on to the rest.
func cutText(s string, limit int) (kept string, cut bool) {
	if len(s) <= limit {
		return s, false
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return strings.Clone(s[:limit]), true
}

var jsonString = text.Regexp(`"(?:[^"\\]|\\.)*"`)

// cutJSON cuts the strings in a JSON value at maxEventText. The value is nil if it is longer than limit all the same.
func cutJSON(value json.RawMessage, limit int) (kept json.RawMessage, cut bool) {
	if len(value) <= maxEventText {
		return value, false
	}
	kept = jsonString().ReplaceAllFunc(value, func(quoted []byte) []byte {
		var s string
		if len(quoted) <= maxEventText || json.Unmarshal(quoted, &s) != nil || len(s) <= maxEventText {
			return quoted
		}
		cut = true
		s, _ = cutText(s, maxEventText)
		quoted, _ = json.Marshal(s) // strings can be marshalled
		return quoted
	})
	if len(kept) > limit {
		return nil, true
	}
	return kept, cut
}
