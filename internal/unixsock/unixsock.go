// Package unixsock puts a unix socket beside the state that a process holds, so that others can talk to it.
package unixsock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

var (
	// ErrNotServed is returned when no process serves a socket, or the one that did is gone.
	ErrNotServed = errors.New("no process serves this project")
	// ErrServed is returned by [Serve] while another process serves the socket.
	ErrServed = errors.New("another process serves this project")
)

// maxSocketPath is what fits into a socket address everywhere: macOS has 104 bytes with a zero at the end, Linux 108.
const maxSocketPath = 103

// listen puts a socket at path. It is made in a directory that only the owner can enter, and moved when its mode is right
// and it accepts: at no time can another user connect, and nobody who finds it has to wonder whether its owner is dead or
// not yet ready.
func listen(ctx context.Context, path string) (net.Listener, fs.FileInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, nil, errors.New("it is not a socket: move it away")
	default:
		c, err := dial(ctx, path)
		if err == nil {
			return nil, nil, errors.Join(ErrServed, c.Close())
		}
		if !errors.Is(err, ErrNotServed) {
			return nil, nil, err
		}
	}
	private, err := os.MkdirTemp(filepath.Dir(path), ".sock-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = os.RemoveAll(private) }()
	if err := os.Chmod(private, 0o700); err != nil { // a umask may have taken the owner's rights
		return nil, nil, err
	}
	socket := filepath.Join(private, "s")
	var l net.Listener
	err = withShortPath(socket, func(short string) error {
		l, err = new(net.ListenConfig).Listen(ctx, "unix", short)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it is moved, and another one may have taken its place by then
	err = os.Chmod(socket, 0o600)
	if err == nil {
		err = os.Rename(socket, path)
	}
	if err == nil {
		info, err = os.Lstat(path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, info, nil
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
	tmp, err := os.MkdirTemp("", "manager-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.Chmod(tmp, 0o700); err != nil { // a umask may have taken the owner's rights
		return err
	}
	link := filepath.Join(tmp, "d")
	if err := os.Symlink(dir, link); err != nil {
		return err
	}
	return use(filepath.Join(link, filepath.Base(path)))
}
