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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
)

// own is a server that a test starts for itself, to end it one way or another.
type own struct {
	*scene
	cfg    opencode.ServerConfig
	host   *opencode.Host
	server *opencode.Server // the last one
}

func startOwn(t *testing.T, handler scriptmodel.Handler) *own {
	t.Helper()
	model := octest.Model(t, handler)
	o := &own{scene: &scene{t: t, mark: "[" + t.Name() + "]", ctx: waiting(t)}}
	o.cfg = opencode.ServerConfig{
		Binary: octest.Binary(t), Dir: octest.Repo(t, nil), Env: octest.Env(t, model.URL()), StartTimeout: patience,
		StopGrace: patience, // a busy machine needs longer than the default to end turns in good order
	}
	o.host = opencode.NewHost(func(ctx context.Context) (server *opencode.Server, err error) {
		server, err = opencode.Start(ctx, o.cfg)
		o.server = server
		return server, err
	})
	t.Cleanup(func() { o.host.Stop(context.Background()) })
	o.connect()
	return o
}

// connect starts a server if none runs.
func (o *own) connect() {
	o.t.Helper()
	conn, err := o.host.Connect(o.ctx)
	if err != nil {
		o.t.Fatal(err)
	}
	o.dir = conn.Client.In(o.cfg.Dir)
}

// runTool prompts until a bash tool, which never ends by itself, really runs.
func (o *own) runTool() (sessionID, messageID string, pid int) {
	o.t.Helper()
	session := o.session()
	messageID = o.send(session.ID, "sleep")
	return session.ID, messageID, awaitPID(o.t, filepath.Join(o.cfg.Dir, "pid"))
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	o := startOwn(t, steps(bash("echo $$ > pid; exec sleep 600")))
	sub := o.server.Client().Subscribe(opencode.Filter{})
	sessionID, _, pid := o.runTool()
	if o.server.Client().Version() != opencode.TestedVersion {
		t.Errorf("version %q", o.server.Client().Version())
	}
	began := time.Now()
	o.server.Stop(o.ctx)
	o.server.Stop(o.ctx) // nothing more happens
	t.Logf("stopped in %v", time.Since(began))
	<-o.server.Done()
	if err := syscall.Kill(-o.server.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("its process group: %v", err)
	}
	if running(pid) {
		t.Error("the tool still runs")
	}
	for range sub.C() { // the subscription has ended
		continue
	}
	if _, err := o.dir.Statuses(o.ctx); !errors.Is(err, opencode.ErrUnavailable) {
		t.Errorf("a call to a stopped server: %v", err)
	}

	o.connect() // to see that the turn was ended in good order, although the server was killed
	messages, err := o.dir.Messages(o.ctx, sessionID, 1)
	if err != nil || len(messages) != 1 || messages[0].Info.Completed.IsZero() ||
		messages[0].Info.Error == nil || messages[0].Info.Error.Name != opencode.MessageAborted {
		t.Errorf("the interrupted turn was stored as %+v, %v", messages, err)
	}
}

// A server that is killed takes its tools with it, says so, and its sessions are found and go on in the next server,
// which its Host starts.
func TestKilledServerIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	o := startOwn(t, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if strings.Contains(r.LastUser(), "go on") {
			return scriptmodel.Reply{Text: "finished"}
		}
		return bash("echo $$ > pid; exec sleep 600")
	})
	lost := o.dir.Client().Subscribe(opencode.Filter{}) // TestMain finds its reader if nobody closes the client
	sessionID, messageID, pid := o.runTool()
	if err := syscall.Kill(o.server.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-o.server.Done()
	if runtime.GOOS == "linux" && running(pid) {
		t.Error("the tool outlived its server")
	}
	if _, err := o.dir.Session(o.ctx, sessionID); !errors.Is(err, opencode.ErrUnavailable) {
		t.Errorf("a call to a dead server: %v", err)
	}

	o.connect()
	for range lost.C() { // which ends when the client of the dead server is closed
		continue
	}
	found, err := o.dir.Sessions(o.ctx, opencode.SessionFilter{Title: o.mark})
	if err != nil || len(found) != 1 || found[0].ID != sessionID {
		t.Fatalf("found %+v, %v", found, err)
	}
	messages, err := o.dir.Messages(o.ctx, sessionID, 0)
	if err != nil || len(messages) != 2 || messages[0].Info.ID != messageID {
		t.Fatalf("its messages: %+v, %v", messages, err)
	}
	if last := messages[1]; !last.Info.Completed.IsZero() || !slices.ContainsFunc(last.Parts, func(p opencode.Part) bool {
		return p.Tool != nil && p.Tool.State == opencode.ToolRunning
	}) {
		t.Errorf("the interrupted message is %+v", last)
	}
	sub := o.follow(o.server.Client(), sessionID)
	await(o.ctx, t, sub, answered(o.send(sessionID, "go on")))
	o.host.Stop(o.ctx)
	if running(o.server.PID()) {
		t.Error("the second server still runs")
	}
	if _, err := o.host.Connect(o.ctx); !errors.Is(err, opencode.ErrClosed) {
		t.Errorf("after Stop: %v", err)
	}
}

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
	got, err := opencode.Version(waiting(t), octest.Binary(t))
	if err != nil || got != opencode.TestedVersion {
		t.Errorf("the installed version is %q, %v", got, err)
	}
	for version, supported := range map[string]bool{
		opencode.TestedVersion: true, "1.18.0": true, "v1.18.99": true,
		"1.18": true, "1.19.0": true, "1.100.0": true,
		"1.17.9": false, "0.20.0": false, "v2.0.18": false, "2.18.33": false, "": false, "local": false,
	} {
		err := opencode.CheckVersion(version)
		if _, refused := errors.AsType[*opencode.VersionError](err); refused == supported {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

const listening = "echo opencode server listening on "

// impostor is a program that behaves as the script says instead of serving.
func impostor(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "opencode")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStartFailures(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	const noVersion = "[ $1 = --version ] && exit; " // or it would be waited for
	for name, test := range map[string]struct {
		script, says string
		want         error // nil: an ExitError
	}{
		"ends at once": {"echo the disk is full >&2; exit 3", "status 3; its last output:\nthe disk is full", nil},
		"says nothing": {noVersion + "echo thinking; sleep 600", "thinking", opencode.ErrStartTimeout},
		"listens and is deaf": {
			noVersion + listening + "http://" + deaf.Addr().String() + "; sleep 600", "listening", opencode.ErrStartTimeout,
		},
		"is not a program": {"\x00", "exit status", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := opencode.Start(t.Context(), opencode.ServerConfig{
				Binary: impostor(t, test.script), StartTimeout: 300 * time.Millisecond,
			})
			_, ended := errors.AsType[*opencode.ExitError](err)
			if ended != (test.want == nil) || !ended && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Start: %v", err)
			}
		})
	}
}

// startStubborn starts a server that neither ends its work nor heeds SIGTERM.
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

// A stubborn server is killed, with its children.
func TestStopOfAStubbornServer(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	escape := "" // out of the process group, as OpenCode's tools do
	if runtime.GOOS == "linux" {
		escape = "setsid "
	}
	server := startStubborn(t, 50*time.Millisecond, escape+"sh -c 'echo $$ > "+pidFile+"; exec sleep 600' &")
	pid := awaitPID(t, pidFile)
	server.Stop(t.Context())
	if running(server.PID()) || running(pid) {
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

// orphanVariable makes the test binary play a program that starts a server and is then killed; its value is the
// binary to start.
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
	if !running(pid) {
		t.Error("the server died before its program")
	}
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait() // it was killed
	eventually(t, "the server is gone", func() bool { return !running(pid) })
}

// TestOtherVersions has the real server say that it is another: later ones are judged by the calls that they know.
func TestOtherVersions(t *testing.T) {
	t.Parallel()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(shared.server.Client().URL())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ version, without, want string }{
		"later":           {version: "1.19.2"},
		"too much later":  {version: "1.30.0", without: "prompt_async", want: "does not know POST /session/{}/prompt_async"},
		"earlier":         {version: "1.17.0", want: "1.18 or a later 1.x is needed"},
		"of another kind": {version: "2.0.0", want: "another API"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Header.Del("Accept-Encoding") // compressed it could not be changed
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

// An OpenCode 2 is recognised where it answers, and does not answer at the address of 1.x.
func TestOpenCode2(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/info", "/api/health"} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, `{"version":"2.0.18","pid":1}`) })
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		_, err := opencode.Attach(waiting(t), server.URL, opencode.AttachConfig{})
		if v, ok := errors.AsType[*opencode.VersionError](err); !ok || v.Version != "2.0.18" {
			t.Errorf("%s: %v", path, err)
		}
	}
	_, err := opencode.Start(waiting(t), opencode.ServerConfig{
		Binary: impostor(t, "[ $1 = --version ] && echo opencode v2.0.18"), Dir: t.TempDir(),
	})
	if _, ok := errors.AsType[*opencode.VersionError](err); !ok {
		t.Errorf("started: %v", err)
	}
}
