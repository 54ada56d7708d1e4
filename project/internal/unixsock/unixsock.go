// Package unixsock serves requests of other processes on a unix socket next to the state that a process holds.
package unixsock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNotServed means that no process serves a socket, or no longer.
var ErrNotServed = errors.New("no process serves this project")

// maxSocketPath fits into a socket address everywhere, in bytes: macOS has 104 with a final zero, Linux 108.
const maxSocketPath = 103

// listen creates a socket at path. An existing one was left by a dead process, see [Serve].
func listen(ctx context.Context, path string) (l net.Listener, file fs.FileInfo, err error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, nil, errors.New("it is not a socket: move it away")
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	err = withShortPath(path, func(short string) error {
		l, err = new(net.ListenConfig).Listen(ctx, "unix", short)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // by then another process may have replaced it
	if err = os.Chmod(path, 0o600); err == nil {
		file, err = os.Lstat(path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, file, nil
}

// dial connects. The error wraps [ErrNotServed] if there is no socket, or no process listens on it.
func dial(ctx context.Context, path string) (c net.Conn, err error) {
	err = withShortPath(path, func(short string) error {
		c, err = new(net.Dialer).DialContext(ctx, "unix", short)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: %w", ErrNotServed, err)
	}
	return c, err
}

// withShortPath calls use with a path to the same file that fits into a socket address. If path is too long, a symbolic
// link in the temporary directory stands for its directory while use runs.
func withShortPath(path string, use func(short string) error) error {
	if len(path) <= maxSocketPath {
		return use(path)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	link := filepath.Join(os.TempDir(), "manager-"+rand.Text())
	if err := os.Symlink(dir, link); err != nil {
		return err
	}
	defer func() { _ = os.Remove(link) }()
	return use(filepath.Join(link, filepath.Base(path)))
}
