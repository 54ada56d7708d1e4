package control

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSocketIsPrivateWhateverTheUmask(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"umask-0", "umask-777"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			path := socketPath(t)
			otherProcess(t, role, path)
			info, err := os.Lstat(path)
			if err != nil || info.Mode() != fs.ModeSocket|0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			onlySocket(t, path)
		})
	}
}

// onlySocket checks that making the socket left nothing beside it.
func onlySocket(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != SocketName {
		t.Errorf("beside the socket: %v, %v", entries, err)
	}
}

// The socket of a process that was killed is no obstacle: nobody is found there, and the next one takes its place.
func TestDeadSocketIsReplaced(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	kill := otherProcess(t, "plain", path)
	if _, err := Serve(t.Context(), path, Holder{}, &fake{}, nil); !errors.Is(err, ErrServed) {
		t.Errorf("while it lives: %v", err)
	}
	c, _, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := c.Holder(t.Context()); h.Command != "plain" || err != nil {
		t.Errorf("%+v, %v", h, err)
	}
	kill()
	if _, err := c.Holder(t.Context()); !errors.Is(err, ErrNotServed) {
		t.Errorf("an open client: %v", err)
	}
	if _, _, err := Dial(t.Context(), path); !errors.Is(err, ErrNotServed) {
		t.Errorf("a new client: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("there is no dead socket to replace: %v", err)
	}
	s, err := Serve(t.Context(), path, Holder{Command: "next"}, &fake{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := c.Holder(t.Context()); h.Command != "next" || err != nil {
		t.Errorf("%+v, %v", h, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestDeepDirectory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // to see what is left there; it keeps this test from being parallel
	path := deepPath(t)
	s, err := Serve(t.Context(), path, Holder{Command: "deep"}, &fake{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	onlySocket(t, path)
	if _, err := Serve(t.Context(), path, Holder{}, &fake{}, nil); !errors.Is(err, ErrServed) {
		t.Errorf("a second server: %v", err)
	}
	// A relative path is short, but what it names is the same.
	t.Chdir(filepath.Dir(path))
	for _, p := range []string{path, SocketName} {
		c, _, err := Dial(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := c.Holder(t.Context()); h.Command != "deep" || err != nil {
			t.Errorf("%+v, %v", h, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := Dial(t.Context(), path); !errors.Is(err, ErrNotServed) {
		t.Errorf("after the end: %v", err)
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
