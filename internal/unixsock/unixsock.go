// Package unixsock puts a unix socket beside the state that a process holds, so that others can talk to it.
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

// ErrNotServed is returned when no process serves a socket, or the one that did is gone.
var ErrNotServed = errors.New("no process serves this project")

// maxSocketPath is what fits into a socket address everywhere: macOS has 104 bytes with a zero at the end, Linux 108.
const maxSocketPath = 103

// listen puts a socket at path. One that is there was left by a process that died: see [Serve].
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
	l.(*net.UnixListener).SetUnlinkOnClose(false) // another one may have taken its place by then
	if err = os.Chmod(path, 0o600); err == nil {
		file, err = os.Lstat(path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, file, nil
}

// dial connects. Without a socket, or with one that nobody listens on, the error wraps [ErrNotServed].
func dial(ctx context.Context, path string) (c net.Conn, err error) {
	err = withShortPath(path, func(short string) error {
		c, err = new(net.Dialer).DialContext(ctx, "unix", short)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: %w", ErrNotServed, err)
	}
	return c, err
}

// withShortPath calls use with a path to the same file that fits into a socket address. A project may lie deeper
// than that; a symbolic link in the temporary directory, there as long as use takes, then stands for the directory. The
// socket itself is where it is documented to be.
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
