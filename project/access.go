package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project/internal/control"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/workspace"
)

// Reader reads from the database, or from the process that holds it. Its methods have the contracts and errors of
// *[store.DB]; a list may come with an error.
type Reader = control.Source

// Steerer carries out the user's orders.
type Steerer = control.Steerer

// Submitter runs boulders for others.
type Submitter = control.Submitter

// Holder describes the process that holds the state.
type Holder = control.Holder

var (
	// ErrNotServed means that no process holds the state, or no longer: it can be read from the database.
	ErrNotServed = control.ErrNotServed
	// ErrNotReady means that the holder runs nothing yet, as while the user reviews the plan. Nothing was done.
	ErrNotReady = control.ErrNotReady
)

// Access reads the state and takes orders: through the process that holds the database, or directly if there is none.
type Access struct {
	Reader
	Orders Steerer
	Holder *Holder         // nil if no process holds the database
	client *control.Client // connects to the holder; nil as well
	Close  func()
}

// Follow yields the stored events after number afterSeq, then new ones as they come; also after the end of the boulder.
// Unless the caller stops, it ends with an error: the cause of ctx; one of the [Reader]; or [ErrNotServed] if there is no
// holder, no longer one (the remaining events are in the database), or it no longer runs the boulder.
func (d *Access) Follow(ctx context.Context, boulderID string, afterSeq uint64) iter.Seq2[boulder.Event, error] {
	if d.client == nil {
		return func(yield func(boulder.Event, error) bool) { yield(boulder.Event{}, ErrNotServed) }
	}
	return d.client.Follow(ctx, boulderID, afterSeq)
}

// others returns the other boulders of the process that runs boulder id.
func (d *Access) others(ctx context.Context, id string) (all []boulder.Snapshot) {
	if d.Holder == nil || !slices.Contains(d.Holder.Running, id) {
		return nil
	}
	for _, other := range d.Holder.Running {
		if b, err := d.Get(ctx, other); err == nil && other != id {
			all = append(all, b)
		}
	}
	return all
}

// LimitsOf returns the limits that explain why sub-tasks wait: those of the holder, or else the configured ones.
func (p *Project) LimitsOf(h *Holder) orchestrator.Limits {
	if h != nil && h.Limits != nil {
		return *h.Limits
	}
	return p.cfg.Limits
}

// onDisk applies orders to the database while no process runs anything.
type onDisk struct{ db *store.DB }

func (s onDisk) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	b, err := s.db.Get(ctx, boulderID)
	if err == nil {
		err = orchestrator.RunsElsewhere(&b.Boulder)
	}
	if err != nil {
		return err
	}
	return orchestrator.Obey(ctx, s.db, boulderID, o, time.Now())
}

// Dial connects to the process that holds the state. The error wraps [ErrNotServed] if there is none.
func (p *Project) Dial(ctx context.Context) (*Access, error) {
	client, holder, err := control.Dial(ctx, filepath.Join(p.stateDir(), control.SocketName))
	switch {
	case err == nil:
		return &Access{Reader: client, Orders: client, client: client, Holder: &holder, Close: func() {}}, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: the state in %s belongs to another user", err, p.stateDir())
	case !errors.Is(err, control.ErrNotServed): // the holder hangs, was stopped, or has another version
		err = fmt.Errorf("%w%s: %w", store.ErrHeld, LockOwner(p.database()), err)
	}
	return nil, err
}

// openAccess connects to the holder, or opens the database if there is none. It waits up to holderWait for a holder
// that does not serve yet, or no longer.
func (p *Project) openAccess(ctx context.Context, readOnly bool) (*Access, error) {
	path := p.database()
	for last := range Tries(ctx, 0, holderWait) {
		there, err := p.Dial(ctx)
		if !errors.Is(err, control.ErrNotServed) {
			return there, err
		}
		db, err := store.Open(path, store.Options{ReadOnly: readOnly, Timeout: retryStep, Redact: p.secrets.JSON, Logger: p.log})
		switch {
		case err == nil:
			return &Access{Reader: db, Orders: onDisk{db}, Close: func() { _ = db.Close() }}, nil
		case !errors.Is(err, store.ErrHeld):
			return nil, err
		case last:
			return nil, fmt.Errorf("%w%s, and it does not answer: try again, or stop it with Ctrl-C where it runs", err,
				LockOwner(path))
		}
	}
	return nil, context.Cause(ctx)
}

// openState opens the database for writing. It waits up to patience, at least LockWait, and then names the holder.
func (p *Project) openState(ctx context.Context, patience time.Duration) (*store.DB, error) {
	began, told := time.Now(), false
	for last := range Tries(ctx, 0, max(LockWait, patience)) {
		db, err := store.Open(p.database(), store.Options{Timeout: retryStep, Redact: p.secrets.JSON, Logger: p.log})
		switch {
		case !errors.Is(err, store.ErrHeld):
			return db, err
		case last:
			return nil, fmt.Errorf("%w%s: look with `manager status`, stop it, or let a run wait for it with --lock-timeout", err,
				p.holderText(ctx))
		case !told && patience > LockWait && time.Since(began) >= LockWait:
			told = true
			p.note("Waiting up to %s for the state, which another process holds%s.", patience, p.holderText(ctx))
		}
	}
	return nil, context.Cause(ctx)
}

func (p *Project) holderText(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	there, err := p.Dial(ctx)
	if err != nil {
		return LockOwner(p.database())
	}
	defer there.Close()
	h := there.Holder
	return fmt.Sprintf(": process %d, `%s`, since %s%s", h.PID, h.Command, h.Since.Local().Format(time.DateTime),
		text.If(h.Serves, " (a server: hand it the task with `manager run --detach`)"))
}

const (
	// LockWait is the default wait for the database: a view may hold it for a moment.
	LockWait = time.Second
	// holderWait bounds the wait for a process that has the database but does not serve yet, or no longer.
	holderWait = 2 * time.Second
	// retryStep is how long one try waits for the database lock, or pauses, before the next one looks for the socket.
	retryStep = 200 * time.Millisecond
	// beginWait bounds the wait for a holder that takes no orders yet: it starts OpenCode, or asks about the plan.
	beginWait = 10 * time.Second
)

// Steer calls do with access to the holder or the database. It calls do again while the holder is not ready, and if the
// holder has ended. Without a holder no run can start during the call, since the database is locked.
func (p *Project) Steer(ctx context.Context, do func(*Access) error) error {
	if !p.Exists() {
		return ErrNothing
	}
	ended := 0
	for last := range Tries(ctx, retryStep, beginWait) {
		there, err := p.openAccess(ctx, false)
		if err == nil {
			err = do(there)
			there.Close()
		}
		switch {
		case errors.Is(err, control.ErrNotReady) && !last:
		case errors.Is(err, control.ErrNotServed) && !errors.Is(err, control.ErrUnanswered) && ended < 2:
			ended++ // the database takes orders now, or another process
		default:
			return err
		}
	}
	return context.Cause(ctx)
}

// reading calls do with access for reading, and again if the holder has ended meanwhile.
func (p *Project) reading(ctx context.Context, do func(*Access) error) error {
	for last := range Tries(ctx, retryStep, holderWait) {
		there, err := p.Read(ctx)
		if err == nil {
			err = do(there)
			there.Close()
		}
		if last || !errors.Is(err, ErrNotServed) {
			return err
		}
	}
	return context.Cause(ctx)
}

// Submit hands a request to the holder, and returns the boulder's id once the run has begun. It waits up to beginWait
// for a server that still resumes what a crash left.
func (d *Access) Submit(ctx context.Context, req Request) (id string, err error) {
	if d.client == nil {
		return "", control.ErrNotServed
	}
	for last := range Tries(ctx, retryStep, beginWait) {
		if id, err = d.client.Submit(ctx, req); last || !errors.Is(err, control.ErrNotReady) {
			return id, err
		}
	}
	return "", context.Cause(ctx)
}

// Find reads the boulder to resume or steer: the named one, else the running one, the active one, or the newest
// unfinished one. Returns [control.ErrNotReady] if the holder does not say yet what it runs, since no older boulder is
// meant then. With an error the snapshot has what could be read.
func (d *Access) Find(ctx context.Context, ref string) (boulder.Snapshot, error) {
	id, err := d.find(ctx, ref)
	if err != nil {
		return boulder.Snapshot{}, err
	}
	return d.Get(ctx, id)
}

func (d *Access) find(ctx context.Context, ref string) (string, error) {
	if ref != "" {
		return Resolve(ctx, d, ref)
	}
	if d.Holder != nil {
		switch atWork := d.Holder.Running; {
		case len(atWork) == 1:
			return atWork[0], nil
		case len(atWork) > 1:
			return "", usagef("process %d runs several boulders: say which one is meant: %s", d.Holder.PID, strings.Join(atWork, ", "))
		case d.Holder.Beginning():
			return "", control.ErrNotReady
		}
	}
	all, err := d.Listing(ctx)
	left := slices.DeleteFunc(all, func(i store.Item) bool { return i.Status.Terminal() })
	active := slices.IndexFunc(left, func(i store.Item) bool { return i.Active })
	switch {
	case len(left) > 0:
		return left[max(active, 0)].BoulderID, nil
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", ErrNothing
	}
	return "", &UsageError{Err: ErrAllOver}
}

// Tries yields at once, and again after each pause, until ctx ends. last is true once patience has passed. The caller
// must then leave the loop; one that ignores last retries until ctx ends.
func Tries(ctx context.Context, pause, patience time.Duration) iter.Seq[bool] {
	return func(yield func(last bool) bool) {
		for began := time.Now(); ctx.Err() == nil && yield(time.Since(began) >= patience); {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// Ordered is an order that was carried out, with the boulder before and after it.
type Ordered struct {
	boulder.Order
	Before, After boulder.Snapshot
	Holder        *Holder // that carried it out; nil if there was none, or if it has ended with the boulder
}

// Order carries out an order. find reads the boulder and may refuse; it is called again if the holder has just ended.
func (p *Project) Order(
	ctx context.Context, find func(*Access) (boulder.Snapshot, boulder.Order, error),
) (done *Ordered, err error) {
	err = p.Steer(ctx, func(d *Access) (err error) {
		done = &Ordered{Holder: d.Holder}
		if done.Before, done.Order, err = find(d); err != nil {
			return err
		}
		id := done.Before.Boulder.ID
		switch err := d.Orders.Order(ctx, id, done.Order); {
		case errors.Is(err, boulder.ErrFinished):
			return Over(&done.Before.Boulder, done.Do)
		case err != nil:
			return err
		}
		done.After, err = d.Get(ctx, id)
		if errors.Is(err, control.ErrNotServed) { // a cancel also ends the process
			done.Holder = nil
			var there *Access
			if there, err = p.Read(ctx); err == nil {
				done.After, err = there.Get(ctx, id)
				there.Close()
			}
		}
		if err != nil {
			return fmt.Errorf("the order was carried out, but what came of it cannot be read: %w", err)
		}
		return nil
	})
	return done, err
}

// Over says that a boulder is over, and takes no such order.
func Over(b *boulder.Boulder, do boulder.OrderKind) error {
	how := "over"
	if b.Status.Terminal() { // else it has just ended
		how = string(b.Status)
	}
	return usagef("boulder %s is %s: there is nothing left to %s", boulder.ShortID(b.ID), how, do)
}

// Message returns the text of an error for the user. Of a refusal it returns only the reason.
func Message(err error) string {
	said := strings.TrimRight(text.Error(err), "\n")
	if _, why, refused := strings.Cut(said, boulder.ErrRefused.Error()+": "); refused {
		return why
	}
	return said
}

// OtherServer reports whether the user names an OpenCode server that is not the holder's.
func (p *Project) OtherServer(h *Holder) bool {
	return p.opts.Attach != "" && strings.TrimRight(p.secrets.Text(p.opts.Attach), "/") != strings.TrimRight(h.Attached, "/")
}

// HandOver submits a request to the holder, or else to the server that start starts. On return its first event is on
// disk.
func (p *Project) HandOver(
	ctx context.Context, req Request, start func(context.Context) (*Access, error),
) (id string, pid int, err error) {
	if req.LedgerModel, err = modelsOf("--ledger-model", p.opts.LedgerModel); err != nil {
		return "", 0, err
	}
	req.LedgerModel = req.LedgerModel.Or(p.cfg.Models.Fallback)
	if req.Base == "" && req.Resume == "" { // else the server takes its own base, which may be outdated
		work, err := workspace.Open(ctx, p.dir, p.blockersFiles()...)
		if err == nil {
			req.Base, err = work.Head(ctx)
		}
		if err != nil {
			return "", 0, err
		}
	}
	there, err := p.Dial(ctx)
	switch {
	case errors.Is(err, control.ErrNotServed) && req.Engine != "":
		return "", 0, fmt.Errorf("nothing here hands boulders to %s: start `manager-%[1]s gateway`", req.Engine)
	case errors.Is(err, control.ErrNotServed):
		if there, err = start(ctx); err != nil {
			return "", 0, fmt.Errorf("start a server: %w", err)
		}
	case err != nil:
		return "", 0, err
	case there.Holder.Serves && p.OtherServer(there.Holder):
		return "", 0, usagef("process %d serves this project already, with %s: leave --attach out, or stop it with `manager serve --stop`",
			there.Holder.PID, there.Holder.OpenCode())
	}
	id, err = there.Submit(ctx, req)
	switch {
	case errors.Is(err, control.ErrNoSubmitter):
		err = fmt.Errorf("%w: %w: process %d, `%s`", store.ErrHeld, err, there.Holder.PID, there.Holder.Command)
	case errors.Is(err, boulder.ErrRunning) && req.Plan == nil: // a server resumes by itself what a crash left
		id, err = req.Resume, nil
	}
	return id, there.Holder.PID, err
}

// LockOwner describes the process that has locked a file, for messages, or returns "" if the kernel does not tell.
func LockOwner(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	inode := fmt.Sprintf(":%d", info.Sys().(*syscall.Stat_t).Ino)
	locks, _ := os.ReadFile("/proc/locks") // Linux only
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 4711 08:01:393273 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || !slices.Contains(f, "FLOCK") || !strings.HasSuffix(f[5], inode) || f[4] == "0" {
			continue
		}
		command, err := os.ReadFile("/proc/" + f[4] + "/cmdline")
		return ": process " + f[4] + text.If(err == nil, fmt.Sprintf(", `%s`", text.Clip(strings.ReplaceAll(string(command), "\x00", " "), 200)))
	}
	return ""
}
