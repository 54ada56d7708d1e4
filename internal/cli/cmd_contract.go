package cli

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bouldermgr/manager/internal/contract"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
)

// contractTime bounds all cases together.
const contractTime = 110 * time.Second

// runContract is `manager doctor --contract`. People see each case as soon as it was tried.
func (a *app) runContract(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, contractTime, fmt.Errorf("no time was left of %v", contractTime))
	defer cancel()
	cfg := contract.Config{Binary: a.Binary(), Environ: a.Environ}
	report := &contractReport{Type: "contract", OK: true, Server: a.Binary(), Cases: []contractCase{}}
	if a.attach != "" {
		if err := a.ConnectOpenCode(limited); err != nil {
			return err
		}
		client, err := a.Client(limited)
		if err != nil {
			return err
		}
		cfg.Attached, report.Server = client, "attached"
	}
	began := time.Now()
	suite, err := contract.Open(limited, cfg)
	if err != nil {
		return err
	}
	defer suite.Close()
	build, _ := debug.ReadBuildInfo()
	report.OpenCode, report.Manager = suite.Caps().Version, newVersionInfo(build)
	out := a.on(a.Stdout)
	if !a.json {
		out.Say(fmt.Sprintf("OpenCode %s (%s) on %s", report.OpenCode, report.Server, report.Manager.Platform))
		report.Manager.Print(out)
		if suite.Caps().Generation == 2 {
			out.Say("no release of OpenCode 2 was tried")
		}
		out.Say()
	}
	for r := range suite.Run(limited, contract.Cases) {
		c := report.add(r)
		if !a.json {
			c.Print(out)
		}
	}
	report.Seconds = time.Since(began).Seconds()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := show(a, report, nil); err != nil || report.OK {
		return err
	}
	return errSilent
}

// contractReport is what `manager doctor --contract --json` prints.
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

// Print prints the case for people.
func (c contractCase) Print(o page.Out) {
	sign := map[view.Finding]string{view.Fine: "✓", view.Broken: "✗", view.Skipped: "–"}[c.Finding]
	o.Say(o.Mark(sign), " ", c.Name, o.Dim(fmt.Sprintf("  %.1f s", c.Seconds)))
	o.Text(2, c.Detail)
}

// Print ends the report for people; the cases have been printed.
func (r *contractReport) Print(o page.Out) {
	of := map[view.Finding]int{}
	for _, c := range r.Cases {
		of[c.Finding]++
	}
	o.Say(fmt.Sprintf("\n%d of %d hold%s%s, in %.0f s.", of[view.Fine], len(r.Cases),
		text.Prefixed(", ", text.Some(of[view.Broken], "do not")),
		text.Prefixed(", ", text.Some(of[view.Skipped], "not tried")), r.Seconds))
}
