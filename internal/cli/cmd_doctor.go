package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/project"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/workspace"
)

func (a *app) newDoctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check the installation, and say what to do",
		Long: `Checks the configuration, git, the state in the project, OpenCode and its models, the keys of all
providers, the model that plans and judges, and whether its price is known. It starts an OpenCode server for a
moment, asks no model anything, and prints names of keys, never their values. Exit code 1 if something is in the way
of a run.`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.runDoctor(cmd.Context()) },
	}
}

func (a *app) runDoctor(ctx context.Context) error {
	p, configErr := project.Open(a.dir, a.options())
	if p == nil {
		return configErr
	}
	d := &doctor{Project: p, app: a}
	report := &view.Doctor{Type: "doctor", OK: true, Checks: []view.Check{
		d.config(configErr), d.git(ctx), d.state(), d.database(ctx),
	}}
	report.Checks = append(report.Checks, d.openCode(ctx)...)
	report.Checks = append(report.Checks, d.keys(), d.ledgers(), d.prices())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, c := range report.Checks {
		report.OK = report.OK && c.Finding != view.Broken
	}
	if err := show(a, report, nil); err != nil || report.OK {
		return err
	}
	return errSilent
}

// doctor is what the checks look at.
type doctor struct {
	*project.Project
	app *app
}

func fine(name, format string, args ...any) view.Check {
	return view.Check{Name: name, Finding: view.Fine, Detail: fmt.Sprintf(format, args...)}
}

func notice(name, do, format string, args ...any) view.Check {
	return view.Check{Name: name, Finding: view.Notice, Detail: fmt.Sprintf(format, args...), Do: do}
}

// broken is about what is in the way of a run; do may be empty if the error says what to do.
func broken(name string, err error, do string) view.Check {
	return view.Check{Name: name, Finding: view.Broken, Detail: err.Error(), Do: do}
}

func (d *doctor) config(err error) view.Check {
	if err != nil {
		return broken("config", err, "correct the file; the keys are described in docs/cli.md")
	}
	var files []string
	for _, path := range d.ConfigPaths() {
		if exists(path) {
			files = append(files, d.app.pretty(path))
		}
	}
	if len(files) == 0 {
		return fine("config", "none, the defaults apply")
	}
	return fine("config", "read from %s", strings.Join(files, ", "))
}

func (d *doctor) git(ctx context.Context) view.Check {
	w, err := workspace.Open(ctx, d.Dir())
	if err != nil {
		return broken("git", err, "")
	}
	if w.Reason() != "" {
		return notice("git", "nothing, if that is meant; with git, results are judged by what changed as well",
			"no diffs are available: %s", w.Reason())
	}
	head, err := w.Head(ctx)
	switch {
	case err != nil:
		return broken("git", err, "make `git status` work here")
	case head == "":
		return fine("git", "repository %s, no commit yet", w.Root())
	}
	return fine("git", "repository %s at %s", w.Root(), project.Short(head))
}

// state looks whether the state can be written, without leaving any.
func (d *doctor) state() view.Check {
	where := filepath.Join(d.Dir(), store.DirName)
	switch info, err := os.Lstat(where); {
	case errors.Is(err, fs.ErrNotExist):
		where = d.Dir()
	case err == nil && !info.IsDir():
		return broken("state", fmt.Errorf("%s is a link or a file and not a directory", where), "move it away")
	}
	f, err := os.CreateTemp(where, ".manager-doctor-*")
	if err == nil {
		f.Close()
		err = os.Remove(f.Name())
	}
	if err != nil {
		return broken("state", fmt.Errorf("cannot write: %w", err), "make the directory writable, or work elsewhere with -C")
	}
	return fine("state", "%s is writable", where)
}

func (d *doctor) database(ctx context.Context) view.Check {
	r, closeReader, err := d.app.openReader(ctx)
	switch {
	case errors.Is(err, store.ErrHeld):
		return broken("database", err, "wait a moment, or find that process and end it")
	case err != nil:
		return broken("database", err, "")
	}
	defer closeReader()
	boulders, err := r.Listing(ctx)
	for _, b := range boulders {
		if b.Status.Terminal() {
			continue
		}
		detail, readErr := r.Get(ctx, b.BoulderID)
		if readErr == nil {
			_, readErr = view.Restore(detail)
		}
		err = errors.Join(err, readErr)
	}
	if err != nil {
		return broken("database", err, "the other boulders are not affected; keep a copy of "+store.DirName+" and report this")
	}
	held := ""
	if h := control.HolderOf(ctx, r); h != nil {
		held = fmt.Sprintf("; process %d is at work: %s", h.PID, h.Command)
	}
	return fine("database", "%s%s", text.Plural(len(boulders), "boulder"), held)
}

// openCode starts a server: that finds more than looking does.
func (d *doctor) openCode(ctx context.Context) []view.Check {
	if err := d.ConnectOpenCode(ctx); err != nil {
		return []view.Check{broken("opencode", err, "")}
	}
	defer d.Close()
	d.Warm() // it boots while the version is asked for
	version, err := opencode.Version(ctx, d.Binary())
	if err == nil {
		err = opencode.CheckVersion(version)
	}
	if err != nil {
		return []view.Check{broken("opencode", err, "then `manager doctor` again; --opencode PATH names another one")}
	}
	client, err := d.Client(ctx)
	if err != nil {
		return []view.Check{broken("opencode", err, "run `opencode serve` by hand to see what is wrong")}
	}
	tested := ""
	if version != opencode.TestedVersion {
		tested = "; tested with " + opencode.TestedVersion
	}
	return []view.Check{
		fine("opencode", "version %s (%s)%s", version, d.Binary(), tested), d.models(ctx, client.In(d.Dir())),
	}
}

// hosted is OpenCode's own provider. With nothing else connected and no model configured, OpenCode 1.18.33 uses a free
// model there (opencode/big-pickle) without saying so, and the project's code goes to it.
const hosted = "opencode"

func (d *doctor) models(ctx context.Context, dir *opencode.Directory) view.Check {
	const spelling, login = "write it as PROVIDER/MODEL", "log in with `opencode auth login`, or choose with --model PROVIDER/MODEL"
	catalogue, err := dir.Catalogue(ctx)
	if err != nil {
		return broken("models", err, "")
	}
	var names []string
	models, own := 0, false
	for _, p := range catalogue.Providers {
		names = append(names, p.ID)
		models += len(p.Models)
		own = own || p.ID != hosted
	}
	slices.Sort(names)
	offer := fmt.Sprintf("%s of %s", text.Plural(models, "model"), strings.Join(names, ", "))
	// What sub-tasks use that name none, and who says so.
	chosen, err := d.Model()
	from := "--model or the configuration"
	if err == nil && chosen == "" {
		if ref, defaultErr := dir.DefaultModel(ctx); defaultErr != nil {
			err = defaultErr
		} else if ref.ModelID != "" {
			chosen, from = ref.ProviderID+"/"+ref.ModelID, "OpenCode's configuration"
		}
	}
	switch {
	case err != nil:
		return broken("models", err, spelling)
	case models == 0:
		return broken("models", errors.New("OpenCode has no model"), login)
	case chosen == "" && !own:
		return notice("models", login, "%s; no provider of yours is connected, so OpenCode would send your project "+
			"to its own hosted free model", offer)
	case chosen == "":
		return fine("models", "%s; OpenCode chooses for sub-tasks that name none", offer)
	}
	ref, err := providers.ParseModel(chosen)
	if err != nil {
		return broken("models", fmt.Errorf("%s: %w", from, err), spelling)
	}
	if !catalogue.Has(opencode.ModelRef{ProviderID: ref.Provider, ModelID: ref.Model}) {
		return broken("models", fmt.Errorf("%s names %s, which OpenCode does not offer", from, chosen),
			"choose another; "+project.Offered(catalogue, ref.Provider))
	}
	return fine("models", "%s; sub-tasks use %s (%s)", offer, chosen, from)
}

// keys says for each provider whether its key is set. Without any the ledgers go through OpenCode.
func (d *doctor) keys() view.Check {
	sources, err := d.Sources()
	if err != nil {
		return broken("keys", err, "correct the endpoints in the configuration")
	}
	var all []string
	for _, s := range sources {
		said := strings.Join(s.KeyEnv, " and ") + " not set"
		if name := d.keyOf(s); name != "" {
			said = name + " set"
		} else if len(s.KeyEnv) == 0 {
			said = "needs none"
		}
		all = append(all, s.Name+": "+said)
	}
	return fine("keys", "%s", strings.Join(all, "\n"))
}

// keyOf is the variable that a provider's key is taken from; empty if there is none.
func (d *doctor) keyOf(s providers.Source) string {
	for _, name := range s.KeyEnv {
		if !providers.NewKey(d.app.Getenv(name)).IsZero() {
			return name
		}
	}
	return ""
}

// ledgers says which model plans and judges, and how it is reached.
func (d *doctor) ledgers() view.Check {
	if err := d.OpenLedger(); err != nil {
		return broken("ledgers", err, "set the key of its provider, or choose another with --ledger-model")
	}
	how := "through OpenCode"
	if source, ok := d.direct(); ok {
		how = view.JoinedBy(" with ", "directly", d.keyOf(source))
	}
	return fine("ledgers", "%s plans and judges, asked %s", view.ModelName(d.Ledger()), how)
}

// direct is the provider of the ledgers, if it is asked directly.
func (d *doctor) direct() (providers.Source, bool) {
	ref, err := providers.ParseModel(d.Ledger())
	if err != nil || !d.LedgerIsDirect() {
		return providers.Source{}, false
	}
	sources, err := d.Sources()
	i := slices.IndexFunc(sources, func(s providers.Source) bool { return s.Name == ref.Provider })
	if err != nil || i < 0 {
		return providers.Source{}, false
	}
	return sources[i], true
}

// prices says whether it will be known what the ledgers cost: providers that are asked directly do not tell.
func (d *doctor) prices() view.Check {
	prices := d.Config().Prices
	s := "none configured"
	if n := len(prices); n > 0 {
		s = text.Plural(n, "price") + " configured"
	}
	source, direct := d.direct()
	if !direct {
		return fine("prices", "%s; OpenCode tells what its models cost, where it knows", s)
	}
	ref, err := providers.ParseModel(d.Ledger())
	if _, known := prices.Cost(ref, providers.Usage{Input: 1, Output: 1}); err == nil && known {
		return fine("prices", "%s, that of %s among them", s, ref)
	}
	do := fmt.Sprintf("add it to prices in the configuration: {model: %q, input: …, output: …}", d.Ledger())
	s += fmt.Sprintf("; %s does not tell what %s costs, so that counts as unknown", source.Name, d.Ledger())
	if d.Config().RunBudget.Cost > 0 {
		return broken("prices", errors.New(s+", and a budget of cost cannot be kept"), do+", or limit tokens instead")
	}
	return notice("prices", do, "%s", s)
}
