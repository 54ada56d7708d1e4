package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project"
)

// versionInfo is what `manager version --json` prints.
type versionInfo struct {
	Type     string `json:"type"`    // version
	Version  string `json:"version"` // of the module; (devel) for a build from a work tree without one
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a work tree with changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
	OpenCode string `json:"opencode"` // the version that this one was tested with
}

func (a *app) newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "version [flags]",
		Short:             "Show the version",
		Args:              takes(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return a.runVersion() },
	}
}

func (a *app) runVersion() error {
	build, _ := debug.ReadBuildInfo()
	v := newVersionInfo(build)
	if a.json {
		return a.printJSON(v)
	}
	_, err := fmt.Fprint(a.Stdout, v)
	return err
}

// newVersionInfo reads what the Go tool left in the binary; nil if it left nothing.
func newVersionInfo(build *debug.BuildInfo) versionInfo {
	v := versionInfo{
		Type: "version", Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		OpenCode: opencode.TestedVersion,
	}
	if build == nil {
		return v
	}
	v.Version = cmp.Or(build.Main.Version, v.Version)
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// String is the version for people.
func (v versionInfo) String() string {
	commit := text.Prefixed(", commit ", project.Short(v.Commit)) + text.If(v.Modified, " with changes")
	return fmt.Sprintf("manager %s (%s, %s%s)\ntested with OpenCode %s\n", v.Version, v.Go, v.Platform, commit, v.OpenCode)
}
