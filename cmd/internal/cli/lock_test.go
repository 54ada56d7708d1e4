package cli

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// With --lock-timeout a second run waits until the state is free, or until Ctrl-C.
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
			project := overSample(t)
			db, server := hold(t, project, false)
			out, in := io.Pipe()
			stderr := bufio.NewReader(out)
			signals := make(chan os.Signal)
			code := make(chan int, 1)
			go func() {
				code <- Main(Env{Args: []string{"resume", "--lock-timeout", "10m", "-C", project}, Stdout: io.Discard,
					Stderr: in, Environ: []string{"HOME=" + project}, Signals: signals})
				in.Close()
			}()
			text, err := stderr.ReadString('\n')
			if !strings.Contains(text, "Waiting up to 10m0s") || !strings.Contains(text, "process 42") || err != nil {
				t.Errorf("while it waits: %s, %v", text, err)
			}
			if test.release {
				if err := errors.Join(server.Close(), db.Close()); err != nil {
					t.Fatal(err)
				}
			} else {
				signals <- os.Interrupt
			}
			rest, err := io.ReadAll(stderr)
			if got := <-code; got != test.code || !strings.Contains(string(rest), test.says) || err != nil {
				t.Errorf("exit code %d, want %d: %s, %v", got, test.code, rest, err)
			}
		})
	}
}
