package failures

import (
	"encoding/json"
	"errors"
)

// Unmarshal reads the JSON of an error. A field of another type than expected costs that field only: what servers say
// comes in many forms. It reports whether body is JSON at all.
func Unmarshal(body []byte, into any) bool {
	err := json.Unmarshal(body, into)
	_, mismatch := errors.AsType[*json.UnmarshalTypeError](err)
	return err == nil || mismatch
}

// First takes the list away that some servers put around an error.
func First(body []byte) []byte {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		return list[0]
	}
	return body
}
