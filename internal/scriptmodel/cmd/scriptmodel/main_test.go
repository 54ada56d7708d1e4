package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServesUntilInterrupted(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(script, []byte("rules: [{replies: [{text: hi}]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"-script", script, "-opencode-config"}, stdout)
		_ = stdout.CloseWithError(err)
		ended <- err
	}()

	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("no URL: ", lines.Err())
	}
	url := lines.Text()
	res, err := http.Get(url + "/models")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("models: %v, %v", res, err)
	}
	_ = res.Body.Close()
	if !lines.Scan() || !json.Valid(lines.Bytes()) || !strings.Contains(lines.Text(), url) {
		t.Errorf("configuration: %q, %v", lines.Text(), lines.Err())
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if res, err := http.Get(url + "/models"); err == nil {
		_ = res.Body.Close()
		t.Error("still served after the interrupt")
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), nil, io.Discard); err == nil || !strings.Contains(err.Error(), "-script FILE") {
		t.Errorf("without a script: %v", err)
	}
}
