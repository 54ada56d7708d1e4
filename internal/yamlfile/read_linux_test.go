package yamlfile

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Reading a pipe would wait for a writer, and a device never ends.
func TestReadRegularFilesOnly(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero"} {
		_, err := Read(path)
		if _, told := errors.AsType[*Error](err); !told || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
