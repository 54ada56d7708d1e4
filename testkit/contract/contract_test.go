package contract_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/contract"
	"github.com/bouldermgr/manager/testkit/fakeopencode"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

var (
	only     = flag.String("case", "", "try the cases whose name this `regexp` matches")
	patience = flag.Duration("patience", 5*time.Minute, "bounds each case; a busy machine is no failure")
)

func TestMain(m *testing.M) {
	octest.Guard()
	os.Exit(octest.CheckLeaks(m.Run()))
}

// open opens a suite on a binary or on a running server.
func open(t *testing.T, cfg contract.Config, environ ...string) *contract.Suite {
	t.Helper()
	cfg.Environ, cfg.Patience = append(os.Environ(), environ...), *patience
	suite, err := contract.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(suite.Close)
	return suite
}

func standIn(t *testing.T) string {
	t.Helper()
	path, err := octest.StandIn(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// holds runs all cases: none may fail, or be skipped for another reason than these.
func holds(t *testing.T, suite *contract.Suite, reasons ...string) {
	t.Helper()
	wanted := regexp.MustCompile(*only)
	cases := slices.DeleteFunc(slices.Clone(contract.Cases), func(c contract.Case) bool { return !wanted.MatchString(c.Name) })
	for r := range suite.Run(t.Context(), cases) {
		t.Run(r.Name, func(t *testing.T) {
			t.Logf("took %v", r.Took)
			if r.Err != nil || r.Skipped != "" && !slices.Contains(reasons, r.Skipped) {
				t.Error(r.Err, r.Skipped)
			}
		})
	}
}

// What no call of OpenCode 2 does.
const noToasts, noArchive = "no call of its API shows one", "no call of its API archives one"

func TestOpenCode1(t *testing.T) {
	t.Parallel()
	holds(t, open(t, contract.Config{Binary: octest.Binary(t)}))
}

// TestOpenCode2 runs the cases on the stand-in, with the surprises of 2.x and without, and on a real one.
func TestOpenCode2(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]fakeopencode.Behaviour{
		"surprising": {},
		"tame": {
			KeepRejectText: true, FullCatalogue: true, LastPage: true, EventLocations: true,
		},
	} {
		t.Run("stand-in "+name, func(t *testing.T) {
			t.Parallel()
			holds(t, open(t, contract.Config{Binary: standIn(t)}, b.Env()), noToasts, noArchive)
		})
	}
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		binary := os.Getenv("OPENCODE2_BIN")
		if binary == "" {
			t.Skip("no OpenCode 2 was tried: OPENCODE2_BIN names none")
		}
		holds(t, open(t, contract.Config{Binary: binary}), noToasts, noArchive)
	})
}

func attach(t *testing.T, environ []string) *opencode.Client {
	t.Helper()
	client, err := opencode.Attach(t.Context(), octest.ServeStandIn(t, fakeopencode.Behaviour{}, t.TempDir(), environ), opencode.AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// A suite on an attached server does not stop it, and leaves no session behind.
func TestAttached(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	environ := slices.DeleteFunc(scriptmodel.OpenCodeEnv(os.Environ(), home, ""), func(entry string) bool {
		return strings.HasPrefix(entry, "OPENCODE_CONFIG_CONTENT=")
	})
	client := attach(t, environ)
	var dir string
	t.Run("cases", func(t *testing.T) {
		suite := open(t, contract.Config{Attached: client})
		holds(t, suite, noToasts, noArchive, "it ends servers, and this one is yours")
		dir = suite.Dir()
	})
	left, err := client.In(dir).Sessions(t.Context(), opencode.SessionFilter{})
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %+v, %v", left, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
}

// A server without the cases' model is not prompted: another model could cost money.
func TestAttachedWithoutTheModel(t *testing.T) {
	t.Parallel()
	client := attach(t, []string{`OPENCODE_CONFIG_CONTENT={"provider":{"scripted":{}}}`})
	suite, err := contract.Open(t.Context(), contract.Config{Attached: client, Environ: os.Environ()})
	if err == nil {
		suite.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "does not take the model scripted/agent from ") {
		t.Errorf("opened with %v", err)
	}
}

// A case fails on an OpenCode that ignores the rules of sessions.
func TestBrokenOpenCode(t *testing.T) {
	t.Parallel()
	suite := open(t, contract.Config{Binary: standIn(t)}, fakeopencode.Behaviour{IgnoreRules: true}.Env())
	cases := slices.DeleteFunc(slices.Clone(contract.Cases), func(c contract.Case) bool {
		return !strings.Contains(c.Name, "without tools")
	})
	for r := range suite.Run(t.Context(), cases) {
		if r.Err == nil || !strings.Contains(r.Err.Error(), "the model was offered") {
			t.Errorf("%s, where a session's rules have no effect: %v", r.Name, r.Err)
		}
	}
}
