package cli

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bouldermgr/manager/store"
	goldenfile "github.com/bouldermgr/manager/testkit/golden"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// In scripts, and in tests that need a process of its own, this test binary is manager.
func TestMain(m *testing.M) {
	octest.PlayStandIn()
	testscript.Main(testsWithServer{m}, map[string]func(){"manager": func() {
		program, err := exec.LookPath("manager")
		if err != nil {
			panic(err)
		}
		os.Exit(Main(Env{
			Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			Environ: os.Environ(), Signals: Signals(), Executable: program,
		}))
	}})
}

// onOpenCode2 marks a script that also runs on the stand-in for OpenCode 2, and says why: something in it depends on what
// differs there (opencode.Caps, or what a back end tells). Whatever else a script tests is the same program above the
// interface of package opencode, to which testkit/contract holds both; a second run would take minutes and find nothing.
const onOpenCode2 = "\n# OpenCode 2 too: "

// Scripts run the command line on the real OpenCode and, if they are marked, on the stand-in for OpenCode 2. A line for
// one of them begins with [opencode2] or [!opencode2]. STAND_IN is the stand-in's program in both: MANAGER_OPENCODE leads to
// it where the real one would prove nothing more, and back to OPENCODE. Commands in addition to testscript's:
//
//	model FILE    start a model that plays the script; OpenCode and OPENAI_BASE_URL lead to it. The ledgers ask it
//	              directly unless the script has a configuration: a call through OpenCode takes 0.25 s of CPU time
//	requests N    check the number of requests since the model's start
//	serve         lead the sessions below $WORK, on a running OpenCode server, to the model; SERVER_URL is its address
//	sample        make an interrupted boulder: toggle done, theme at work, icons failed, so that site is blocked
//	blocked       make a boulder that waits for the user, see blockedSample
//	repo          make the current directory a git repository with one commit
//	exit N CMD …  run a command and check its exit code; keeps its stdout and stderr for `stdout` and `stderr`
func TestScripts(t *testing.T) {
	t.Parallel()
	generations, err := octest.Generations(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	scripts, _ := filepath.Glob("testdata/script/*.txtar") // the pattern is valid
	var both []string
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch marked := strings.Contains(string(text), onOpenCode2); {
		case marked:
			both = append(both, path)
		case strings.Contains(string(text), "opencode2]"):
			t.Errorf("%s has lines for OpenCode 2, and lacks the mark %q", path, onOpenCode2)
		}
	}
	run := func(server *sharedServer, scripts []string) {
		g := generations[server.generation]
		g.Env = append(g.Env, "STAND_IN="+generations[shared2.generation].Binary)
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel() // else those of OpenCode 2 would wait for the slowest of the others
			testscript.Run(t, scriptParams(t, scripts, g, server))
		})
	}
	run(&shared, scripts)
	run(&shared2, both)
}

func scriptParams(t *testing.T, scripts []string, g octest.Generation, server *sharedServer) testscript.Params {
	return testscript.Params{
		Files:           scripts,
		ContinueOnError: true, // report all failures of a script
		UpdateScripts:   goldenfile.Updating() && server == &shared,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, ".home")
			if err := os.MkdirAll(home, 0o700); err != nil {
				return err
			}
			if err := knowVersion(home); err != nil {
				return err
			}
			env.Vars = scriptmodel.OpenCodeEnv(append(env.Vars, octest.Mark()), home, "http://127.0.0.1:1/v1")
			env.Vars = append(append(env.Vars, g.Env...), "BUN_JSC_useGC=0") // as in octest.Env
			env.Setenv("OPENCODE", g.Binary)
			env.Setenv("MANAGER_OPENCODE", g.Binary)
			env.Setenv("NO_COLOR", "1")
			env.Setenv("OPENAI_API_KEY", "sk-planted-in-the-environment")
			config := filepath.Join(home, "config", "manager", "config.yaml")
			if _, err := os.Stat(config); errors.Is(err, fs.ErrNotExist) {
				err = errors.Join(os.MkdirAll(filepath.Dir(config), 0o700), os.WriteFile(config, []byte(directLedger), 0o600))
				if err != nil {
					return err
				}
			}
			env.Values[modelKey{}] = new(*scriptmodel.Server)
			env.Values[serverKey{}] = server
			if *bouldersDir != "" && server == &shared {
				env.Defer(func() { keepBoulders(t, strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"), env.WorkDir) })
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "opencode2" {
				return false, fmt.Errorf("there is no condition %s", name)
			}
			return server == &shared2, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sample": func(ts *testscript.TestScript, _ bool, _ []string) {
				s := newSample(t)
				s.Play()
				s.storeIn(ts.MkAbs("."))
			},
			"blocked": func(ts *testscript.TestScript, _ bool, _ []string) { blockedSampleIn(t, ts.MkAbs(".")) },
			"model":   scriptModel, "requests": scriptRequests, "serve": scriptServe, "repo": scriptRepo, "exit": scriptExit,
		},
	}
}

var bouldersDir = flag.String("boulders", "", "export every boulder that a script, or a kill -9, leaves to this directory")

// keepBoulders exports boulders, as in orchestrator/testdata/boulders, without the machine's paths.
func keepBoulders(t *testing.T, name, dir string) {
	machine := regexp.MustCompile(regexp.QuoteMeta(os.TempDir()) + `/[\w-]+(/script-\w+)?`)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "manager.db" {
			return err
		}
		db, err := store.Open(path, store.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		defer db.Close()
		all, err := db.Listing(t.Context())
		for i, b := range all {
			events, err := db.Events(t.Context(), b.BoulderID, 0, 0)
			if err != nil {
				return err
			}
			text, err := json.Marshal(store.NewExport(events))
			if err != nil {
				return err
			}
			f, err := os.Create(filepath.Join(*bouldersDir, fmt.Sprintf("%s-%d.json.gz", name, i)))
			if err != nil {
				return err
			}
			zip := gzip.NewWriter(f)
			_, err = zip.Write(machine.ReplaceAll(text, []byte("/work")))
			if err = errors.Join(err, zip.Close(), f.Close()); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func scriptModel(ts *testscript.TestScript, _ bool, args []string) {
	script, err := scriptmodel.ParseScript([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	server, err := scriptmodel.Start(script.Reply)
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Setenv("OPENCODE_CONFIG_CONTENT", octest.Lean([]string{scriptmodel.OpenCodeConfig(server.URL())})[0])
	ts.Setenv("OPENAI_BASE_URL", server.URL())
	ts.Setenv("MODEL_URL", server.URL())
	*ts.Value(modelKey{}).(**scriptmodel.Server) = server
}

type (
	modelKey  struct{}
	serverKey struct{}
)

func scriptRequests(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	requests := (*ts.Value(modelKey{}).(**scriptmodel.Server)).Requests()
	if len(requests) == want {
		return
	}
	for _, r := range requests {
		ts.Logf("%s %s: %.200q", r.Kind(), r.Model, r.LastUser())
	}
	ts.Fatalf("the model got %d requests, want %d", len(requests), want)
}

// scriptServe leads the script to a server with a password that the user runs. Scripts share it.
func scriptServe(ts *testscript.TestScript, _ bool, _ []string) {
	address, err := ts.Value(serverKey{}).(*sharedServer).lead(ts.Getenv("MODEL_URL"), ts.Getenv("WORK"))
	ts.Check(err)
	ts.Setenv("SERVER_URL", address)
	ts.Setenv("OPENCODE_SERVER_PASSWORD", sharedPassword)
}

func scriptRepo(ts *testscript.TestScript, _ bool, _ []string) {
	for _, line := range []string{
		"init --quiet --initial-branch=main", "config user.name Test", "config user.email test@example.com",
		"config commit.gpgsign false", "add --all", "commit --quiet --allow-empty --message Start",
	} {
		ts.Check(ts.Exec("git", strings.Fields(line)...))
	}
}

func scriptExit(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// testEnv is the isolated environment of a manager process in a test.
func testEnv(t *testing.T, modelURL string) []string {
	t.Helper()
	env := octest.Env(t, modelURL)
	for _, entry := range env {
		if home, found := strings.CutPrefix(entry, "HOME="); found {
			if err := knowVersion(home); err != nil {
				t.Fatal(err)
			}
		}
	}
	return append(env, "MANAGER_OPENCODE="+octest.Binary(t), "NO_COLOR=1")
}

// manager prepares this test binary to run as `manager ARGS` in a directory.
func manager(t *testing.T, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("manager") // testscript.Main put it there
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(env, []string{fmt.Sprintf("GOCOVERDIR=%s", t.TempDir())})
	return cmd
}
