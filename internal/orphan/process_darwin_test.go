package orphan

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// environOf parses what macOS reports of a process. An argument that looks like a mark is none.
func TestEnvironOf(t *testing.T) {
	t.Parallel()
	arguments := []string{"sleep", "", "MANAGER_PROCESS=argument"}
	environ := "HOME=/\x00MANAGER_PROCESS=A\x00"
	data := binary.NativeEndian.AppendUint32(nil, uint32(len(arguments)))
	data = append(data, "/bin/sleep\x00\x00\x00\x00"+strings.Join(arguments, "\x00")+"\x00"+environ...)
	if got := environOf(data); string(got) != environ {
		t.Errorf("got %q", got)
	}
	head := len(data) - len(environ)
	for n := range data {
		got := environOf(data[:n])
		if n < head && len(got) > 0 || !bytes.HasPrefix([]byte(environ), got) {
			t.Errorf("cut after %d: %q", n, got)
		}
	}
	binary.NativeEndian.PutUint32(data, 1<<31)
	if got := environOf(data); len(got) > 0 {
		t.Errorf("a wrong number of arguments: %q", got)
	}
}
