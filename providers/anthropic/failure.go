package anthropic

import (
	"net/http"

	"github.com/bouldermgr/manager/providers/internal/failures"
)

// statuses gives the status that each type of error is sent with, as Anthropic's API reference lists them. The type
// counts where it contradicts the status: an error may come up after a 200 was sent.
var statuses = map[string]int{
	"invalid_request_error": http.StatusBadRequest,
	"authentication_error":  http.StatusUnauthorized,
	"billing_error":         http.StatusPaymentRequired,
	"permission_error":      http.StatusForbidden,
	"not_found_error":       http.StatusNotFound,
	"request_too_large":     http.StatusRequestEntityTooLarge,
	"rate_limit_error":      http.StatusTooManyRequests,
	"api_error":             http.StatusInternalServerError,
	"timeout_error":         http.StatusGatewayTimeout,
	"overloaded_error":      529,
}

// parseError reads {"type":"error","error":{"type":…,"message":…}}.
func parseError(body []byte) failures.Said {
	var envelope struct {
		Error struct{ Type, Message string }
	}
	if !failures.Unmarshal(body, &envelope) {
		return failures.Said{}
	}
	kind := envelope.Error.Type
	return failures.Said{Code: kind, Text: envelope.Error.Message, Status: statuses[kind]}
}
