package text

import (
	"strings"
	"sync"
)

// LastBytes is a writer that keeps the last Limit bytes. It is safe for concurrent use.
type LastBytes struct {
	Limit int // in bytes

	mu   sync.Mutex
	kept []byte
}

// Write implements [io.Writer]; it never fails.
func (t *LastBytes) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.Limit; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// String returns the kept bytes, trimmed, as valid UTF-8.
func (t *LastBytes) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.kept)), "\uFFFD")
}
