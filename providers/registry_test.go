package providers_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/providers"
)

func source(name string, change func(*providers.Source)) providers.Source {
	s := providers.Source{
		Name: name,
		Open: func(providers.Key) (providers.Completer, error) {
			return &script{steps: []func() (*providers.Response, error){says(name)}}, nil
		},
	}
	if change != nil {
		change(&s)
	}
	return s
}

func newRegistry(t *testing.T, env map[string]string, sources ...providers.Source) *providers.Registry {
	t.Helper()
	r, err := providers.NewRegistry(providers.RegistryConfig{
		Getenv: func(name string) string { return env[name] },
	}, sources...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRegistryAvailability(t *testing.T) {
	t.Parallel()
	keyed := source("keyed", func(s *providers.Source) { s.KeyEnv, s.DefaultModel = []string{"A_KEY", "B_KEY"}, "small" })
	free := source("free", func(s *providers.Source) { s.DefaultModel = "local" })
	for name, tt := range map[string]struct {
		env       map[string]string
		names     []string
		preferred string
	}{
		"no key":        {nil, []string{"free"}, "free/local"},
		"first of two":  {map[string]string{"A_KEY": "a"}, []string{"keyed", "free"}, "keyed/small"},
		"second of two": {map[string]string{"B_KEY": "b"}, []string{"keyed", "free"}, "keyed/small"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t, tt.env, keyed, free)
			if got := r.Names(); !slices.Equal(got, tt.names) {
				t.Errorf("names %v, want %v", got, tt.names)
			}
			for _, name := range []string{"keyed", "free", "unheard"} {
				if got := r.Has(name); got != slices.Contains(tt.names, name) {
					t.Errorf("Has(%s) is %t", name, got)
				}
			}
			if ref, ok := r.Default(); !ok || ref.String() != tt.preferred {
				t.Errorf("default %s, want %s", ref, tt.preferred)
			}
		})
	}
}

func TestRegistryWithoutDefault(t *testing.T) {
	t.Parallel()
	if ref, ok := newRegistry(t, nil, source("free", nil)).Default(); ok {
		t.Errorf("got %s", ref)
	}
}

func TestRegistryUnavailable(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil, source("free", nil),
		source("keyed", func(s *providers.Source) { s.KeyEnv = []string{"A_KEY", "B_KEY"} }))
	for provider, says := range map[string][]string{
		"keyed":   {"set A_KEY or B_KEY", "available: free"},
		"unheard": {`no provider "unheard"`, "available: free", "configuration"},
	} {
		_, err := r.Completer(providers.ModelRef{Provider: provider, Model: "m"})
		if err == nil {
			t.Fatalf("%s is available", provider)
		}
		for _, part := range says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	}
}

// Adapters are opened when asked for, with the key; an error is not remembered.
func TestRegistryOpensLazily(t *testing.T) {
	t.Parallel()
	var opened []string
	broken := errors.New("broken")
	r := newRegistry(t, map[string]string{"A_KEY": "secret-a"}, source("keyed", func(s *providers.Source) {
		s.KeyEnv = []string{"A_KEY"}
		s.Open = func(key providers.Key) (providers.Completer, error) {
			opened = append(opened, key.Reveal())
			if len(opened) == 1 {
				return nil, broken
			}
			return &script{}, nil
		}
	}))
	if len(opened) != 0 {
		t.Fatal("opened before it was asked for")
	}
	ref := providers.ModelRef{Provider: "keyed", Model: "m"}
	if _, err := r.Completer(ref); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Completer(ref); err != nil || !slices.Equal(opened, []string{"secret-a", "secret-a"}) {
		t.Errorf("opened with %q: %v", opened, err)
	}
}

func TestRegistryBindsTheModel(t *testing.T) {
	t.Parallel()
	model := &script{steps: []func() (*providers.Response, error){says("1"), says("2")}}
	r := newRegistry(t, nil, source("p", func(s *providers.Source) {
		s.Open = func(providers.Key) (providers.Completer, error) { return model, nil }
	}))
	c, err := r.Completer(providers.ModelRef{Provider: "p", Model: "vendor/bound"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "named"} {
		req := request()
		req.Model = name
		if _, err := c.Complete(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if req.Model != name {
			t.Errorf("the request was changed to %q", req.Model)
		}
	}
	if model.asked[0].Model != "vendor/bound" || model.asked[1].Model != "named" {
		t.Errorf("asked for %q and %q", model.asked[0].Model, model.asked[1].Model)
	}
}

func TestRegistryRefusesBadSources(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{"twice": "taken", "unnamed": "", "slash": "a/b", "space": "a b"} {
		cfg := providers.RegistryConfig{Getenv: func(string) string { return "" }}
		if _, err := providers.NewRegistry(cfg, source("taken", nil), source(bad, nil)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := providers.NewRegistry(providers.RegistryConfig{}); err == nil {
		t.Error("no Getenv: accepted")
	}
}
