package worker

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// TestServerKilled: kill -9 of the server and 10 s without one lose no attempt. Reports and results arrive once, later.
func TestServerKilled(t *testing.T) {
	r := newRig(t, 30*time.Second, "a", "b")
	r.process()
	r.until("at work a#1", 1)
	r.until("at work b#1", 1)
	if err := r.server.Kill(); err != nil {
		t.Fatal(err)
	}
	r.finish(nudge("a"), "b")
	<-time.After(10 * time.Second) // the outage under test
	if err := r.server.Restart(); err != nil {
		t.Fatal(err)
	}
	r.until("nudged a#1", 1)
	r.finish("a")
	log := r.completed()
	for _, bad := range []string{"trouble a#1", "trouble b#1", "retry a#1", "retry b#1"} {
		if slices.Contains(log, bad) {
			t.Errorf("%q", log)
		}
	}
	told := slices.DeleteFunc(log, func(e string) bool { return e != "nudge a#1" })
	if len(told) != 1 || r.count("sent a#1") != 1 || r.count("sent b#1") != 1 {
		t.Errorf("%q, %q", told, r.notes())
	}
	r.oneAtATime("a", "b")
}

func (r *rig) oneAtATime(subTasks ...string) {
	r.Helper()
	for _, id := range subTasks {
		n := 0
		for _, note := range r.notes() {
			switch note {
			case "at work " + id + "#1":
				n++
			case "ended " + id + "#1":
				n--
			}
			if n > 1 {
				r.Errorf("two workers at work on %s: %q", id, r.notes())
				return
			}
		}
	}
}

// network is a proxy between a worker and the server. Data sent while it is cut arrives after it is healed.
type network struct {
	net.Listener
	mu  sync.RWMutex // write-locked while cut
	off bool
}

func (r *rig) network(address string) *network {
	r.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		r.Fatal(err)
	}
	n := &network{Listener: l}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			worker, err := l.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { n.connect(r.Context(), worker, r.server.Address) })
		}
	})
	r.Cleanup(func() {
		l.Close()
		n.heal()
		passing.Wait()
	})
	return n
}

func (n *network) connect(ctx context.Context, worker net.Conn, address string) {
	defer worker.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { // the test ends
		worker.Close()
		server.Close()
	})()
	var there sync.WaitGroup
	there.Go(func() { n.copy(server, worker) })
	n.copy(worker, server)
	there.Wait()
}

func (n *network) copy(to, from net.Conn) {
	defer to.Close()
	for data := make([]byte, 1<<16); ; {
		got, err := from.Read(data)
		n.mu.RLock()
		_, failed := to.Write(data[:got])
		n.mu.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}

func (n *network) cut() {
	n.mu.Lock()
	n.off = true
}

func (n *network) heal() {
	if n.off {
		n.off = false
		n.mu.Unlock()
	}
}

// TestNetworkCut: a worker that is cut off ends its work before another one gets it. Its late reports are refused.
func TestNetworkCut(t *testing.T) {
	r := newRig(t, 5*time.Second, "a")
	n := r.network("127.0.0.1:0")
	r.processAt(n.Addr().String())
	r.cutOff(n.cut)
	n.heal()
	r.finish("a")
	if log := r.completed(); slices.Contains(log, "retry a#1") || r.count("sent a#1") != 1 {
		r.Errorf("%q, %q", log, r.notes())
	}
}

// TestBackInTime: a worker that reconnects before the server reassigns its work gets it again, as the same attempt.
func TestBackInTime(t *testing.T) {
	r := newRig(t, 15*time.Second, "a")
	n := r.network("127.0.0.1:0")
	r.processAt(n.Addr().String())
	r.until("at work a#1", 1)
	n.cut()
	r.until("ended a#1", 1)
	n.heal()
	r.until("at work a#1", 2)
	r.finish("a")
	if log := r.completed(); slices.Contains(log, "retry a#1") || r.count("sent a#1") != 1 {
		r.Errorf("%q, %q", log, r.notes())
	}
}

func (r *rig) cutOff(cut func()) {
	r.Helper()
	r.until("at work a#1", 1)
	cut()
	r.process()
	r.until("at work a#1", 2)
	r.oneAtATime("a")
}

// TestNetworkDown is TestNetworkCut in a network namespace whose interface goes down.
func TestNetworkDown(t *testing.T) {
	pid := os.Getpid()
	name := fmt.Sprintf("mgr%d", pid) // unique, as are the addresses: other tests may run
	address := func(n int) string { return fmt.Sprintf("10.213.%d.%d", pid>>6&0xff, pid&0x3f<<2+n) }
	ip := func(args string) error {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
		return nil
	}
	if err := ip("netns add " + name); err != nil {
		t.Skipf("no network namespaces here, for which one has to be root: %v", err)
	}
	t.Cleanup(func() {
		if err := ip("netns del " + name); err != nil {
			t.Error(err)
		}
	})
	for _, args := range []string{
		"link add " + name + " type veth peer name inside netns " + name, "addr add " + address(1) + "/30 dev " + name, "link set " + name + " up",
		"-n " + name + " addr add " + address(2) + "/30 dev inside",
		"-n " + name + " link set inside up",
	} {
		if err := ip(args); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, 5*time.Second, "a")
	r.processAt(r.network(address(1)+":0").Addr().String(), "ip", "netns", "exec", name)
	r.cutOff(func() {
		if err := ip("link set " + name + " down"); err != nil {
			t.Fatal(err)
		}
	})
}

// TestWorkersReplaced: workers are replaced one by one with SIGTERM while a boulder runs, first the one that runs the
// workflow. The next worker continues the same turn at once, however often that happens.
func TestWorkersReplaced(t *testing.T) {
	const times = 4 // as many faults in a row would end the run
	r := newRig(t, 10*time.Minute, "a", "b")
	old := r.process()
	for n := 1; ; n++ {
		r.until("at work a#1", n)
		r.until("at work b#1", n)
		if n > times {
			break
		}
		next := r.process()
		if err := old.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := old.Wait(); err != nil {
			t.Fatal(err)
		}
		old = next
	}
	r.finish("a", "b")
	log := r.completed()
	if slices.Contains(log, "retry a#1") || r.count("sent a#1") != 1 || r.count("sent b#1") != 1 {
		t.Errorf("%q, %q", log, r.notes())
	}
	r.oneAtATime("a", "b")
}

// TestPlannerLost: if a worker is killed or stopped while it plans, another one plans.
func TestPlannerLost(t *testing.T) {
	r := newRig(t, 3*time.Second)
	for n, end := range []os.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		w := r.process()
		r.until("at work plan#1", n+1)
		if err := w.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		_ = w.Wait()
	}
	r.process()
	r.until("at work plan#1", 3)
	r.finish("plan", "a")
	r.completed()
}

// loud agents return more than 2 MB, in the fields that are set.
type loud struct {
	agents
	report, evidence, verdict bool
}

const megabytes = 2_500_000

func (l loud) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	e, err := l.agents.Run(ctx, job, report)
	text := strings.Repeat("many words\n", megabytes/11)
	if l.report && err == nil {
		err = report(boulder.Nudged{
			AttemptRef: job.Attempt.AttemptRef, Turn: job.Turn.Number, Rule: boulder.RuleIdle, MessageID: "nudge", Prompt: text,
		})
	}
	if l.evidence {
		e.FinalMessage, e.Diff.Patch, e.Gates = text, text, []boulder.Gate{{Command: "true", Output: text}}
	}
	return e, err
}

func (l loud) Judge(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	v, usage, err := l.agents.Judge(ctx, req)
	if l.verdict {
		v.OutputData = strings.Repeat("x", megabytes)
	}
	return v, usage, err
}

func (r *rig) loud(l loud) {
	r.Helper()
	l.agents = r.agents
	w := New(r.client, queue, 10, Parts{Judge: l, Runner: l})
	if err := w.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(w.Stop)
	r.finish("a")
}

// TestLargeTurn: a turn of more than 2 MB runs once. Its texts are cut.
func TestLargeTurn(t *testing.T) {
	r := newRig(t, 30*time.Second, "a")
	r.loud(loud{evidence: true})
	if log := r.completed(); slices.Contains(log, "trouble a#1") || r.count("at work a#1") != 1 {
		t.Errorf("%q, %q", log, r.notes())
	}
	p, err := r.page()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Events {
		if b, ok := e.Body.(boulder.TurnEnded); ok {
			for _, text := range []string{b.Evidence.FinalMessage, b.Evidence.Diff.Patch, b.Evidence.Gates[0].Output} {
				if len(text) < 1_000 || len(text) > largest || !strings.Contains(text, "cut: ") {
					t.Errorf("%d bytes", len(text))
				}
			}
		}
	}
}

// TestTooMuch: an oversized report or verdict ends the run and says which. Temporal would retry the work for ever.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	for says, l := range map[string]loud{
		"the report of nudge has 2.7 MB": {report: true}, "the result of judge has 2.5 MB": {verdict: true},
	} {
		t.Run(says, func(t *testing.T) {
			r := newRig(t, 30*time.Second, "a")
			r.loud(l)
			p, err := r.page()
			for begun := time.Now(); p.Ended == nil && time.Since(begun) < time.Minute; p, err = r.page() {
				<-time.After(20 * time.Millisecond)
			}
			if err != nil || p.Ended == nil || !strings.Contains(p.Ended.Message, says) || r.count("at work a#1") != 1 {
				t.Errorf("%+v, %v, %q", p.Ended, err, r.notes())
			}
			if err := r.order(boulder.Order{Do: boulder.OrderCancel}); err != nil {
				t.Error(err)
			}
		})
	}
}
