package cli

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

type pty struct {
	t             *testing.T
	master, slave *os.File
	before        unix.Termios
	read          chan struct{} // closed when all output was read

	mu  sync.Mutex
	out bytes.Buffer
}

func openPTY(t *testing.T) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	p := &pty{t: t, master: master, read: make(chan struct{})}
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	var ioErr error
	err = raw.Control(func(fd uintptr) {
		if ioErr = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioErr == nil {
			n, ioErr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil || ioErr != nil {
		t.Fatal(err, ioErr)
	}
	if p.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.slave.Close() })
	if err := unix.IoctlSetWinsize(int(p.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}); err != nil {
		t.Fatal(err)
	}
	p.before = p.mode()
	go func() { // ends when the master is closed, or the last slave is
		defer close(p.read)
		for piece := make([]byte, 4096); err == nil; {
			var n int
			n, err = master.Read(piece)
			p.mu.Lock()
			p.out.Write(piece[:n])
			p.mu.Unlock()
		}
	}()
	return p
}

func (p *pty) mode() unix.Termios {
	p.t.Helper()
	mode, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return *mode
}

// sane reports whether the terminal is in its original mode.
func (p *pty) sane() bool { return p.mode() == p.before }

// drain waits until all output has been read, by writing an end marker.
func (p *pty) drain() {
	const end = "THE END\r\n"
	if _, err := p.slave.WriteString(strings.TrimSpace(end) + "\n"); err != nil {
		return // closed
	}
	await(p.t, func() bool { return strings.HasSuffix(p.text(), end) })
}

// close acts as if the terminal's window is closed: writing fails from now on.
func (p *pty) close() {
	p.master.Close()
	<-p.read
}

func (p *pty) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// cursor reports whether the cursor is visible.
func (p *pty) cursor() bool {
	text := p.text()
	return strings.LastIndex(text, "\x1b[?25h") >= strings.LastIndex(text, "\x1b[?25l")
}
