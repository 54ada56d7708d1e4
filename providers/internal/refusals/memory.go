package refusals

import "sync"

// memory holds the refused features of each model. It lives as long as its adapter: an endpoint may learn a feature
// with its next release. The zero value is empty. It may be used from many goroutines.
type memory[F comparable] struct {
	mu      sync.Mutex
	refused map[refusal[F]]struct{}
}

type refusal[F comparable] struct {
	model   string
	feature F
}

// has reports whether the model refused the feature.
func (m *memory[F]) has(model string, feature F) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.refused[refusal[F]{model, feature}]
	return ok
}

// add records that the model refused the feature.
func (m *memory[F]) add(model string, feature F) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused == nil {
		m.refused = make(map[refusal[F]]struct{})
	}
	m.refused[refusal[F]{model, feature}] = struct{}{}
}
