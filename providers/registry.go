package providers

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// Source is a provider that a [Registry] can open.
type Source struct {
	Name string // the provider part of a [ModelRef]
	// KeyEnv names the environment variables that may hold the key; the first one set is used. Empty: no key is needed.
	KeyEnv  []string
	Efforts []string                     // that its models may have; a model may lack some
	Address string                       // that it is asked at; empty: the vendor's own
	Open    func(Key) (Completer, error) // makes the adapter; does not block
}

// RegistryConfig configures a [Registry].
type RegistryConfig struct {
	// Getenv reads the environment; required. Keys are read on demand, and only the adapter keeps them.
	Getenv func(string) string
	Logger *slog.Logger // logs retries. Defaults to none.
	// Prices give the cost of calls whose provider does not report it. Defaults to none: such costs are unknown.
	Prices Prices
}

// Registry opens Completers by model reference, on demand: a missing key matters only then. Safe for concurrent use.
type Registry struct {
	cfg     RegistryConfig
	sources []Source
}

// NewRegistry makes a registry of the given sources.
func NewRegistry(cfg RegistryConfig, sources ...Source) (*Registry, error) {
	if cfg.Getenv == nil {
		return nil, errors.New("providers: RegistryConfig.Getenv is required")
	}
	if err := cfg.Prices.Validate(); err != nil {
		return nil, err
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	for i, source := range sources {
		if _, err := ParseModel(source.Name + "/model"); err != nil || strings.Contains(source.Name, "/") {
			return nil, fmt.Errorf("provider name %q: use letters, digits, - and _", source.Name)
		}
		if find(sources[:i], source.Name) >= 0 {
			return nil, fmt.Errorf("provider %s is defined twice; give the second one another name", source.Name)
		}
	}
	return &Registry{cfg, sources}, nil
}

func find(sources []Source, name string) int {
	return slices.IndexFunc(sources, func(s Source) bool { return s.Name == name })
}

// Has reports whether the provider is known, and its key is set if it needs one.
func (r *Registry) Has(provider string) bool { return slices.Contains(r.Names(), provider) }

// Names lists the available providers.
func (r *Registry) Names() []string {
	var names []string
	for _, source := range r.sources {
		if _, _, available := r.key(source); available {
			names = append(names, source.Name)
		}
	}
	return names
}

// Completer opens a model's provider, with retries. Requests without a model or an effort have those of ref. Errors say what
// to do.
func (r *Registry) Completer(ref ModelRef) (Completer, error) {
	have := cmp.Or(text.Prefixed("available: ", strings.Join(r.Names(), ", ")), "no provider is available")
	i := find(r.sources, ref.Provider)
	if i < 0 {
		return nil, fmt.Errorf("model %s: there is no provider %q; choose another model (%s) or define the endpoint in the "+
			"configuration", ref, ref.Provider, have)
	}
	source := r.sources[i]
	if ref.Effort != "" && !slices.Contains(source.Efforts, ref.Effort) {
		return nil, fmt.Errorf("model %s: provider %s does not have the effort %s: it has %s",
			ref, ref.Provider, ref.Effort, cmp.Or(strings.Join(source.Efforts, ", "), "none"))
	}
	key, variable, available := r.key(source)
	if !available {
		return nil, fmt.Errorf("model %s: provider %s has no key; set %s, or choose another model (%s)",
			ref, ref.Provider, strings.Join(source.KeyEnv, " or "), have)
	}
	adapter, err := source.Open(key)
	if err != nil {
		return nil, fmt.Errorf("open provider %s: %w", source.Name, err)
	}
	return WithRetry(priced{adapter, ref, r.cfg.Prices, variable}, r.cfg.Logger), nil
}

// key returns a source's key and its variable. A source is available if it has a key or needs none.
func (r *Registry) key(source Source) (key Key, variable string, available bool) {
	for _, variable := range source.KeyEnv {
		if key := NewKey(r.cfg.Getenv(variable)); !key.IsZero() {
			return key, variable, true
		}
	}
	return Key{}, "", len(source.KeyEnv) == 0
}
