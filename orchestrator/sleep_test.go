package orchestrator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// laptop is a clock of a machine that can sleep: wall time continues then, monotonic time does not.
type laptop struct {
	begun time.Time
	slept atomic.Int64
}

// newLaptop is for synctest bubbles, whose times have no monotonic reading: it takes one from outside.
func newLaptop() *laptop { return &laptop{begun: time.Now()} }

var outside = time.Now()

func (l *laptop) sleep(d time.Duration) { l.slept.Add(int64(d)) }

func (l *laptop) now() time.Time {
	slept := l.slept.Load()
	now := outside.Add(time.Since(l.begun) + time.Duration(slept)) // moves both readings
	// Only the second word of a time.Time, the monotonic reading, can set them apart.
	monotonic := (*int64)(unsafe.Add(unsafe.Pointer(&now), unsafe.Sizeof(uint64(0))))
	*monotonic -= slept
	return now
}

// An order can be refused as the first event after a sleep, and the run continues. The sleep is not working time.
func TestRefusedOrderAfterSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLaptop()
		_, r, err := ordered(t, planOf(spec("a")), func(_ *rig, o *orchestrator.Orchestrator, h *held) {
			l.sleep(8 * time.Hour)
			err := o.Order(t.Context(), "b1", boulder.Order{Do: boulder.OrderNote, SubTaskID: "nosuch", Text: "faster"})
			if !errors.Is(err, boulder.ErrRefused) {
				t.Errorf("an order for an unknown sub-task: %v", err)
			}
			close(h.at(at("a", 1)))
		}, func(r *rig) { r.cfg.Now = l.now })
		head, _ := r.store.load(t)
		if err != nil || head.Status != boulder.Completed || head.Worked > time.Minute {
			t.Errorf("%v: boulder %s, worked %s", err, head.Status, head.Worked)
		}
	})
}

// TestRateLimitIsOverAfterSleep: a sleep counts as waiting for a provider, even if no other work would wake the run. It
// does not count against a time budget.
func TestRateLimitIsOverAfterSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLaptop()
		r := newRig(t)
		r.cfg.Now = l.now
		r.server.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
			if job.Turn.MessageID == "" {
				return boulder.Evidence{}, &boulder.TroubleError{
					Kind: boulder.TroubleRateLimit, RetryAfter: 3 * time.Hour, Err: errors.New("429"),
				}
			}
			return boulder.Evidence{FinalMessage: "done"}, nil
		}
		began := time.Now()
		go func() {
			<-time.After(time.Minute)
			l.sleep(8 * time.Hour)
		}()
		r.completes(r.request(orchestrator.Request{
			Plan: planOf(spec("a")), Settings: boulder.Settings{Budget: &boulder.Budget{Time: boulder.Duration(time.Hour)}},
		}))
		if waited := time.Since(began); waited > 3*time.Minute {
			t.Errorf("it waited for %s, of which the machine was awake", waited)
		}
	})
}
