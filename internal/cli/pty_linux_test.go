package cli

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pty is a terminal, as far as the one who writes to it can tell.
type pty struct {
	t             *testing.T
	master, slave *os.File
	before        unix.Termios
	read          chan struct{} // closed when all was read

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

// sane reports whether the terminal is in the mode that it was opened in.
func (p *pty) sane() bool { return p.mode() == p.before }

// drain waits until all that was written has been read: it writes an end of its own.
func (p *pty) drain() {
	const end = "THE END\r\n"
	if _, err := p.slave.WriteString(strings.TrimSpace(end) + "\n"); err != nil {
		return // it was closed
	}
	await(p.t, func() bool { return strings.HasSuffix(p.text(), end) })
}

// await waits for what another process or goroutine does; the test's own deadline ends it at the latest.
func await(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the test is over")
		}
	}
}

// close is what happens when a terminal's window is closed: writing fails from now on.
func (p *pty) close() {
	p.master.Close()
	<-p.read
}

func (p *pty) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// cursor reports whether the cursor is to be seen.
func (p *pty) cursor() bool {
	text := p.text()
	return strings.LastIndex(text, "\x1b[?25h") >= strings.LastIndex(text, "\x1b[?25l")
}
