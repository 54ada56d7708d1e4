package providers_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/providers"
)

func keyed(name string, keyEnv ...string) providers.Source {
	return providers.Source{
		Name: name, KeyEnv: keyEnv,
		Open: func(providers.Key) (providers.Completer, error) { return &script{}, nil },
	}
}

func keyless(name string, steps ...step) providers.Source {
	model := &script{steps: steps}
	return providers.Source{Name: name, Open: func(providers.Key) (providers.Completer, error) { return model, nil }}
}

func env(set map[string]string) func(string) string {
	return func(name string) string { return set[name] }
}

func newRegistry(t *testing.T, set map[string]string, sources ...providers.Source) *providers.Registry {
	t.Helper()
	r, err := providers.NewRegistry(providers.RegistryConfig{Getenv: env(set)}, sources...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRegistryAvailability(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env   map[string]string
		names []string
	}{
		"no key":        {nil, []string{"free"}},
		"first of two":  {map[string]string{"A_KEY": "a"}, []string{"keyed", "free"}},
		"second of two": {map[string]string{"B_KEY": "b"}, []string{"keyed", "free"}},
	} {
		r := newRegistry(t, tt.env, keyed("keyed", "A_KEY", "B_KEY"), keyed("free"))
		if got := r.Names(); !slices.Equal(got, tt.names) {
			t.Errorf("%s: names %v, want %v", name, got, tt.names)
		}
		for _, provider := range []string{"keyed", "free", "unheard"} {
			if got := r.Has(provider); got != slices.Contains(tt.names, provider) {
				t.Errorf("%s: Has(%s) is %t", name, provider, got)
			}
		}
	}
	r := newRegistry(t, nil, keyed("free"), keyed("keyed", "A_KEY", "B_KEY"))
	for provider, says := range map[string][]string{
		"keyed":   {"set A_KEY or B_KEY", "available: free"},
		"unheard": {`no provider "unheard"`, "available: free", "configuration"},
	} {
		_, err := r.Completer(providers.ModelRef{Provider: provider, Model: "m"})
		for _, part := range says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
	}
}

func TestRegistryChecksEffort(t *testing.T) {
	t.Parallel()
	asked := &script{steps: []step{says("one"), says("two")}}
	s := keyed("p")
	s.Efforts = []string{"low", "high"}
	s.Open = func(providers.Key) (providers.Completer, error) { return asked, nil }
	r := newRegistry(t, nil, s)
	_, err := r.Completer(providers.ModelRef{Provider: "p", Model: "m", Effort: "max"})
	if err == nil || !strings.Contains(err.Error(), "does not have the effort max: it has low, high") {
		t.Error(err)
	}
	c, err := r.Completer(providers.ModelRef{Provider: "p", Model: "m", Effort: "high"})
	if err != nil {
		t.Fatal(err)
	}
	for i, own := range []string{"", "low"} {
		if _, err := c.Complete(t.Context(), &providers.Request{Effort: own}); err != nil {
			t.Fatal(err)
		}
		if got := asked.asked[i].Effort; got != cmp.Or(own, "high") {
			t.Errorf("asked with %q, of the request %q", got, own)
		}
	}
}

// Adapters are opened on first use, with the key. An error is not cached.
func TestRegistryOpensLazily(t *testing.T) {
	t.Parallel()
	var opened []string
	broken := errors.New("broken")
	s := keyed("keyed", "A_KEY")
	s.Open = func(key providers.Key) (providers.Completer, error) {
		opened = append(opened, key.Reveal())
		if len(opened) == 1 {
			return nil, broken
		}
		return &script{}, nil
	}
	r := newRegistry(t, map[string]string{"A_KEY": "secret-a"}, s)
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

func TestErrorNamesTheKeysVariable(t *testing.T) {
	t.Parallel()
	for variable, set := range map[string]map[string]string{
		"A_KEY": {"A_KEY": "a", "B_KEY": "b"}, "B_KEY": {"A_KEY": " ", "B_KEY": "b"},
	} {
		s := keyless("p", fails(providers.Error{Kind: providers.KindAuth}))
		s.KeyEnv = []string{"A_KEY", "B_KEY"}
		c, err := newRegistry(t, set, s).Completer(providers.ModelRef{Provider: "p", Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Complete(t.Context(), request())
		if err == nil || !strings.Contains(err.Error(), "check the key in "+variable) {
			t.Errorf("want %s: %v", variable, err)
		}
	}
}

func TestRegistryBindsTheModel(t *testing.T) {
	t.Parallel()
	model := &script{steps: []step{says("1"), says("2")}}
	s := keyless("p")
	s.Open = func(providers.Key) (providers.Completer, error) { return model, nil }
	c, err := newRegistry(t, nil, s).Completer(providers.ModelRef{Provider: "p", Model: "vendor/bound"})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"", "named"} {
		req := request()
		req.Model = name
		if _, err := c.Complete(t.Context(), req); err != nil || req.Model != name {
			t.Errorf("the request was changed to %q, %v", req.Model, err)
		}
		if want := cmp.Or(name, "vendor/bound"); model.asked[i].Model != want {
			t.Errorf("asked for %q, want %q", model.asked[i].Model, want)
		}
	}
}

func TestRegistryRefusesBadSources(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{"twice": "taken", "unnamed": "", "slash": "a/b", "space": "a b"} {
		cfg := providers.RegistryConfig{Getenv: env(nil)}
		if _, err := providers.NewRegistry(cfg, keyed("taken"), keyed(bad)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := providers.NewRegistry(providers.RegistryConfig{}); err == nil {
		t.Error("no Getenv: accepted")
	}
}
