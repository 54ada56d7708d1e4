package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// Closing a terminal sends SIGHUP twice, which is one polite request. Only a signal of another kind is a second one.
func TestHangUpIsNeverASecondSignal(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		signals []os.Signal
		seen    string
	}{
		{[]os.Signal{syscall.SIGHUP, syscall.SIGHUP, syscall.SIGHUP}, "[stop]"},
		{[]os.Signal{os.Interrupt, syscall.SIGHUP}, "[stop]"},
		{[]os.Signal{syscall.SIGHUP, syscall.SIGTERM}, "[stop end]"},
		{[]os.Signal{os.Interrupt, os.Interrupt, syscall.SIGHUP, os.Interrupt}, "[stop end end]"},
	} {
		var i interrupts
		var seen []string
		giveBack := i.onFirst(func() { seen = append(seen, "stop") })
		for _, s := range test.signals {
			i.take(s, func() { seen = append(seen, "end") })
		}
		giveBack()
		if got := fmt.Sprint(seen); got != test.seen {
			t.Errorf("%v: handled as %s, want %s", test.signals, got, test.seen)
		}
	}
}

// asNohup makes this test binary print which signals it ignores.
const asNohup = "MANAGER_TEST_NOHUP"

// Signals that nohup or a shell's `&` ignore stay ignored: otherwise an overnight run would end with its terminal.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	if os.Getenv(asNohup) != "" {
		_ = Signals()
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, caught, _ := strings.Cut(string(status), "SigIgn:")
		_, _ = io.WriteString(os.Stdout, "ignored:"+strings.Fields(caught)[0]+"\n")
		return
	}
	t.Parallel()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("there is no /proc here to see it by")
	}
	var inherited uint64 // the tests may run under nohup
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		if signal.Ignored(sig) {
			inherited |= 1 << (sig - 1)
		}
	}
	for trap, want := range map[string]uint64{
		"": 0, "trap '' HUP;": 1 << (syscall.SIGHUP - 1), "trap '' HUP INT;": 1<<(syscall.SIGHUP-1) | 1<<(syscall.SIGINT-1),
	} {
		cmd := exec.Command("sh", "-c", trap+` exec "$0" -test.run=^TestIgnoredSignalsStayIgnored$`, os.Args[0])
		cmd.Env = append(os.Environ(), asNohup+"=1")
		out, err := cmd.Output()
		_, hex, _ := strings.Cut(string(out), "ignored:")
		var mask uint64
		if _, scanErr := fmt.Sscanf(hex, "%x", &mask); err != nil || scanErr != nil {
			t.Fatalf("%v, %v: %s", err, scanErr, out)
		}
		const asked = 1<<(syscall.SIGHUP-1) | 1<<(syscall.SIGINT-1) | 1<<(syscall.SIGTERM-1)
		if mask&asked != want|inherited {
			t.Errorf("after %q it ignores %x, want %x", trap, mask&asked, want|inherited)
		}
	}
}
