// Package refusals remembers what the models of an endpoint do not take. Which model takes which parameter changes
// monthly and differs between a vendor's own server and its imitations, so adapters ask, and learn from the refusal.
package refusals

import "sync"

// Memory holds the refused features, of type F, of each model. It lives as long as its adapter: an endpoint may learn a
// feature with its next release. The zero value is empty. It may be used from many goroutines.
type Memory[F comparable] struct {
	mu      sync.Mutex
	refused map[refusal[F]]struct{}
}

type refusal[F comparable] struct {
	model   string
	feature F
}

// Has reports whether the model refused the feature.
func (m *Memory[F]) Has(model string, feature F) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.refused[refusal[F]{model, feature}]
	return ok
}

// Add records that the model refused the feature.
func (m *Memory[F]) Add(model string, feature F) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused == nil {
		m.refused = make(map[refusal[F]]struct{})
	}
	m.refused[refusal[F]{model, feature}] = struct{}{}
}
