package opencode_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
)

// staged serves what OpenCode 2 says while it boots: lists of models fill one provider after the other, and the web page
// needs no password.
func staged(t *testing.T, config string, stages ...string) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret" && strings.HasPrefix(r.URL.Path, "/api/") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/info":
			fmt.Fprint(w, `{"version":"2.0.14"}`)
		case "/api/config":
			fmt.Fprint(w, config)
		case "/api/agent":
			list := `{"id":"build"}`
			if asked.Add(1) > 2 {
				list += `,{"id":"helper"}`
			}
			fmt.Fprintf(w, `{"data":[%s]}`, list)
		case "/api/model":
			n := min(int(asked.Add(1)), len(stages)) - 1
			fmt.Fprintf(w, `{"data":[%s]}`, stages[n])
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func model(provider, id string) string { return fmt.Sprintf(`{"providerID":%q,"id":%q}`, provider, id) }

// Models of the providers that the configuration defines are waited for, once for a directory, and not for ever.
func TestModelsOfConfiguredProviders(t *testing.T) {
	t.Parallel()
	const config = `[{"info":{"model":"openai/gpt","providers":{"hosted":{}}}},{"info":{"model":{"providerID":"scripted","model":"agent"},"providers":{"scripted":{"models":{"agent":{}}}}}}]`
	first := model("openai", "gpt")
	second := first + "," + model("hosted", "x")
	url, _ := staged(t, config, "", first, first, second, second+","+model("scripted", "agent"))
	client, err := opencode.Attach(t.Context(), url, opencode.AttachConfig{Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	dir := client.In("/project")
	c, err := dir.Catalogue(t.Context())
	if err != nil || !c.Has(opencode.Model("scripted/agent")) || !slices.Equal(c.Providers(), []string{"hosted", "openai", "scripted"}) {
		t.Errorf("%v, %v", c.Models, err)
	}
	if name, err := dir.DefaultModel(t.Context()); name != "scripted/agent" || err != nil {
		t.Errorf("the default model is %q, %v", name, err)
	}

	url, asked := staged(t, config, first)
	client, err = opencode.Attach(t.Context(), url, opencode.AttachConfig{Password: "secret", FillTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 2 {
		if c, err = client.In("/project").Catalogue(t.Context()); err != nil || len(c.Models) != 1 ||
			!slices.Equal(c.Missing, []string{"hosted", "scripted"}) {
			t.Errorf("a provider that is never listed: %v, %v", c.Models, err)
		}
	}
	if n := asked.Load(); n > 4 {
		t.Errorf("asked %d times", n)
	}
}

// Agents of the configuration are listed after the built-in ones, and waited for.
func TestAgentsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		agents string
		want   []string
	}{
		{`{"helper":{}}`, []string{"build", "helper"}},
		{`{"helper":{"disabled":true}}`, []string{"build"}},
	} {
		url, _ := staged(t, fmt.Sprintf(`[{"info":{"agents":%s}}]`, test.agents), "")
		client, err := opencode.Attach(t.Context(), url, opencode.AttachConfig{Password: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if got, err := client.In("/project").Agents(t.Context()); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v", test.agents, got, err)
		}
	}
}

// A wrong password is told as that, although the web page answers without one.
func TestWrongPasswordOfASecondGeneration(t *testing.T) {
	t.Parallel()
	url, _ := staged(t, "[]", "")
	_, err := opencode.Attach(t.Context(), url, opencode.AttachConfig{Password: "wrong"})
	if !errors.Is(err, opencode.ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
}
