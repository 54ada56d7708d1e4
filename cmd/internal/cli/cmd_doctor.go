package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/workspace"
)

func (a *app) newDoctorCmd() *cobra.Command {
	var tryContract, tonight, probe bool
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check the installation, and say what to do",
		Long: `Checks the configuration, git, the state in the project, OpenCode and its models, the keys of all providers, the
model that plans and judges, and whether its price is known. It starts an OpenCode server for a moment, asks no model
anything but with --probe, and prints names of keys, never their values. Exit code 1 if something is in the way of a run.

With --contract it tries on your OpenCode what manager needs of it, and prints a result to paste into an issue; exit
code 1 if something does not hold. It usually takes less than two minutes, at most one for each case, and no key: a
scripted model answers on this machine, in a temporary directory. An OpenCode that is started for it has data of its
own, and touches neither your sessions nor your configuration; on a running one, named with --attach, the sessions that
were made are deleted afterwards.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case tryContract:
				return a.runContract(cmd.Context())
			case a.opts.Attach != "":
				return usagef("--attach needs --contract")
			case probe && !tonight:
				return usagef("--probe needs --night")
			}
			return a.runDoctor(cmd.Context(), tonight, probe)
		},
	}
	cmd.Flags().BoolVar(&tonight, "night", false, "also look for what would stop the plan of this project while nobody is there")
	cmd.Flags().BoolVar(&probe, "probe", false, "with --night: ask each model of the plan and of the ledgers one cheap question")
	cmd.Flags().BoolVar(&tryContract, "contract", false, "try what manager needs of OpenCode")
	cmd.MarkFlagsMutuallyExclusive("night", "contract")
	a.shared(cmd, "attach")
	return cmd
}

func (a *app) runDoctor(ctx context.Context, tonight, probe bool) error {
	d := &doctor{app: a}
	report := d.look(ctx)
	if tonight && a.openErr == nil {
		n := &night{app: a, tries: true}
		if exists(a.project.PlanPath()) {
			n.plan, _ = a.project.ReadPlan(a.project.PlanPath()) // the check of the plan says what is wrong with it
		}
		planned := func(ctx context.Context) (string, string, error) { return d.planned(ctx, n) }
		checks := []namedCheck{{"plan", planned}, {"gates", n.gates}}
		if d.dir != nil {
			checks = append(checks, namedCheck{"rights", n.rights})
			if probe {
				probed := func(ctx context.Context) (string, string, error) { return n.probe(ctx, d.chosen) }
				checks = append(checks, namedCheck{"probe", probed})
			}
		}
		state, choices := n.checks()
		report.Add(look(ctx, slices.Concat(checks, state, choices)))
	}
	return a.checked(ctx, report, report.OK)
}

// checked shows a report unless it was interrupted, and returns errSilent if it is not ok.
func (a *app) checked(ctx context.Context, report view.Report, ok bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := a.show(report); err != nil || ok {
		return err
	}
	return errSilent
}

// doctor holds what checks have found for later checks.
type doctor struct {
	*app
	dir  *opencode.Directory // nil: OpenCode does not run
	key  map[string]string   // by provider: the variable that holds its key
	kept []string            // boulders with slots or refs

	chosen boulder.Models // of sub-tasks that name none; empty: OpenCode chooses
}

// namedCheck looks at one thing. An error means that a run would fail, unless it is [nothing]; do without an error, that
// something is worth knowing; neither detail nor do, that the check does not apply.
type namedCheck struct {
	name string
	look func(context.Context) (detail, do string, err error)
}

// nothing is the outcome of a check that found nothing to check, or cannot know. It is no failure, and no success.
type nothing string

func (n nothing) Error() string { return string(n) }

func (d *doctor) look(ctx context.Context) *view.Doctor {
	report := &view.Doctor{Type: "doctor", OK: true}
	report.Add(look(ctx, []namedCheck{
		{"config", d.config}, {"environ", d.environment}, {"git", d.git}, {"copies", d.copies}, {"state", d.state}, {"database", d.database}, {"opencode", d.openCode},
		{"data", d.data}, {"todos", d.todos}, {"diagnostics", d.diagnostics}, {"toasts", d.toasts},
		{"models", d.models}, {"keys", d.keys}, {"ledgers", d.ledgers}, {"limits", d.limits}, {"proxies", d.proxies}, {"prices", d.prices},
	}))
	return report
}

func look(ctx context.Context, checks []namedCheck) (found []view.Check) {
	for _, check := range checks {
		c := view.Check{Name: check.name, Finding: view.Fine}
		var err error
		c.Detail, c.Do, err = check.look(ctx)
		none, is := errors.AsType[nothing](err)
		switch {
		case is:
			c.Finding, c.Detail = view.None, string(none)
			if c.Detail == "" {
				continue
			}
		case err != nil:
			c.Finding, c.Detail = view.Broken, text.Error(err)
		case c.Do != "":
			c.Finding = view.Notice
		case c.Detail == "":
			continue
		}
		found = append(found, c)
	}
	return found
}

// planned checks the models and agents of the plan file.
func (d *doctor) planned(ctx context.Context, n *night) (detail, do string, err error) {
	path := d.project.PlanPath()
	switch {
	case !exists(path):
		return "", "", nothing("there is no " + d.pretty(path))
	case n.plan == nil:
		_, err := d.project.ReadPlan(path)
		return "", "correct it, or make another one", err
	case d.dir == nil:
		return "", "", nothing(text.Plural(len(n.plan.SubTasks), "sub-task") + "; without OpenCode their models are not known")
	}
	if _, err := d.project.CheckModels(ctx, n.plan); err != nil {
		return "", "name others in the plan", err
	}
	return fmt.Sprintf("%s: %s, whose models OpenCode has", d.pretty(path), text.Plural(len(n.plan.SubTasks), "sub-task")), "", nil
}

func (d *doctor) config(context.Context) (detail, do string, err error) {
	if d.openErr != nil {
		return "", "correct the file; the keys are described in docs/cli.md", d.openErr
	}
	var files []string
	for _, path := range d.project.ConfigPaths() {
		if exists(path) {
			files = append(files, d.pretty(path))
		}
	}
	detail = cmp.Or(text.Prefixed("read from ", strings.Join(files, ", ")), "none, the defaults apply")
	for _, path := range d.project.Config().Foreign {
		detail += "; " + d.pretty(path) + " is another program's"
	}
	if u := d.project.Config().Untrusted; u != nil {
		var keys []string
		for _, e := range u.Ignored {
			keys = append(keys, e.Key)
		}
		return detail + "; " + d.pretty(u.Path) + " is not trusted, so these keys of it do not count: " + strings.Join(keys, ", "),
			"read it, then `manager trust`", nil
	}
	return detail, "", nil
}

// environment lists the variables that OpenCode and commands get, if the configuration limits them.
func (d *doctor) environment(context.Context) (detail, do string, err error) {
	if d.project.Config().Environment == nil {
		return "", "", nil
	}
	var names []string
	for _, entry := range d.project.AgentEnv() {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	detail = fmt.Sprintf("OpenCode, gates and commands get %d of %d variables: %s", len(names), len(d.app.Environ), strings.Join(names, ", "))
	for _, needed := range []string{"PATH", "HOME"} {
		if !slices.Contains(names, needed) {
			do = "add " + needed + " to environment: without it they hardly work"
		}
	}
	return detail, do, nil
}

func (d *doctor) git(ctx context.Context) (detail, do string, err error) {
	w, err := workspace.Open(ctx, d.project.Dir())
	switch {
	case err != nil:
		return "", "", err
	case w.Reason() != "":
		return "no diffs are available: " + w.Reason(),
			"nothing, if that is meant; with git, results are judged by what changed as well", nil
	}
	head, err := w.Head(ctx)
	switch {
	case err != nil:
		return "", "make `git status` work here", err
	case head == "":
		return fmt.Sprintf("repository %s; sub-tasks work in your files, not in copies: there is no commit yet", w.Root()), "", nil
	}
	if err = d.project.OpenWorkspace(ctx); err == nil {
		d.kept, err = d.project.Slots().Kept(ctx)
	}
	if err != nil {
		return "", "make `git status` work here", err
	}
	detail, do, err = d.slots(ctx)
	detail = fmt.Sprintf("repository %s at %s; %s", w.Root(), project.Short(head), detail)
	if aside := d.project.Slots().KeptAside(); len(aside) > 0 {
		detail += "; kept, since git cannot store some of their files: " + text.OneLine(strings.Join(aside, ", "))
		do = "take what you need from them, then remove them: nothing else does"
	}
	gone, goneErr := d.project.AbandonedSlots(ctx)
	err = cmp.Or(err, goneErr)
	if len(gone) > 0 {
		dirs := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(gone))...)))
		detail += "; slots of projects that are not there any more: " + text.OneLine(strings.Join(dirs, ", "))
		do = cmp.Or(do, "remove them with `manager gc --abandoned`, unless such a project was only moved")
	}
	return detail, do, err
}

// slots says whether and where slots can be made.
func (d *doctor) slots(ctx context.Context) (detail, do string, err error) {
	why, err := d.project.Slots().Unsupported(ctx)
	switch {
	case err != nil:
		return "", "make `git status` work here", err
	case why != "":
		return "sub-tasks work in your files, not in copies: " + why, "", nil
	}
	const elsewhere = "name another directory outside of the project with slots.dir in the configuration"
	at, err := d.project.SlotHome(ctx)
	switch {
	case err == nil:
		detail = "slots for isolated runs are made in " + at
		if n, bytes := d.project.Pooled(); n > 0 {
			detail += "; for the next run there " + text.If(n == 1, "is 1") + text.If(n > 1, "are "+strconv.Itoa(n)) + ", with " + text.Bytes(bytes)
		}
		return detail, "", nil
	case d.project.Config().Slots.Dir != "":
		return "", elsewhere, fmt.Errorf("no slots can be made for isolated runs: %w", err)
	}
	return fmt.Sprintf("slots for isolated runs are made in %s, where test runners and watchers may find them: %v", store.DirName+"/slots", err), elsewhere, nil
}

// copies names ignored files that copies of the project lack and could have.
func (d *doctor) copies(ctx context.Context) (detail, do string, err error) {
	lacks, add, err := d.project.CopiesLack(ctx)
	if err != nil { // git says what is wrong with it
		return "", "", nil //nolint:nilerr // see above
	}
	unmade := d.project.Unmade(lacks)
	if add == "" && len(unmade) == 0 {
		return "", "", nil
	}
	return "copies of the project lack ignored files: " + text.First(10, lacks), text.JoinedBy("; ",
		text.Prefixed("add to the configuration what brings those that commands may need: ", add),
		text.Prefixed("no command is known that makes ", text.First(3, unmade))+
			text.If(len(unmade) > 0, ": if commands need it, name one in slots.setup"),
		text.If(add != "", "doctor --night tries it with the gates")), nil
}

// state checks that the state can be written, without leaving anything behind.
func (d *doctor) state(context.Context) (detail, do string, err error) {
	where := filepath.Join(d.project.Dir(), store.DirName)
	switch info, err := os.Lstat(where); {
	case errors.Is(err, fs.ErrNotExist):
		where = d.project.Dir()
	case err == nil && !info.IsDir():
		return "", "move it away", fmt.Errorf("%s is a link or a file and not a directory", where)
	}
	if err := statedir.Writable(where); err != nil {
		return "", "make the directory writable, or work elsewhere with -C", fmt.Errorf("cannot write: %w", err)
	}
	return where + " is writable", "", nil
}

func (d *doctor) database(ctx context.Context) (detail, do string, err error) {
	there, err := d.project.Read(ctx)
	switch {
	case errors.Is(err, store.ErrHeld):
		return "", "wait a moment, or find that process and end it", err
	case err != nil:
		return "", "", err
	}
	defer there.Close()
	boulders, err := there.Listing(ctx)
	var over, missed []string
	for _, b := range boulders {
		if b.Status.Terminal() {
			if slices.Contains(d.kept, b.BoulderID) {
				over = append(over, boulder.ShortID(b.BoulderID))
			}
			continue
		}
		if view.MissedStart(&b, there.Holder, time.Now()) {
			missed = append(missed, fmt.Sprintf("%s was to start at %s", boulder.ShortID(b.BoulderID), text.Stamp(b.StartAt)))
		}
		found, readErr := there.Get(ctx, b.BoulderID)
		if readErr == nil {
			_, readErr = boulder.Restore(found)
		}
		err = errors.Join(err, readErr)
	}
	detail = text.Plural(len(boulders), "boulder")
	if h := there.Holder; h != nil {
		detail += fmt.Sprintf("; process %d is at work: %s", h.PID, h.Command)
	}
	if len(over) > 0 {
		detail += text.Prefixed("; over, with results or slots: ", strings.Join(over, ", "))
		do = "take the results with `manager land ID`, or drop them with `manager land ID --drop`; that frees the slots"
	}
	if len(missed) > 0 {
		detail += "; no process was there: " + strings.Join(missed, ", ")
		do = text.JoinedBy("; ", "`manager resume ID` starts what was to start", do)
	}
	if err != nil {
		return detail, "the other boulders are not affected; keep a copy of " + store.DirName + " and report this", err
	}
	_, err = d.project.Blockers().List(ctx, blockers.Filter{})
	return detail, do, err
}

// openCode starts a server, which finds more problems than a look at the binary.
func (d *doctor) openCode(ctx context.Context) (detail, do string, err error) {
	if err := d.project.ConnectOpenCode(ctx); err != nil {
		return "", "", err
	}
	d.project.Warm() // boots in parallel with the version check
	const again = "afterwards run `manager doctor` again; --opencode PATH names another OpenCode"
	version, err := opencode.Version(ctx, d.project.Binary())
	if err == nil {
		err = opencode.CheckVersion(version)
	}
	if err != nil {
		return "", again, err
	}
	client, err := d.project.Client(ctx)
	switch {
	case errors.As(err, new(*opencode.VersionError)):
		return "", again, err
	case err != nil:
		return "", "run `opencode serve` by hand to see what is wrong", err
	}
	d.dir = client.In(d.project.Dir())
	detail = fmt.Sprintf("version %s (%s)", version, d.project.Binary())
	switch {
	case d.caps().Generation == 2:
		detail += "; no release of OpenCode 2 was tried, the newest that is described is " + opencode.DescribedVersion
	case version != opencode.TestedVersion:
		detail += "; tested with " + opencode.TestedVersion
	}
	if limit := d.project.Config().OpenCodeMemory; limit > 0 {
		detail += fmt.Sprintf("; replaced between turns when it uses more than %d MB", limit/1e6)
		if runtime.GOOS != "linux" {
			do = "opencode_memory has no effect here: what a process uses is known on Linux only"
		}
	}
	return detail, do, nil
}

// caps returns the capabilities of OpenCode, or zero if it does not run.
func (d *doctor) caps() (c opencode.Caps) {
	if d.dir != nil {
		c = d.dir.Client().Caps()
	}
	return c
}

// data says which database holds the sessions of runs. It and the checks below apply only if OpenCode runs.
func (d *doctor) data(context.Context) (detail, do string, err error) {
	switch own := d.Getenv("OPENCODE_DB"); {
	case d.caps().Generation < 2:
		return "", "", nil
	case own != "":
		return "sessions are in a database of their own (OPENCODE_DB=" + own + "), without the logins of your OpenCode 2", "", nil
	}
	return "sessions are in the database that your OpenCode 2 uses as well, with its logins; OPENCODE_DB names another", "", nil
}

func (d *doctor) todos(context.Context) (detail, do string, err error) {
	if d.dir == nil || d.caps().Todos {
		return "", "", nil
	}
	return "this OpenCode has no todo list", "nothing: agents get manager's own, for done_when: todos, loop and watch", nil
}

func (d *doctor) diagnostics(context.Context) (detail, do string, err error) {
	if d.dir == nil {
		return "", "", nil
	}
	detail, do, _ = strings.Cut(executor.NoDiagnostics(d.caps(), nil), "; ")
	if lint := d.project.Criteria(nil).Checks.Lint; detail != "" && len(lint) > 0 {
		return detail + "; done_when: diagnostics runs " + strings.Join(lint, ", "), "", nil
	}
	return detail, do, nil
}

func (d *doctor) toasts(context.Context) (detail, do string, err error) {
	if d.dir == nil || d.caps().Toasts {
		return "", "", nil
	}
	return "this OpenCode shows no toasts", "look at the terminal of `manager watch` for its countdowns", nil
}

func (d *doctor) models(ctx context.Context) (detail, do string, err error) {
	const login = "log in with `opencode auth login`, or choose with --model PROVIDER/MODEL"
	if d.dir == nil {
		return "", "", nil
	}
	catalogue, err := d.dir.Catalogue(ctx)
	if err != nil {
		return "", "", err
	}
	names, models := catalogue.Providers(), len(catalogue.Models)
	detail = fmt.Sprintf("%s of %s", text.Plural(models, "model"), strings.Join(names, ", "))
	if len(catalogue.Missing) > 0 {
		detail += "; none of " + strings.Join(catalogue.Missing, ", ") + ", which the configuration defines"
	}
	// The model of sub-tasks that name none.
	chosen, err := d.project.CheckModels(ctx, &boulder.Plan{SubTasks: make([]boulder.Spec, 1)})
	d.chosen = chosen
	switch {
	case models == 0:
		return "", login, errors.New("OpenCode has no model")
	case err != nil:
		return "", "choose another one, as PROVIDER/MODEL", err
	case chosen == "" && project.OnlyHosted(catalogue):
		return detail + "; " + project.Hosted, login, nil
	case chosen == "":
		return detail + "; OpenCode chooses for sub-tasks that name none", "", nil
	}
	from := "--model or the configuration"
	if named, _ := d.project.Model(); named == "" {
		from = "OpenCode's configuration"
	}
	return fmt.Sprintf("%s; sub-tasks use %s (%s)", detail, chosen, from), "", nil
}

// keys says for each provider whether its key is set. Without keys the ledgers go through OpenCode.
func (d *doctor) keys(context.Context) (detail, do string, err error) {
	d.key = map[string]string{}
	var all []string
	for _, s := range d.project.Sources() {
		said := cmp.Or(text.If(len(s.KeyEnv) > 0, strings.Join(s.KeyEnv, " and ")+" not set"), "needs none")
		for _, name := range slices.Backward(s.KeyEnv) { // the first set variable wins
			if !providers.NewKey(d.Getenv(name)).IsZero() {
				d.key[s.Name], said = name, name+" set"
			}
		}
		all = append(all, s.Name+": "+said)
	}
	if len(d.key) == 0 {
		return "", "", nothing(strings.Join(all, "\n"))
	}
	return strings.Join(all, "\n"), "", nil
}

// ledgers says which model plans and judges, and how it is reached.
func (d *doctor) ledgers(context.Context) (detail, do string, err error) {
	if err := d.project.OpenLedger(); err != nil {
		return "", "set the key of its provider, or choose another with --ledger-model", err
	}
	how := "through OpenCode"
	if d.project.LedgerIsDirect() {
		provider, _, _ := strings.Cut(d.project.Ledger(), "/")
		how = text.JoinedBy(" with ", "directly", d.key[provider])
	}
	return fmt.Sprintf("%s plans and judges, asked %s", view.ModelName(d.project.Ledger()), how), "", nil
}

// limits says where the models in use stand with their providers, as far as the boulders here know it.
func (d *doctor) limits(ctx context.Context) (detail, do string, err error) {
	if d.chosen == "" {
		d.chosen, _ = d.project.Model() // what is wrong with it was said above
	}
	now := time.Now()
	uses, _ := d.project.ModelUses(ctx, d.chosen, now) // what cannot be read was said above
	var lines []string
	for _, u := range uses {
		lines = append(lines, view.ModelUseText(u, now))
		if c := u.Cooldown; c != nil && (now.Before(c.Until) || !c.Awaited()) && len(u.Instead) == 0 && len(u.Fallback) == 0 {
			do = "name another one behind it, as in model: [this, that]" + text.If(!c.Reset.IsZero(), "; or begin later: manager run --detach --at reset")
		}
	}
	if !slices.ContainsFunc(uses, func(u orchestrator.ModelUse) bool { return u.Cooldown != nil }) {
		return "", "", nothing(strings.Join(lines, "\n"))
	}
	return strings.Join(lines, "\n"), do, nil
}

// proxies says which providers in the local network are asked through a proxy.
func (d *doctor) proxies(ctx context.Context) (detail, do string, err error) {
	all := d.project.LedgerProxied()
	if d.dir != nil {
		catalogue, err := d.dir.Catalogue(ctx)
		if err != nil {
			return "", "", err
		}
		all = append(all, d.project.Proxied(catalogue, slices.Collect(maps.Keys(catalogue.Addresses)))...)
	}
	if len(all) > 0 {
		do = "see NO_PROXY in docs/cli.md"
	}
	return strings.Join(all, "\n"), do, nil
}

// prices says whether the cost of the ledgers will be known, which providers that are called directly do not report.
func (d *doctor) prices(context.Context) (detail, do string, err error) {
	prices := d.project.Config().Prices
	detail = cmp.Or(text.If(len(prices) > 0, text.Plural(len(prices), "price")), "none") + " configured"
	if !d.project.LedgerIsDirect() {
		detail += "; OpenCode tells what its models cost, where it knows"
		if len(prices) == 0 {
			return "", "", nothing(detail)
		}
		return detail, "", nil
	}
	ref, err := providers.ParseModel(d.project.Ledger())
	if _, known := prices.Cost(ref, boulder.Usage{Input: 1, Output: 1}); err == nil && known {
		return fmt.Sprintf("%s, that of %s among them", detail, ref), "", nil
	}
	detail += fmt.Sprintf("; %s does not tell what %s costs, so that counts as unknown", ref.Provider, d.project.Ledger())
	do = fmt.Sprintf("add it to prices in the configuration: {model: %q, input: …, output: …}", d.project.Ledger())
	if b := d.project.Config().Budget; b != nil && b.Cost > 0 {
		return "", do + ", or limit tokens instead", errors.New(detail + ", and a budget of cost cannot be kept")
	}
	return detail, do, nil
}
