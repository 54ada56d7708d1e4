package watch_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project/internal/watch"
	"github.com/bouldermgr/manager/testkit/fakeopencode"
	"github.com/bouldermgr/manager/testkit/octest"
)

// secondWorld returns a project on the fake OpenCode 2.
func secondWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	model, home := octest.Model(t, shared.cast.Reply), t.TempDir()
	return worldOn(t, octest.ServeStandIn(t, fakeopencode.Behaviour{}, home, octest.Env(t, model.URL())), octest.Repo(t, nil))
}

// On OpenCode 2 an agent keeps its list with the manager's tool, and the same gates decide. There are no toasts: the
// countdown is a line of the watch.
func TestOpenCode2(t *testing.T) {
	w := secondWorld(t)
	r := w.watch(listed, func(c *watch.Config) { c.Diverter = newStandIn(t, false) })
	r.waitForNote("no todo list")
	k := w.begin(steps(half, say("I wrote a."), whole, say("Both are there.")),
		opencode.Rule{Permission: opencode.TodoTool, Pattern: "*", Action: opencode.Ask}) // the watch allows it
	k.until(r, "countdown countdown", "Write b")
	k.until(r, "send open", "Write b")
	k.until(r, "finish work")
	k.continuations(1)
	r.end()
	servers, err := w.dir.MCPServers(w.ctx)
	if err != nil || len(servers) != 0 {
		t.Errorf("the tool stays: %+v, %v", servers, err)
	}
}

func TestOpenCode2LeavesPlanAlone(t *testing.T) {
	w := secondWorld(t)
	r := w.watch(func(c *watch.Config) { c.Diverter = newStandIn(t, false) })
	testPlanIsLeftAlone(t, w, r)
}

// A session whose agent has no list tool does not count as done.
func TestOpenCode2WithoutAList(t *testing.T) {
	w := secondWorld(t)
	away := newStandIn(t, false)
	if err := away.Close(); err != nil {
		t.Fatal(err)
	}
	k := w.begin(steps(say("I wrote a.")))
	r := w.watch(listed, func(c *watch.Config) { c.Diverter, c.Once = away, true })
	<-r.done
	if r.err == nil || !strings.Contains(r.err.Error(), "agents have no todo list") ||
		slices.ContainsFunc(r.log, func(e watch.Entry) bool { return e.SessionID == k.id && e.Gate == "work" }) {
		t.Errorf("%v:\n%s", r.err, r.decisionLog(k.id))
	}
	r.err = nil
	r = w.watch(func(c *watch.Config) { // the promise decides, and needs no list
		c.Diverter, c.Once, c.DryRun = away, true, true
	})
	<-r.done
	if r.err != nil {
		t.Error(r.err)
	}
}
