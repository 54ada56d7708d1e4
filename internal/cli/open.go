package cli

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

// deps is the project that a command works in, and what it shows of it.
type deps struct {
	*project.Project
	app  *app
	log  *slog.Logger
	view *view.Run // of the run; nil before it begins
}

// options are those of every project that the command line opens.
func (a *app) options() project.Options {
	return project.Options{
		Config: a.file(a.configFile), Model: a.model, LedgerModel: a.ledgerModel, OpenCode: a.opencodeBinary, Environ: a.Environ,
		Command: "manager " + strings.Join(a.Args, " "), Logger: a.logger(), Secrets: a.secrets,
		Note: func(text string) { a.note("%s", text) }, Warn: func(text string) { a.warn("%s", text) },
	}
}

// open opens the project for commands that start nothing, once. With an error there is a project as well if only its
// configuration is not in order.
func (a *app) open() (*project.Project, error) {
	if a.opened == nil {
		a.opened, a.openErr = project.Open(a.dir, a.options())
	}
	return a.opened, a.openErr
}

// openAnyway opens the project to look and to give orders: its configuration need not be in order for that.
func (a *app) openAnyway() (*project.Project, error) {
	p, err := a.open()
	if p != nil {
		err = nil
	}
	return p, err
}

// connect opens the project for commands that plan or run. The caller closes it.
func (a *app) connect(ctx context.Context, attach string, lockTimeout time.Duration) (*deps, error) {
	o := a.options()
	o.Attach, o.LockTimeout = attach, lockTimeout
	p, err := project.Open(a.dir, o)
	if err != nil {
		return nil, err
	}
	if !sameFile(cmp.Or(a.dir, "."), p.Dir()) {
		a.note("Working in the project above: %s", p.Dir())
	}
	if err := p.Connect(ctx); err != nil {
		p.Close()
		return nil, err
	}
	a.interrupts.onHurry(p.Kill)
	return &deps{Project: p, app: a, log: a.logger()}, nil
}

// openReader opens the project's state for reading.
func (a *app) openReader(ctx context.Context) (_ reader, closeReader func(), err error) {
	p, err := a.openAnyway()
	if err != nil {
		return nil, nil, err
	}
	return p.Read(ctx)
}

// project returns the absolute directory of the project.
func (a *app) project() (string, error) { return project.Find(a.dir) }

// exists reports whether a path can be looked at.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
