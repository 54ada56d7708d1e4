package text

import (
	"strings"
	"sync"
)

// LastBytes is a writer that keeps the end of what is written to it. It may be used from many goroutines.
type LastBytes struct {
	Limit int // bytes

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

// String is what is kept, without space around it.
func (t *LastBytes) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.kept)), "\uFFFD")
}
