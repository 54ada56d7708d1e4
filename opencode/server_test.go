package opencode_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/octest"
)

func TestStartWithoutBinary(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "opencode")
	_, err := opencode.Start(t.Context(), opencode.ServerConfig{Binary: missing})
	if !errors.Is(err, opencode.ErrNoBinary) || !strings.Contains(err.Error(), "npm install") {
		t.Errorf("Start: %v", err)
	}
	if _, err := opencode.Version(t.Context(), missing); !errors.Is(err, opencode.ErrNoBinary) {
		t.Errorf("Version: %v", err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	got, err := opencode.Version(waiting(t), octest.Binary(t))
	if caps := shared.server.Client().Caps(); err != nil || got != caps.Version ||
		caps.Generation == 1 && got != opencode.TestedVersion {
		t.Errorf("the installed version is %q, %v; the server says %q", got, err, caps.Version)
	}
	for version, supported := range map[string]bool{
		opencode.TestedVersion: true, "1.18.0": true, "v1.18.99": true,
		"1.18": true, "1.19.0": true, "1.100.0": true,
		"v2.0.4": true, "2.0.18": true, "2.1.0": true, "2.30.1": true,
		"1.17.9": false, "0.20.0": false, "2.0.3": false, "3.0.0": false, "": false, "local": false, "0.0.0-dev": false,
	} {
		err := opencode.CheckVersion(version)
		if _, refused := errors.AsType[*opencode.VersionError](err); refused == supported {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

// Without a cache directory nothing is cached, and no file appears in the working directory.
func TestVersionWithoutHome(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Chdir(t.TempDir())
	if got, err := opencode.Version(t.Context(), "echo"); got == "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

const listening = "echo opencode server listening on "

// impostor writes a script in place of the OpenCode binary, and returns its path.
func impostor(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "opencode")
	script = "#!/bin/sh\n[ $1 = --version ] && exit 1\n" + script
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStartFailures(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Close() }) // after the parallel subtests
	for name, test := range map[string]struct {
		script, says string
		want         error // nil: an ExitError
	}{
		"ends at once": {"echo the disk is full >&2; exit 3", "status 3; its last output:\nthe disk is full", nil},
		"says nothing": {"echo thinking; sleep 600", "thinking", opencode.ErrStartTimeout},
		"listens and is deaf": {
			listening + "http://" + deaf.Addr().String() + "; sleep 600", "listening", opencode.ErrStartTimeout,
		},
		"is not a program": {"\x00", "exit status", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := time.Minute // on a busy machine it takes a while to fail
			if test.want != nil {
				limit = 300 * time.Millisecond
			}
			_, err := opencode.Start(t.Context(), opencode.ServerConfig{Binary: impostor(t, test.script), StartTimeout: limit})
			_, ended := errors.AsType[*opencode.ExitError](err)
			if ended != (test.want == nil) || !ended && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Start: %v", err)
			}
		})
	}
}

// startStubborn starts a server that never finishes and ignores SIGTERM.
func startStubborn(t *testing.T, grace time.Duration, before string) *opencode.Server {
	t.Helper()
	server, err := opencode.Start(t.Context(), opencode.ServerConfig{
		Binary: impostor(t, "trap '' TERM\n"+before+"\n"+listening+fakeServer(t, "", nil)+
			"\nwhile :; do sleep 600; done"),
		StartTimeout: patience, StopGrace: grace,
	})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// Stop kills a stubborn server with its children, also those outside its process group.
func TestStopOfAStubbornServer(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	escape := "" // leaves the process group, as OpenCode's tools do
	if runtime.GOOS == "linux" {
		escape = "setsid "
	}
	server := startStubborn(t, 50*time.Millisecond, escape+"sh -c 'echo $$ > "+pidFile+"; exec sleep 600' &")
	pid := awaitPID(t, pidFile)
	server.Stop(t.Context())
	if orphan.Running(server.PID()) || orphan.Running(pid) {
		t.Error("something still runs")
	}
}

func TestStopIsHurriedByItsContext(t *testing.T) {
	t.Parallel()
	server := startStubborn(t, time.Hour, "")
	patient := make(chan struct{})
	go func() {
		defer close(patient)
		server.Stop(context.Background())
	}()
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	server.Stop(impatient)
	<-patient
}

// orphanVariable makes the test binary start a server and wait to be killed. Its value is the server's binary.
const orphanVariable = "OPENCODE_TEST_ORPHAN"

func startAndWait() int {
	server, err := opencode.Start(context.Background(), opencode.ServerConfig{
		Binary: os.Getenv(orphanVariable), StartTimeout: patience,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(server.PID())
	<-server.Done()
	return 0
}

// Breaks without the parent death signal.
func TestServerDiesWithItsProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can tell a child of its parent's death")
	}
	t.Parallel()
	program := exec.Command(os.Args[0])
	program.Env = append(os.Environ(), orphanVariable+"="+
		impostor(t, listening+fakeServer(t, "", nil)+"\nexec sleep 600"))
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if !orphan.Running(pid) {
		t.Error("the server died before its program")
	}
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait() // it was killed
	eventually(t, "the server is gone", func() bool { return !orphan.Running(pid) })
}

// TestOtherVersions rewrites the real server's version: a later one is accepted if its API has the needed calls.
func TestOtherVersions(t *testing.T) {
	t.Parallel()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(shared.server.Client().Address())
	if err != nil {
		t.Fatal(err)
	}
	if shared.server.Client().Caps().Generation != 1 {
		t.Skip("OpenCode 2 is not asked which calls it knows")
	}
	for name, test := range map[string]struct{ version, without, want string }{
		"later":           {version: "1.19.2"},
		"too much later":  {version: "1.30.0", without: "prompt_async", want: "does not know POST /session/{}/prompt_async"},
		"earlier":         {version: "1.17.0", want: "1.18 or a later 1.x is needed"},
		"of another kind": {version: "3.0.0", want: "another API"},
		"a build":         {version: "0.0.0-dev", want: "development build"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Header.Del("Accept-Encoding") // a compressed body could not be rewritten
			}}
			proxy.ModifyResponse = func(r *http.Response) error {
				body, err := io.ReadAll(r.Body)
				body = bytes.ReplaceAll(body, []byte(opencode.TestedVersion), []byte(test.version))
				if test.without != "" {
					body = bytes.ReplaceAll(body, []byte(test.without), []byte("gone"))
				}
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				r.Header.Set("Content-Length", strconv.Itoa(len(body)))
				return err
			}
			server := httptest.NewServer(proxy)
			t.Cleanup(server.Close)
			c, err := opencode.Attach(waiting(t), server.URL, shared.server.Config())
			if err == nil {
				c.Close()
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%s: %v, want %q", test.version, err, test.want)
			}
		})
	}
}

// The handshake identifies a server by the paths that it answers. Each unusable kind is refused with its own message.
func TestHandshake(t *testing.T) {
	t.Parallel()
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html>")
	}
	says := func(version string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, `{"version":"`+version+`","pid":1}`) }
	}
	boots := 2
	for name, test := range map[string]struct {
		paths      map[string]http.HandlerFunc // every other path is the web page
		generation int
		want       string // in the refusal
	}{
		"1.18": {map[string]http.HandlerFunc{
			"/global/health": func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, `{"healthy":true,"version":"1.18.33"}`) },
			"/api/health":    func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, `{"healthy":true}`) },
		}, 1, ""},
		"2.0.18": {map[string]http.HandlerFunc{"/api/info": says("2.0.18")}, 2, ""},
		"boots": {map[string]http.HandlerFunc{"/api/info": func(w http.ResponseWriter, r *http.Request) {
			if boots--; boots >= 0 {
				refuse(http.StatusServiceUnavailable)(w, r)
				return
			}
			says("2.3.2")(w, r)
		}}, 2, ""},
		"2.0.2":          {map[string]http.HandlerFunc{"/api/health": says("2.0.2")}, 0, "update it to 2.0.4"},
		"an older set":   {map[string]http.HandlerFunc{"/api/health": says("2.1.0")}, 0, "update it to 2.0.4"},
		"3.1":            {map[string]http.HandlerFunc{"/api/info": says("3.1.0")}, 0, "another API"},
		"a build":        {map[string]http.HandlerFunc{"/api/info": says("0.0.0-next")}, 0, "development build"},
		"something else": {nil, 0, "instead of JSON"},
		"half of 1.18": {map[string]http.HandlerFunc{
			"/api/health": func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, `{"healthy":true}`) },
		}, 0, "instead of JSON"},
		"a stranger": {map[string]http.HandlerFunc{
			"/api/info": refuse(http.StatusUnauthorized), "/global/health": refuse(http.StatusUnauthorized),
			"/api/health": refuse(http.StatusUnauthorized),
		}, 0, opencode.ErrUnauthorized.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if answer := test.paths[r.URL.Path]; answer != nil {
					answer(w, r)
					return
				}
				page(w, r)
			}))
			t.Cleanup(server.Close)
			c, err := opencode.Attach(waiting(t), server.URL, opencode.AttachConfig{})
			if err != nil {
				if test.want == "" || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				return
			}
			c.Close()
			if got := c.Caps().Generation; got != test.generation {
				t.Errorf("it is spoken to as generation %d", got)
			}
		})
	}
}

func TestUnusableBinary(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "opencode")
	script := "#!/bin/sh\n[ $1 = --version ] && echo opencode v2.0.2 && exit\ntouch " + path + ".started\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := opencode.Start(waiting(t), opencode.ServerConfig{Binary: path, Dir: t.TempDir()})
	if v, ok := errors.AsType[*opencode.VersionError](err); !ok || v.Version != "2.0.2" {
		t.Errorf("started: %v", err)
	}
	if _, err := os.Stat(path + ".started"); err == nil {
		t.Error("it was started")
	}
}
