package openai_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/openai"
)

// at gives a client for a server that runs handler.
func at(t *testing.T, handler http.HandlerFunc, change func(*openai.Endpoint)) *openai.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	endpoint := openai.Endpoint{Name: "local", BaseURL: server.URL + "/v1", KeyEnv: "LOCAL_KEY"}
	if change != nil {
		change(&endpoint)
	}
	client, err := openai.New(endpoint, providers.NewKey("not-a-real-key"),
		openai.Options{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func ask() *providers.Request {
	return &providers.Request{
		Model:    "m",
		Messages: []providers.Message{{Role: providers.RoleUser, Text: "Is it done?"}},
	}
}

func failing(t *testing.T, c providers.Completer, req *providers.Request) *providers.Error {
	t.Helper()
	_, err := c.Complete(t.Context(), req)
	failure, ok := errors.AsType[*providers.Error](err)
	if !ok {
		t.Fatalf("error is %T: %v", err, err)
	}
	return failure
}

// The forms in which servers of this family were seen to report errors.
func TestErrorForms(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status      int
		contentType string
		body        string
		header      map[string]string
		kind        providers.Kind
		wantStatus  int
		wantText    string
		retryAfter  time.Duration
	}{
		"xAI: error is a string, wrong key is a 400": {
			status: 400, body: `{"code":"Client specified an invalid argument",
				"error":"Incorrect API key provided: xa***yz."}`,
			kind: providers.KindAuth, wantStatus: 400, wantText: "Incorrect API key",
		},
		"xAI: no credit is a 403": {
			status: 403, body: `{"code":"permission-denied",
				"error":"Your team has either used all available credits or reached its monthly spending limit."}`,
			kind: providers.KindQuota, wantStatus: 403, wantText: "spending limit",
		},
		"xAI: prompt too long": {
			status: 400, body: `{"code":"invalid",
				"error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}`,
			kind: providers.KindContextLength, wantStatus: 400, wantText: "131072",
		},
		"vLLM: flat, code is a number": {
			status: 400, body: `{"object":"error","message":"This model's maximum context length is 8192 tokens.",
				"type":"BadRequestError","param":null,"code":400}`,
			kind: providers.KindContextLength, wantStatus: 400, wantText: "8192",
		},
		"llama.cpp: busy loading": {
			status: 503, body: `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`,
			kind: providers.KindOverloaded, wantStatus: 503, wantText: "Loading model",
		},
		"OpenRouter: upstream error inside of a 200": {
			status: 200, body: `{"error":{"message":"Provider returned error","code":502}}`,
			kind: providers.KindNetwork, wantStatus: 502, wantText: "Provider returned error",
		},
		"OpenRouter: rate limit inside of a 200": {
			status: 200, body: `{"error":{"message":"slow down","code":429}}`, header: map[string]string{"Retry-After": "7"},
			kind: providers.KindRateLimit, wantStatus: 429, wantText: "slow down", retryAfter: 7 * time.Second,
		},
		"OpenAI: quota is a 429": {
			status: 429, body: `{"error":{"message":"You exceeded your current quota",
				"type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
			kind: providers.KindQuota, wantStatus: 429, wantText: "quota",
		},
		"OpenAI: a single request above the limit per minute never passes": {
			status: 429, body: `{"error":{"message":"Request too large for gpt-4o: Limit 30000, Requested 40000.",
				"type":"tokens","code":"rate_limit_exceeded"}}`,
			kind: providers.KindContextLength, wantStatus: 429, wantText: "Request too large",
		},
		"OpenAI: code null, wait in milliseconds": {
			status: 429, body: `{"error":{"message":"slow down","type":"requests","param":null,"code":null}}`,
			header: map[string]string{"Retry-After-Ms": "1500"},
			kind:   providers.KindRateLimit, wantStatus: 429, wantText: "slow down", retryAfter: 1500 * time.Millisecond,
		},
		"Gemini's compatible endpoint: a list around the error": {
			status: 400, body: `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.",
				"status":"INVALID_ARGUMENT"}}]`,
			kind: providers.KindAuth, wantStatus: 400, wantText: "API key not valid",
		},
		"FastAPI: detail": {
			status: 404, body: `{"detail":"Not Found"}`,
			kind: providers.KindBadRequest, wantStatus: 404, wantText: "Not Found",
		},
		"proxy: HTML 502": {
			status: 502, contentType: "text/html", body: `<html><h1>Bad gateway</h1></html>`,
			kind: providers.KindNetwork, wantStatus: 502, wantText: "web page",
		},
		"base URL of a web site: HTML 200 is not worth a retry": {
			status: 200, contentType: "text/html", body: `<!doctype html><title>Console</title>`,
			kind: providers.KindBadRequest, wantStatus: 200, wantText: "web page",
		},
		"no choices": {
			status: 200, body: `{"id":"x","object":"chat.completion","choices":[]}`,
			kind: providers.KindNetwork, wantStatus: 200, wantText: "no choices",
		},
		"empty body": {
			status: 200, body: ``, kind: providers.KindNetwork, wantStatus: 200, wantText: "cannot be read",
		},
		"plain text": {
			status: 418, contentType: "text/plain", body: "short and stout",
			kind: providers.KindBadRequest, wantStatus: 418, wantText: "short and stout",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := at(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if tt.contentType != "" {
					w.Header().Set("Content-Type", tt.contentType)
				}
				for key, value := range tt.header {
					w.Header().Set(key, value)
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}, nil)
			failure := failing(t, c, ask())
			if failure.Kind != tt.kind || failure.Status != tt.wantStatus || failure.RetryAfter != tt.retryAfter {
				t.Errorf("kind %s, status %d, retry after %s: %v",
					failure.Kind, failure.Status, failure.RetryAfter, failure)
			}
			if !strings.Contains(failure.Error(), tt.wantText) {
				t.Errorf("%q does not contain %q", failure, tt.wantText)
			}
		})
	}
}

func TestRefusalIsContentFilter(t *testing.T) {
	t.Parallel()
	for name, choice := range map[string]string{
		"refusal":       `{"message":{"content":null,"refusal":"I can't help with that."},"finish_reason":"stop"}`,
		"finish reason": `{"message":{"content":""},"finish_reason":"content_filter"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := at(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"choices":[` + choice +
					`],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`))
			}, nil)
			failure := failing(t, c, ask())
			if failure.Kind != providers.KindContentFilter || failure.Usage.Total() != 10 {
				t.Errorf("kind %s, usage %v", failure.Kind, failure.Usage)
			}
		})
	}
}

// A redirect would carry the key to whoever the first server names.
func TestRedirectToAnotherHostIsRefused(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the request was sent on, Authorization: %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(thief.Close)
	c := at(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+"/v1/chat/completions?session=private", http.StatusTemporaryRedirect)
	}, nil)
	failure := failing(t, c, ask())
	if failure.Kind != providers.KindBadRequest {
		t.Errorf("kind %s: a redirect repeats itself", failure.Kind)
	}
	if !strings.Contains(failure.Error(), thief.URL) || strings.Contains(failure.Message, "private") {
		t.Errorf("message: %v", failure)
	}
}

func TestAnswerWithoutEndIsRefused(t *testing.T) {
	t.Parallel()
	c := at(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range 20 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}, nil)
	if failure := failing(t, c, ask()); failure.Kind != providers.KindBadRequest {
		t.Errorf("kind %s: %v", failure.Kind, failure)
	}
}
