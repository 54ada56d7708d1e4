package cli

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/testkit/contract"
)

// runContract is `manager doctor --contract`. Without --json it prints each case at once.
func (a *app) runContract(ctx context.Context) error {
	cfg := contract.Config{Binary: a.project.Binary(), Environ: a.Environ}
	report := &contractReport{Type: "contract", OK: true, Server: a.project.Binary(), Cases: []contractCase{}}
	if a.opts.Attach != "" {
		if err := a.project.ConnectOpenCode(ctx); err != nil {
			return err
		}
		client, err := a.project.Client(ctx)
		if err != nil {
			return err
		}
		cfg.Attached, report.Server = client, "attached"
	}
	began := time.Now()
	suite, err := contract.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer suite.Close()
	report.OpenCode, report.Manager = suite.Caps().Version, newVersionInfo(debug.ReadBuildInfo())
	out := a.on(a.Stdout)
	if !a.json {
		out.Say(fmt.Sprintf("OpenCode %s (%s) on %s", report.OpenCode, report.Server, report.Manager.Platform))
		report.Manager.Print(out)
		if suite.Caps().Generation == 2 {
			out.Say("no upstream release of OpenCode 2 was tried")
		}
		out.Say()
	}
	for r := range suite.Run(ctx, contract.Cases) {
		c := report.add(r)
		if !a.json {
			c.Print(out)
		}
	}
	report.Seconds = time.Since(began).Seconds()
	return a.checked(ctx, report, report.OK)
}

// contractReport is the --json output of `manager doctor --contract`.
type contractReport struct {
	Type     string         `json:"type"` // contract
	OK       bool           `json:"ok"`
	OpenCode string         `json:"opencode"` // its version
	Server   string         `json:"server"`   // the binary, or "attached"
	Manager  *versionInfo   `json:"manager"`
	Seconds  float64        `json:"seconds"`
	Cases    []contractCase `json:"cases"`
}

type contractCase struct {
	Name    string       `json:"name"`
	Finding view.Finding `json:"finding"` // ok, failed or skipped
	Detail  string       `json:"detail,omitempty"`
	Seconds float64      `json:"seconds"`
}

func (r *contractReport) add(result contract.Result) contractCase {
	c := contractCase{Name: result.Name, Finding: view.Fine, Seconds: result.Took.Seconds()}
	switch {
	case result.Err != nil:
		c.Finding, c.Detail, r.OK = view.Broken, result.Err.Error(), false
	case result.Skipped != "":
		c.Finding, c.Detail = view.Skipped, result.Skipped
	}
	r.Cases = append(r.Cases, c)
	return c
}

func (c contractCase) Print(o page.Out) {
	sign := map[view.Finding]page.Sign{view.Fine: page.Good, view.Broken: page.Bad, view.Skipped: page.Dropped}[c.Finding]
	o.Say(o.Mark(sign), " ", c.Name, o.Dim(fmt.Sprintf("  %.1f s", c.Seconds)))
	o.Text(2, c.Detail)
}

// Print prints the summary; the cases have been printed already.
func (r *contractReport) Print(o page.Out) {
	of := map[view.Finding]int{}
	for _, c := range r.Cases {
		of[c.Finding]++
	}
	o.Say(fmt.Sprintf("\n%d of %d hold%s%s, in %.0f s.", of[view.Fine], len(r.Cases),
		text.Prefixed(", ", text.Some(of[view.Broken], "do not")),
		text.Prefixed(", ", text.Some(of[view.Skipped], "not tried")), r.Seconds))
}
