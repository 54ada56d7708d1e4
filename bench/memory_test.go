package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
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

// TestSampleCountsSharedMemoryOnce would fail if a child between vfork and exec counted, which has its parent's memory.
func TestSampleCountsSharedMemoryOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for pid, p := range map[int]struct {
		parent int
		image  string
	}{2: {1, "image1"}, 3: {2, "image1"}, 4: {2, "image2"}, 5: {1, "image1"}} {
		sub := filepath.Join(dir, fmt.Sprint(pid))
		zeros := func(n int) string { return strings.Repeat("0 ", n) }
		stat := fmt.Sprintf("%d (x) S %d %s1 %s%s %s", pid, p.parent, zeros(17), zeros(5), p.image, zeros(25))
		if err := errors.Join(
			os.Mkdir(sub, 0o700),
			os.WriteFile(filepath.Join(sub, "stat"), []byte(stat), 0o600),
			os.WriteFile(filepath.Join(sub, "smaps_rollup"), []byte("Pss: 10 kB\n"), 0o600),
		); err != nil {
			t.Fatal(err)
		}
	}
	s := &sampler{proc: dir, known: map[int]string{2: "1", 6: "1"}}
	s.sample()
	if want := int64(20 << 10); s.peak != want { // 2 and 4; 3 shares, 5 is somebody else's, 6 is gone
		t.Errorf("peak %d, want %d", s.peak, want)
	}
	if _, kept := s.known[6]; kept || len(s.known) != 3 {
		t.Errorf("known: %v", s.known)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	fields := "S 17 3 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0 0 0 0 77" + strings.Repeat(" 0", 19) + " 88 0 99 0 0"
	for _, name := range []string{"(sh)", "(a b)", "(:) x (S 1 2)"} {
		got, err := parseStat("42 " + name + " " + fields + "\n")
		if want := (proc{parent: 17, started: "4711", image: "77 88 99"}); err != nil || got != want {
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
