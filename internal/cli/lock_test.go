package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/store"
)

// With --lock-timeout a second run waits for the state until it is free, or until Ctrl-C.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		release bool
		code    int
		says    string
	}{
		"free":   {true, exitUsage, "every boulder here is over"},
		"Ctrl-C": {false, exitInterrupted, "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSample(t)
			s.Play()
			s.Finish()
			project := s.store()
			dir := filepath.Join(project, store.DirName)
			db, err := store.Open(filepath.Join(dir, store.FileName), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			holder := control.Holder{PID: 42, Command: "manager run", Since: sampleStart}
			server, err := control.Serve(t.Context(), filepath.Join(dir, control.SocketName), holder, db, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			stderr := &firstWord{come: make(chan struct{})}
			signals := make(chan os.Signal)
			code := make(chan int)
			go func() {
				code <- Main(Env{Args: []string{"resume", "--lock-timeout", "10m", "-C", project}, Stdout: io.Discard,
					Stderr: stderr, Environ: []string{"HOME=" + project}, Signals: signals})
			}()
			<-stderr.come
			if text := stderr.String(); !strings.Contains(text, "Waiting up to 10m0s") || !strings.Contains(text, "process 42") {
				t.Errorf("while it waits: %s", text)
			}
			if test.release {
				if err := errors.Join(server.Close(), db.Close()); err != nil {
					t.Fatal(err)
				}
			} else {
				signals <- os.Interrupt
			}
			if got := <-code; got != test.code || !strings.Contains(stderr.String(), test.says) {
				t.Errorf("exit code %d, want %d: %s", got, test.code, stderr)
			}
		})
	}
}

// firstWord is a stream that tells when something was written to it.
type firstWord struct {
	mu   sync.Mutex
	text bytes.Buffer
	come chan struct{}
}

func (w *firstWord) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text.Len() == 0 {
		close(w.come)
	}
	return w.text.Write(p)
}

func (w *firstWord) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
