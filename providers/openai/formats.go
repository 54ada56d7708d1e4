package openai

import (
	"net/http"
	"strings"
	"sync"

	"github.com/bouldermgr/manager/providers"
)

// formats remembers which form of structured output each model takes. It lives as long as the client: an endpoint may
// learn a form with its next release.
type formats struct {
	strongest Structured

	mu      sync.Mutex
	learned map[string]Structured
}

func newFormats(strongest Structured) *formats {
	return &formats{strongest: strongest, learned: make(map[string]Structured)}
}

func (f *formats) of(model string) Structured {
	f.mu.Lock()
	defer f.mu.Unlock()
	if format, ok := f.learned[model]; ok {
		return format
	}
	return f.strongest
}

// stepDown records that the model refused a format; false means that there is none weaker. Calls that run side by side
// may all be refused the same format: the memory never goes back up.
func (f *formats) stepDown(model string, refused Structured) bool {
	weaker, ok := map[Structured]Structured{JSONSchema: JSONObject, JSONObject: Prompted}[refused]
	if !ok {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.learned[model] != Prompted {
		f.learned[model] = weaker
	}
	return true
}

// refusesFormat reports whether the endpoint did not take the response format. There is no code for it: servers name
// the parameter in their text.
func refusesFormat(failure *providers.Error) bool {
	if failure.Status != http.StatusBadRequest && failure.Status != http.StatusUnprocessableEntity {
		return false
	}
	text := strings.ToLower(failure.Message)
	return strings.Contains(text, "response_format") || strings.Contains(text, "json_schema") ||
		strings.Contains(text, "json_object")
}
