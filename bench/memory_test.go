package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// helperVar makes the test binary a process that holds memory until its input ends.
const (
	helperVar  = "BENCH_TEST_HOLD"
	helperSize = 64 << 20
)

func TestMain(m *testing.M) {
	if os.Getenv(helperVar) == "" {
		os.Exit(m.Run())
	}
	held := make([]byte, helperSize)
	for i := range held {
		held[i] = 1
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(held)
}

// TestWatchCountsGrandchildren would fail if only the roots were counted.
func TestWatchCountsGrandchildren(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/smaps_rollup"); err != nil {
		t.Skip("memory is measured on Linux only")
	}
	sh := exec.CommandContext(t.Context(), "sh", "-c", `"$0"; true`, os.Args[0]) // "; true", or sh would become the helper
	sh.Env = append(os.Environ(), helperVar+"=1")
	input, err := sh.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := sh.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the helper said %q, %v", line, err)
	}
	once, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := watch(once, sh.Process.Pid)
	if err != nil || got < helperSize {
		t.Errorf("peak %d, %v; want more than %d", got, err, helperSize)
	}
	input.Close()
	if err := sh.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := watch(once, sh.Process.Pid); err == nil {
		t.Error("a process that has ended was watched")
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	fields := "S 17 3 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0"
	for _, name := range []string{"(sh)", "(a b)", "(:) x (S 1 2)"} {
		got, err := parseStat("42 " + name + " " + fields + "\n")
		if want := (proc{parent: 17, started: "4711"}); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, stat := range []string{"", "42 (sh) S 1", "no brackets"} {
		if _, err := parseStat(stat); err == nil {
			t.Errorf("%q was read", stat)
		}
	}
}

func TestParsePss(t *testing.T) {
	t.Parallel()
	for rollup, want := range map[string]int64{
		"00400000-7fff0000 ---p 0 [rollup]\nRss:    1628 kB\nPss:     284 kB\nPss_Dirty: 116 kB\n": 284 << 10,
		"": 0, "Pss: many kB\n": 0,
	} {
		if got := parsePss(rollup); got != want {
			t.Errorf("parsePss(%q) = %d, want %d", rollup, got, want)
		}
	}
}
