package awake

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A stand-in on PATH is run for as long as the machine has to stay awake, and its failure stops nothing.
func TestKeep(t *testing.T) {
	name := map[string]string{"linux": "systemd-inhibit", "darwin": "caffeinate"}[runtime.GOOS]
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	put := func(script string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(dir, "log")
	put(`for last; do :; done; echo begin >> ` + log + `; "$last"; echo end >> ` + log)
	if by := By(t.Context()); by != filepath.Join(dir, name) {
		t.Errorf("by %q", by)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	Keep()()
	if got, err := os.ReadFile(log); err != nil || string(got) != "begin\nend\n" {
		t.Errorf("%q, %v", got, err)
	}
	put("exit 1")
	if by := By(t.Context()); by != "" {
		t.Errorf("by %q, which fails", by)
	}
	Keep()()
}
