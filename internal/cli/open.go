package cli

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/bouldermgr/manager/project"
)

// options are those of every project that the command line opens.
func (a *app) options() project.Options {
	return project.Options{
		Config: a.file(a.configFile), Model: a.model, LedgerModel: a.ledgerModel, OpenCode: a.opencodeBinary, Environ: a.Environ,
		Attach: a.attach, LockTimeout: a.lockTimeout,
		Command: "manager " + strings.Join(a.Args, " "), Logger: a.logger(), Secrets: a.secrets,
		Note: func(text string) { a.note("%s", text) }, Warn: func(text string) { a.warn("%s", text) },
	}
}

// open opens the project, once. With an error there is a project as well if only its configuration is not in order.
func (a *app) open() (*project.Project, error) {
	if a.Project == nil {
		a.Project, a.openErr = project.Open(a.dir, a.options())
	}
	return a.Project, a.openErr
}

// openAnyway opens the project to look and to give orders: its configuration need not be in order for that.
func (a *app) openAnyway() (*project.Project, error) {
	p, err := a.open()
	if p != nil {
		err = nil
	}
	return p, err
}

// connect opens the project for commands that plan or run.
func (a *app) connect(ctx context.Context) error {
	p, err := a.open()
	if err != nil {
		return err
	}
	if !sameFile(cmp.Or(a.dir, "."), p.Dir()) {
		a.note("Working in the project above: %s", p.Dir())
	}
	a.interrupts.onHurry(p.Kill)
	return p.Connect(ctx)
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
