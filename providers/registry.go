package providers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Source is one provider that a [Registry] can open.
type Source struct {
	// Name is the provider part of a [ModelRef].
	Name string
	// KeyEnv names the environment variables that may hold the key; the first that is set is used. Empty: the provider
	// needs no key and is always available.
	KeyEnv []string
	// DefaultModel is the provider's model for the ledgers when the user named none. Empty: never chosen by default.
	DefaultModel string
	// Open makes the adapter. It is called at most once with success, on first use, with the registry locked: it must
	// neither block nor call the registry.
	Open func(Key) (Completer, error)
	// RetriesItself keeps the registry from adding its retries on top of the provider's own.
	RetriesItself bool
}

// RegistryConfig configures a [Registry].
type RegistryConfig struct {
	// Getenv reads the environment; required. Keys are read on first use and kept nowhere but in the adapter.
	Getenv func(string) string
	// Retry is the policy for all providers that do not retry themselves.
	Retry RetryPolicy
	// Prices give the cost of calls whose provider does not tell it. Defaults to none: such a cost is unknown.
	Prices Prices
}

// Registry gives Completers by model reference. It opens an adapter when it is first asked for, so that a missing key
// of a provider nobody uses is no error. It may be used from many goroutines.
type Registry struct {
	cfg RegistryConfig

	mu      sync.Mutex
	sources []Source
	opened  map[string]Completer
}

// NewRegistry makes a registry of the given sources; their order is that of preference for [Registry.Default].
func NewRegistry(cfg RegistryConfig, sources ...Source) (*Registry, error) {
	if cfg.Getenv == nil {
		return nil, errors.New("providers: RegistryConfig.Getenv is required")
	}
	if err := cfg.Prices.Validate(); err != nil {
		return nil, err
	}
	r := &Registry{cfg: cfg, opened: make(map[string]Completer)}
	for _, source := range sources {
		if err := r.Register(source); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Register adds a source behind those that are there. A name can be taken only once.
func (r *Registry) Register(source Source) error {
	if _, err := ParseModel(source.Name + "/model"); err != nil || strings.Contains(source.Name, "/") {
		return fmt.Errorf("provider name %q: use letters, digits, - and _", source.Name)
	}
	if source.Open == nil {
		return fmt.Errorf("provider %s: Source.Open is required", source.Name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.find(source.Name) != nil {
		return fmt.Errorf("provider %s is defined twice; give the second one another name", source.Name)
	}
	r.sources = append(r.sources, source)
	return nil
}

// Has reports whether the provider is known and its key, if it needs one, is set.
func (r *Registry) Has(provider string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	source := r.find(provider)
	return source != nil && r.available(*source)
}

// Names lists the available providers in order of preference.
func (r *Registry) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names()
}

// Default gives the ledger model to use when the user named none: the default of the first available provider that
// has one.
func (r *Registry) Default() (ModelRef, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, source := range r.sources {
		if source.DefaultModel != "" && r.available(source) {
			return ModelRef{Provider: source.Name, Model: source.DefaultModel}, true
		}
	}
	return ModelRef{}, false
}

// Completer gives the Completer for a model, opening its provider on first use. Requests without a model go to
// ref.Model. Unless the provider retries itself, the Completer does, by the registry's policy. The error is an
// [*UnavailableError], or that of the provider's Open.
func (r *Registry) Completer(ref ModelRef) (Completer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	source := r.find(ref.Provider)
	if source == nil || !r.available(*source) {
		return nil, r.unavailable(ref, source)
	}
	adapter, ok := r.opened[source.Name]
	if !ok {
		var err error
		if adapter, err = source.Open(r.key(*source)); err != nil {
			return nil, fmt.Errorf("open provider %s: %w", source.Name, err)
		}
		if len(r.cfg.Prices) > 0 {
			adapter = WithPrices(adapter, ModelRef{Provider: source.Name}, r.cfg.Prices)
		}
		if !source.RetriesItself {
			adapter = WithRetry(adapter, r.cfg.Retry)
		}
		r.opened[source.Name] = adapter
	}
	return bound{Completer: adapter, model: ref.Model}, nil
}

// bound fills in the model of requests that name none.
type bound struct {
	Completer
	model string
}

func (b bound) Complete(ctx context.Context, req *Request) (*Response, error) {
	if req.Model == "" {
		own := *req
		own.Model = b.model
		req = &own
	}
	return b.Completer.Complete(ctx, req)
}

// UnavailableError says that a model's provider cannot be used, and what to do.
type UnavailableError struct {
	// Ref is the model that was asked for.
	Ref ModelRef
	// KeyEnv names the variables of which one must be set. Empty: the provider is unknown.
	KeyEnv []string
	// Available lists the providers that could be used instead.
	Available []string
}

// Error implements error.
func (e *UnavailableError) Error() string {
	have := "no provider is available"
	if len(e.Available) > 0 {
		have = "available: " + strings.Join(e.Available, ", ")
	}
	if len(e.KeyEnv) > 0 {
		return fmt.Sprintf("model %s: provider %s has no key; set %s, or choose another model (%s)",
			e.Ref, e.Ref.Provider, strings.Join(e.KeyEnv, " or "), have)
	}
	return fmt.Sprintf("model %s: there is no provider %q; choose another model (%s) or define the endpoint in the "+
		"configuration", e.Ref, e.Ref.Provider, have)
}

func (r *Registry) unavailable(ref ModelRef, source *Source) error {
	err := &UnavailableError{Ref: ref, Available: r.names()}
	if source != nil {
		err.KeyEnv = slices.Clone(source.KeyEnv)
	}
	return err
}

// The methods below want r.mu held.

func (r *Registry) find(name string) *Source {
	i := slices.IndexFunc(r.sources, func(s Source) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &r.sources[i]
}

func (r *Registry) names() []string {
	var names []string
	for _, source := range r.sources {
		if r.available(source) {
			names = append(names, source.Name)
		}
	}
	return names
}

func (r *Registry) available(source Source) bool {
	return len(source.KeyEnv) == 0 || !r.key(source).IsZero()
}

func (r *Registry) key(source Source) Key {
	for _, name := range source.KeyEnv {
		if key := NewKey(r.cfg.Getenv(name)); !key.IsZero() {
			return key
		}
	}
	return Key{}
}
