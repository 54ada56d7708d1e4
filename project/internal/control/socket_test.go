package control

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The umask is the process's, so this test is not parallel.
func TestSocketIsPrivateWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o777} {
		path := socketPath(t)
		before := syscall.Umask(umask)
		s, err := Serve(t.Context(), path, Holder{}, &fake{}, nil)
		syscall.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The socket of a killed process is no obstacle: Dial finds no holder, and the next server replaces it.
func TestDeadSocketIsReplaced(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Dial(t.Context(), path); !errors.Is(err, ErrNotServed) {
		t.Errorf("nobody is there: %v", err)
	}
	want := Holder{PID: os.Getpid(), Command: "next", Since: since}
	s, err := Serve(t.Context(), path, want, &fake{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, h, err := Dial(t.Context(), path)
	if !reflect.DeepEqual(h, want) || err != nil {
		t.Errorf("%+v, %v", h, err)
	}
	s.Began("01x")
	want.Running = []string{"01x"}
	if h, err := c.Holder(t.Context()); !reflect.DeepEqual(h, want) || err != nil {
		t.Errorf("%+v, %v", h, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Holder(t.Context()); !errors.Is(err, ErrNotServed) {
		t.Errorf("an open client: %v", err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// The socket's path may be longer than a socket address allows.
func TestDeepDirectory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // to see what is left there; excludes t.Parallel
	dir := filepath.Join(t.TempDir(), strings.Repeat("a-rather-long-directory-name/", 12))
	path := filepath.Join(dir, SocketName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Serve(t.Context(), path, Holder{Command: "deep"}, &fake{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // a relative path is short, but names the same socket
	for _, p := range []string{path, SocketName} {
		if _, h, err := Dial(t.Context(), p); h.Command != "deep" || err != nil {
			t.Errorf("%+v, %v", h, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(os.TempDir()); len(left) != 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestServeRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Serve(t.Context(), path, Holder{}, &fake{}, nil)
	if err == nil || !strings.Contains(err.Error(), "not a socket") || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if content, err := os.ReadFile(path); string(content) != "precious" {
		t.Errorf("the file is %q, %v", content, err)
	}
	none := filepath.Join(path+"-none", SocketName)
	if _, err := Serve(t.Context(), none, Holder{}, &fake{}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestCloseLeavesTheSocketOfAnother(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	s, err := Serve(t.Context(), path, Holder{}, &fake{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the other socket: %v", err)
	}
}

func serve(t *testing.T, source Source) (*Server, *Client) {
	t.Helper()
	path := socketPath(t)
	s, err := Serve(t.Context(), path, Holder{PID: os.Getpid(), Command: "manager run", Since: since}, source, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c, _, err := Dial(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// socketPath is short, whatever the name of the test.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl") //nolint:usetesting // t.TempDir is as long as the test's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, SocketName)
}
