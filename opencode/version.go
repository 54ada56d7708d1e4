package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// TestedVersion is the version of OpenCode that this package was written against.
const TestedVersion = "1.18.33"

const versionTimeout = 5 * time.Second

// Version asks an OpenCode binary for its version. An empty binary means "opencode" in PATH. The error matches
// [ErrNoBinary] if there is none. It takes about as long as OpenCode needs to start, a second.
func Version(ctx context.Context, binary string) (string, error) {
	path, err := lookUp(binary)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, defaultCallTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("opencode: run %s --version: %w", path, err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "opencode "), nil
}

// VersionError says that an OpenCode cannot be used.
type VersionError struct {
	Version string // what was found
	Missing string // the call that it does not know, such as "POST /session/{}/abort"; empty: its number says it all
}

func (e *VersionError) Error() string {
	install := "install it with `npm install -g opencode-ai@" + TestedVersion + "`"
	switch major, _ := generation(e.Version); {
	case major > 1:
		return fmt.Sprintf("OpenCode %s has another API than OpenCode 1, which this program needs: install 1.x beside it with "+
			"`npm install --prefix ~/opencode-1 opencode-ai@%s`, and choose it with --opencode or MANAGER_OPENCODE="+
			"~/opencode-1/node_modules/.bin/opencode", e.Version, TestedVersion)
	case e.Missing != "":
		return fmt.Sprintf("OpenCode %s does not know %s, which this program needs; it was tested with %s: %s",
			e.Version, e.Missing, TestedVersion, install)
	}
	return fmt.Sprintf("OpenCode %s is not supported: 1.18 or a later 1.x is needed, %s was tested; %s",
		e.Version, TestedVersion, install)
}

// CheckVersion answers a version that cannot be used, whatever it is able to do, with a [*VersionError]: one before
// the tested minor version, or of another major one. A later minor version is for Client.check to judge.
func CheckVersion(version string) error {
	major, minor := generation(version)
	_, tested := generation(TestedVersion)
	if major == 1 && minor >= tested {
		return nil
	}
	return &VersionError{Version: version}
}

// generation reads the forms in use, 1.18.33 and v2.0.18.
func generation(version string) (major, minor int) {
	_, _ = fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor) // what is no number is 0.0
	return major, minor
}

// needed are the calls without which no session can be driven.
var needed = []string{
	"GET /global/event", "POST /session", "GET /session", "GET /session/status", "GET /session/{}/message",
	"GET /session/{}/children", "GET /session/{}/todo", "POST /session/{}/prompt_async", "POST /session/{}/abort",
	"GET /permission", "POST /permission/{}/reply", "GET /question", "POST /question/{}/reply",
}

var pathParameter = text.Regexp(`\{[^}]*\}`)

// check tells, with a [*VersionError], whether the server can be used: by [CheckVersion], and a minor version that
// was not tested by the calls that the server says it knows.
func (c *Client) check(ctx context.Context) error {
	if err := CheckVersion(c.version); err != nil {
		return err
	}
	_, minor := generation(c.version)
	if _, tested := generation(TestedVersion); minor == tested {
		return nil
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := c.call(ctx, request{op: "ask for the API", method: http.MethodGet, path: "/doc", out: &doc}); err != nil {
		return err
	}
	known := map[string]bool{}
	for path, methods := range doc.Paths {
		for method := range methods {
			known[strings.ToUpper(method)+" "+pathParameter().ReplaceAllString(path, "{}")] = true
		}
	}
	for _, call := range needed {
		if !known[call] {
			return &VersionError{Version: c.version, Missing: call}
		}
	}
	return nil
}

// identify asks the server for its version. The error is a [*VersionError] for an OpenCode 2, which answers
// elsewhere.
func (c *Client) identify(ctx context.Context) (version string, err error) {
	const op = "ask for the version"
	var out struct {
		Healthy bool
		Version string
	}
	err = c.call(ctx, request{op: op, method: http.MethodGet, path: "/global/health", out: &out})
	if err == nil && !out.Healthy {
		err = &Error{Op: op, Message: "the server says that it is not healthy", kind: ErrUnavailable}
	}
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnauthorized) {
		return out.Version, err
	}
	for _, path := range []string{"/api/info", "/api/health"} { // since 2.0.4, and before
		asked := c.call(ctx, request{op: op, method: http.MethodGet, path: path, out: &out})
		if major, _ := generation(out.Version); asked == nil && major > 1 {
			return "", &VersionError{Version: out.Version}
		}
	}
	return "", err
}

// explainStart finds out whether a server that did not get ready is another OpenCode than this program can start.
func explainStart(ctx context.Context, binary string, err error) error {
	if _, ended := errors.AsType[*ExitError](err); !ended && !errors.Is(err, ErrStartTimeout) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	version, asked := Version(ctx, binary)
	if major, _ := generation(version); asked == nil && major > 1 {
		return &VersionError{Version: version}
	}
	return err
}
