package providers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/bouldermgr/manager/providers"
)

func TestKeyNeverShows(t *testing.T) {
	t.Parallel()
	const secret = "a.secret.without.form"
	key := providers.NewKey("  " + secret + "\n")
	if key.Reveal() != secret {
		t.Errorf("Reveal gives %q", key.Reveal())
	}
	type holder struct {
		Public  providers.Key
		private providers.Key
	}
	values := []any{
		key, &key, holder{key, key}, &holder{key, key}, []providers.Key{key}, map[string]any{"k": holder{key, key}},
	}
	for _, value := range values {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			_, _ = fmt.Fprintf(&out, verb, value)
		}
		asJSON, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		asYAML, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(asJSON)
		out.Write(asYAML)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "value", value)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "value", value)
		if shown := out.String(); strings.Contains(shown, secret) || strings.Contains(shown, fmt.Sprintf("%x", secret)) {
			t.Errorf("%T shows the key: %s", value, shown)
		}
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	got := providers.NewKey("unusual-secret").Scrub("key unusual-secret and sk-abcdefgh1234")
	if strings.Contains(got, "unusual") || strings.Contains(got, "sk-abc") {
		t.Errorf("got %q", got)
	}
	if got := providers.NewKey("none").Scrub("none of the models"); got != "none of the models" {
		t.Errorf("a placeholder mangled the text: %q", got)
	}
	if got := (providers.Key{}).Scrub("text"); got != "text" {
		t.Errorf("got %q", got)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for text, secret := range map[string]string{
		"Incorrect API key provided: sk-proj-abc*****wxyz.":           "abc",
		"key xai-0123456789abcdef refused":                            "0123456789",
		`Post "https://host/v1:generate?alt=json&key=AIzaSyD-secret"`: "SyD",
		"AIzaSyAbCdEf0123456789 is not valid":                         "SyAb",
		"Authorization: Bearer abc.def-ghi_jkl":                       "abc.def",
		"authorization: bearer abc.def-ghi_jkl":                       "abc.def",
		`{"api_key": "custom-format-key"}`:                            "custom-format",
		"x-api-key: custom-format-key":                                "custom-format",
		"X-Goog-Api-Key=custom-format-key":                            "custom-format",
		"https://host/?api_key=abcdef123":                             "abcdef",
		"https://host/?a=b&access_token=abcdef123&c=d":                "abcdef",
		"key=abcdef123": "abcdef",
	} {
		got := providers.Redact(text)
		if strings.Contains(got, secret) || !strings.Contains(got, "[redacted]") {
			t.Errorf("%q became %q", text, got)
		}
		if again := providers.Redact(got); again != got {
			t.Errorf("a second pass changes %q to %q", got, again)
		}
	}
	for _, harmless := range []string{
		"the task-list has 3 entries", "risk-averse planning", "disk-full-error", "key is missing", "token count: 12",
		"primary key in monkey=banana", "bearer of news", "sk-8 of the plan",
	} {
		if got := providers.Redact(harmless); got != harmless {
			t.Errorf("%q became %q", harmless, got)
		}
	}
}
