package opencode_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/fakeopencode"
	"github.com/bouldermgr/manager/testkit/octest"
)

const configured = `{"model":"scripted/agent","agent":{"helper":{}},"provider":{` +
	`"scripted":{"options":{"apiKey":"planted"},"models":{"agent":{}}},"keyless":{}}}`

// booting is a client of a stand-in that boots stage by stage, in a directory with a configuration.
func booting(t *testing.T, b fakeopencode.Behaviour, cfg opencode.AttachConfig) *opencode.Directory {
	t.Helper()
	dir := octest.Repo(t, map[string]string{"opencode.json": configured})
	return attach(t, octest.ServeStandIn(t, b, dir, []string{"HOME=" + t.TempDir()}), cfg).In(dir)
}

// Lists are read when they are complete, also by those who ask at the same time. Nothing is waited for that never comes.
func TestListsOfABootingDirectory(t *testing.T) {
	t.Parallel()
	dir := booting(t, fakeopencode.Behaviour{}, opencode.AttachConfig{})
	var together sync.WaitGroup
	for range 2 {
		together.Go(func() {
			c, err := dir.Catalogue(t.Context())
			if err != nil || !slices.Equal(c.Providers(), []string{"scripted"}) || !slices.Equal(c.Missing, []string{"keyless"}) ||
				!slices.Equal(c.Keys, []string{"planted"}) {
				t.Errorf("models %v, without models %v, %d keys, %v", c.Models, c.Missing, len(c.Keys), err)
			}
		})
		together.Go(func() {
			agents, err := dir.Agents(t.Context())
			if err != nil || !slices.Contains(agents, "build") || !slices.Contains(agents, "helper") {
				t.Errorf("agents %q, %v", agents, err)
			}
		})
	}
	together.Wait()
	if name, err := dir.DefaultModel(t.Context()); name != "scripted/agent" || err != nil {
		t.Errorf("the default model is %q, %v", name, err)
	}
}

// A directory that does not boot is waited for once, and then read as it is.
func TestDirectoryThatNeverBoots(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	dir := booting(t, fakeopencode.Behaviour{NeverBoots: true}, opencode.AttachConfig{
		BootTimeout: time.Nanosecond, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
	})
	for range 3 {
		if c, err := dir.Catalogue(t.Context()); err != nil || !slices.Equal(c.Missing, []string{"keyless", "scripted"}) {
			t.Errorf("without models are %v, %v", c.Missing, err)
		}
		if _, err := dir.Agents(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(logged.String(), "has not booted"); n != 1 {
		t.Errorf("warned %d times: %s", n, logged.String())
	}
}

// A wrong password is told as that, although the web page answers without one.
func TestWrongPasswordOfASecondGeneration(t *testing.T) {
	t.Parallel()
	url := octest.ServeStandIn(t, fakeopencode.Behaviour{}, t.TempDir(), []string{"HOME=" + t.TempDir()})
	_, err := opencode.Attach(t.Context(), strings.Replace(url, "secret", "wrong", 1), opencode.AttachConfig{})
	if !errors.Is(err, opencode.ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
}
