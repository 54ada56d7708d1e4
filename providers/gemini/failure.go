package gemini

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/failures"
)

// rpcError is the error of Google's APIs: google.rpc.Status in JSON.
type rpcError struct {
	Code    int
	Message string
	Status  string
	Details []struct {
		Reason     string // of an ErrorInfo
		RetryDelay string // of a RetryInfo: seconds with an s, "37.5s"
		Violations []struct {
			QuotaID string // of a QuotaFailure
		}
	}
}

// parseError reads {"error":{"code","message","status","details":[…]}}, also with a list around it.
func parseError(body []byte) failures.Said {
	var envelope struct{ Error rpcError }
	if !failures.Unmarshal(failures.First(body), &envelope) { // details come in many forms
		return failures.Said{}
	}
	return envelope.Error.said()
}

func (e rpcError) said() failures.Said {
	out := failures.Said{Code: e.Status, Text: e.Message, Status: e.Code}
	for _, detail := range e.Details {
		out.Code = cmp.Or(detail.Reason, out.Code) // says more: a wrong key is an INVALID_ARGUMENT
		if wait, err := time.ParseDuration(detail.RetryDelay); err == nil {
			out.RetryAfter = max(out.RetryAfter, wait)
		}
		for _, violation := range detail.Violations {
			if e.Code == http.StatusTooManyRequests && strings.Contains(violation.QuotaID, "PerDay") {
				out.Kind = providers.KindQuota
			}
		}
	}
	// A tier that does not include the model words it as a rate limit of zero.
	if e.Code == http.StatusTooManyRequests && strings.Contains(e.Message, "limit: 0,") {
		out.Kind = providers.KindQuota
	}
	return out
}
