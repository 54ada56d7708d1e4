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

// finding is the outcome of a check.
type finding string

const (
	fine   finding = "ok"
	notice finding = "note"   // works, but is worth knowing
	broken finding = "failed" // in the way of a run
)

// check is one line of `manager doctor`.
type check struct {
	Name    string  `json:"name"`
	Finding finding `json:"finding"`
	Detail  string  `json:"detail"`
	Do      string  `json:"do,omitempty"` // what to do about it
}

// doctorReport is what `manager doctor --json` prints.
type doctorReport struct {
	Type   string  `json:"type"` // doctor
	OK     bool    `json:"ok"`
	Checks []check `json:"checks"`
}

func (a *app) runDoctor(ctx context.Context) error {
	p, configErr := project.Open(a.dir, a.options())
	if p == nil {
		return configErr
	}
	d := &doctor{app: a, deps: &deps{Project: p, app: a, log: a.logger()}}
	d.checkConfig(configErr)
	d.checkGit(ctx)
	d.checkState()
	d.checkDatabase(ctx)
	d.checkOpenCode(ctx)
	d.checkKeys()
	d.checkLedger()
	d.checkPrices()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	report := doctorReport{Type: "doctor", OK: true, Checks: d.checks}
	report.OK = !slices.ContainsFunc(d.checks, func(c check) bool { return c.Finding == broken })
	var err error
	if a.json {
		err = a.printJSON(report)
	} else {
		a.printDoctor(report)
	}
	if err == nil && !report.OK {
		err = errSilent
	}
	return err
}

// doctor collects what it finds.
type doctor struct {
	app    *app
	deps   *deps
	checks []check
}

func (d *doctor) add(name string, f finding, do, format string, args ...any) {
	d.checks = append(d.checks, check{Name: name, Finding: f, Detail: fmt.Sprintf(format, args...), Do: do})
}

func (d *doctor) checkConfig(err error) {
	if err != nil {
		d.add("config", broken, "correct the file; the keys are described in docs/cli.md", "%v", err)
		return
	}
	var files []string
	for _, path := range d.deps.ConfigPaths() {
		if exists(path) {
			files = append(files, d.app.pretty(path))
		}
	}
	if len(files) == 0 {
		d.add("config", fine, "", "none, the defaults apply")
		return
	}
	d.add("config", fine, "", "read from %s", strings.Join(files, ", "))
}

func (d *doctor) checkGit(ctx context.Context) {
	w, err := workspace.Open(ctx, d.deps.Dir())
	if err != nil {
		d.add("git", broken, "", "%v", err)
		return
	}
	if w.Reason() != "" {
		d.add("git", notice, "nothing, if that is meant; with git, results are judged by what changed as well",
			"no diffs are available: %s", w.Reason())
		return
	}
	head, err := w.Head(ctx)
	switch {
	case err != nil:
		d.add("git", broken, "make `git status` work here", "%v", err)
	case head == "":
		d.add("git", fine, "", "repository %s, no commit yet", w.Root())
	default:
		d.add("git", fine, "", "repository %s at %s", w.Root(), project.Short(head))
	}
}

// checkState looks whether the state can be written, without leaving any.
func (d *doctor) checkState() {
	dir := filepath.Join(d.deps.Dir(), store.DirName)
	where := dir
	switch info, err := os.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		where = d.deps.Dir()
	case err == nil && !info.IsDir():
		d.add("state", broken, "move it away", "%s is a link or a file and not a directory", dir)
		return
	}
	f, err := os.CreateTemp(where, ".manager-doctor-*")
	if err != nil {
		d.add("state", broken, "make the directory writable, or work elsewhere with -C", "cannot write: %v", err)
		return
	}
	f.Close()
	if err := os.Remove(f.Name()); err != nil {
		d.add("state", broken, "make the directory writable, or work elsewhere with -C", "cannot write: %v", err)
		return
	}
	d.add("state", fine, "", "%s is writable", where)
}

func (d *doctor) checkDatabase(ctx context.Context) {
	r, closeReader, err := d.app.openReader(ctx)
	if errors.Is(err, store.ErrHeld) {
		d.add("database", broken, "wait a moment, or find that process and end it", "%v", err)
		return
	}
	if err != nil {
		d.add("database", broken, "", "%v", err)
		return
	}
	defer closeReader()
	boulders, err := r.Listing(ctx)
	for _, b := range boulders {
		if !b.Status.Terminal() {
			err = errors.Join(err, consistent(ctx, r, b.BoulderID))
		}
	}
	if err != nil {
		d.add("database", broken, "the other boulders are not affected; keep a copy of "+store.DirName+
			" and report this", "%v", err)
		return
	}
	held := ""
	if h := project.HolderOf(ctx, r); h != nil {
		held = fmt.Sprintf("; process %d is at work: %s", h.PID, h.Command)
	}
	d.add("database", fine, "", "%s%s", text.Plural(len(boulders), "boulder"), held)
}

// consistent reports records of a boulder that cannot be read, or that contradict each other.
func consistent(ctx context.Context, r reader, id string) error {
	detail, err := r.Get(ctx, id)
	if err != nil {
		return err
	}
	_, err = view.Restore(detail)
	return err
}

// checkOpenCode starts a server: that finds more than looking does.
func (d *doctor) checkOpenCode(ctx context.Context) {
	if err := d.deps.ConnectOpenCode(ctx); err != nil {
		d.add("opencode", broken, "", "%v", err)
		return
	}
	defer d.deps.Close()
	d.deps.Warm() // it boots while the version is asked for
	version, err := opencode.Version(ctx, d.deps.Binary())
	if err == nil {
		err = opencode.CheckVersion(version)
	}
	if err != nil {
		d.add("opencode", broken, "then `manager doctor` again; --opencode PATH names another one", "%v", err)
		return
	}
	client, err := d.deps.Client(ctx)
	if err != nil {
		d.add("opencode", broken, "run `opencode serve` by hand to see what is wrong", "%v", err)
		return
	}
	tested := ""
	if version != opencode.TestedVersion {
		tested = "; tested with " + opencode.TestedVersion
	}
	d.add("opencode", fine, "", "version %s (%s)%s", version, d.deps.Binary(), tested)
	d.checkModels(ctx, client.In(d.deps.Dir()))
}

// hosted is OpenCode's own provider. With nothing else connected and no model configured, OpenCode 1.18.33 uses a free
// model there (opencode/big-pickle) without saying so, and the project's code goes to it.
const hosted = "opencode"

func (d *doctor) checkModels(ctx context.Context, dir *opencode.Directory) {
	login := "log in with `opencode auth login`, or choose with --model PROVIDER/MODEL"
	catalogue, err := dir.Catalogue(ctx)
	if err != nil {
		d.add("models", broken, "", "%v", err)
		return
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
	chosen, from, err := d.model(ctx, dir)
	switch {
	case err != nil:
		d.add("models", broken, "write it as PROVIDER/MODEL", "%v", err)
	case models == 0:
		d.add("models", broken, login, "OpenCode has no model")
	case chosen == "" && !own:
		d.add("models", notice, login, "%s; no provider of yours is connected, so OpenCode would send your project "+
			"to its own hosted free model", offer)
	case chosen == "":
		d.add("models", fine, "", "%s; OpenCode chooses for sub-tasks that name none", offer)
	default:
		d.checkModel(catalogue, chosen, from, offer)
	}
}

func (d *doctor) checkModel(catalogue opencode.Catalogue, chosen, from, offer string) {
	ref, err := providers.ParseModel(chosen)
	if err != nil {
		d.add("models", broken, "write it as PROVIDER/MODEL", "%s: %v", from, err)
		return
	}
	if _, ok := catalogue.Model(opencode.ModelRef{ProviderID: ref.Provider, ModelID: ref.Model}); !ok {
		d.add("models", broken, "choose another; "+project.Offered(catalogue, ref.Provider),
			"%s names %s, which OpenCode does not offer", from, chosen)
		return
	}
	d.add("models", fine, "", "%s; sub-tasks use %s (%s)", offer, chosen, from)
}

// model is what sub-tasks use that name none, and who says so.
func (d *doctor) model(ctx context.Context, dir *opencode.Directory) (model, from string, err error) {
	if model, err = d.deps.Model(); err != nil || model != "" {
		return model, "--model or the configuration", err
	}
	ref, err := dir.DefaultModel(ctx)
	if err != nil || ref.ModelID == "" {
		return "", "", err
	}
	return ref.ProviderID + "/" + ref.ModelID, "OpenCode's configuration", nil
}

// checkKeys says for each provider whether its key is set. Without any the ledgers go through OpenCode.
func (d *doctor) checkKeys() {
	sources, err := d.deps.Sources()
	if err != nil {
		d.add("keys", broken, "correct the endpoints in the configuration", "%v", err)
		return
	}
	var all []string
	for _, s := range sources {
		all = append(all, s.Name+": "+d.keysOf(s))
	}
	d.add("keys", fine, "", "%s", strings.Join(all, "\n"))
}

// keysOf names the variables that may hold a provider's key, with whether they do.
func (d *doctor) keysOf(s providers.Source) string {
	if len(s.KeyEnv) == 0 {
		return "needs none"
	}
	if name := d.keyOf(s); name != "" {
		return name + " set"
	}
	return strings.Join(s.KeyEnv, " and ") + " not set"
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

// checkLedger says which model plans and judges, and how it is reached.
func (d *doctor) checkLedger() {
	if err := d.deps.OpenLedger(); err != nil {
		d.add("ledgers", broken, "set the key of its provider, or choose another with --ledger-model", "%v", err)
		return
	}
	how := "through OpenCode"
	if source, ok := d.direct(); ok {
		how = view.JoinedBy(" with ", "directly", d.keyOf(source))
	}
	d.add("ledgers", fine, "", "%s plans and judges, asked %s", view.ModelName(d.deps.Ledger()), how)
}

// direct is the provider of the ledgers, if it is asked directly.
func (d *doctor) direct() (providers.Source, bool) {
	ref, err := providers.ParseModel(d.deps.Ledger())
	if err != nil || !d.deps.LedgerIsDirect() {
		return providers.Source{}, false
	}
	sources, err := d.deps.Sources()
	i := slices.IndexFunc(sources, func(s providers.Source) bool { return s.Name == ref.Provider })
	if err != nil || i < 0 {
		return providers.Source{}, false
	}
	return sources[i], true
}

// checkPrices says whether it will be known what the ledgers cost: providers that are asked directly do not tell.
func (d *doctor) checkPrices() {
	prices := d.deps.Config().Prices
	s := "none configured"
	if n := len(prices); n > 0 {
		s = text.Plural(n, "price") + " configured"
	}
	source, direct := d.direct()
	if !direct {
		d.add("prices", fine, "", "%s; OpenCode tells what its models cost, where it knows", s)
		return
	}
	ref, err := providers.ParseModel(d.deps.Ledger())
	if _, known := prices.Cost(ref, providers.Usage{Input: 1, Output: 1}); err == nil && known {
		d.add("prices", fine, "", "%s, that of %s among them", s, ref)
		return
	}
	do := fmt.Sprintf("add it to prices in the configuration: {model: %q, input: …, output: …}", d.deps.Ledger())
	s += fmt.Sprintf("; %s does not tell what %s costs, so that counts as unknown", source.Name, d.deps.Ledger())
	if d.deps.Config().RunBudget.Cost > 0 {
		d.add("prices", broken, do+", or limit tokens instead", "%s, and a budget of cost cannot be kept", s)
		return
	}
	d.add("prices", notice, do, "%s", s)
}

func (a *app) printDoctor(report doctorReport) {
	p := a.on(a.Stdout)
	marks := map[finding]string{fine: p.Green("✓"), notice: p.Yellow("!"), broken: p.Red("✗")}
	for _, c := range report.Checks {
		fmt.Fprintf(a.Stdout, "%s %s  %s\n", marks[c.Finding], p.Bold(text.Fit(c.Name, widthCheck)),
			strings.TrimSpace(text.Indent(text.Safe(c.Detail), strings.Repeat(" ", widthCheck+4))))
		if c.Do != "" {
			fmt.Fprintf(a.Stdout, "%s→ %s\n", strings.Repeat(" ", widthCheck+4), text.OneLine(c.Do))
		}
	}
	if !report.OK {
		fmt.Fprintln(a.Stdout, "\nSomething is in the way of a run; see the lines with "+p.Red("✗")+".")
	}
}

const widthCheck = 8 // database, opencode
