package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

const (
	// TestedVersion is the version of OpenCode that this package was written against.
	TestedVersion = "1.18.33"
	// DescribedVersion is the newest OpenCode 2 that was described to this package's authors. No release of it was run.
	DescribedVersion = "2.1.3"
)

const (
	handshakeTimeout = 2 * time.Second // per call: one that is made while a server boots can hang
	bootingPause     = 250 * time.Millisecond
	// versionTimeout is for a machine whose cores are all busy: the binary, of 160 MB, takes a second of CPU to start.
	versionTimeout = 2 * time.Minute
)

// Version asks an OpenCode binary for its version, which takes about a second. An empty binary means "opencode" in
// PATH. The error matches [ErrNoBinary] if there is none.
func Version(ctx context.Context, binary string) (string, error) {
	path, err := lookUp(binary)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with a wrapper's children
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("opencode: run %s --version: %w", path, err)
	}
	version := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(string(out)), "opencode "), "v")
	if file := versionFile(); os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		older, _ := os.ReadFile(file)
		_ = os.WriteFile(file, append([]byte(stamp(path)+version+"\n"), older[:min(len(older), 4000)]...), 0o600)
	}
	return version, nil
}

// versionFile caches the versions of binaries, newest first, behind their stamps: asking one takes a second of CPU. It is
// empty, and nothing is cached, if the user has no cache directory.
func versionFile() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "manager", "opencode-version")
}

// stamp identifies a file, and changes with it.
func stamp(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s\n%d %d\n", path, info.Size(), info.ModTime().UnixNano())
}

// binaryVersion returns the version of the binary that is about to start, or "" if it reports none. A cached version
// never refuses a binary: the path may be that of a wrapper that chooses among several.
func binaryVersion(ctx context.Context, path string) (string, error) {
	data, _ := os.ReadFile(versionFile())
	_, version, _ := strings.Cut("\n"+string(data), "\n"+stamp(path))
	if known, _, whole := strings.Cut(version, "\n"); whole && CheckVersion(known) == nil {
		return known, nil
	}
	version, err := Version(ctx, path)
	if major, _, _ := numbers(version); err != nil || major == 0 {
		return "", nil //nolint:nilerr // the server reports it
	}
	return version, CheckVersion(version)
}

// VersionError says that a version of OpenCode cannot be used.
type VersionError struct {
	Version string // the version found
	Missing string // a call that it lacks, such as "POST /session/{}/abort"; empty if the number decides
}

func (e *VersionError) Error() string {
	const install = "install it with `npm install -g opencode-ai@" + TestedVersion + "`"
	switch major, _, _ := numbers(e.Version); {
	case e.Missing != "":
		return fmt.Sprintf("OpenCode %s does not know %s, which this program needs; it was tested with %s: %s",
			e.Version, e.Missing, TestedVersion, install)
	case major == 0:
		return fmt.Sprintf("OpenCode says that its version is %q, as a development build does: use a release, 1.18 or a later "+
			"1.x, or 2.0.4 or a later 2.x", e.Version)
	case major == 2:
		return fmt.Sprintf("OpenCode %s has an older API than this program speaks, that of before 2.0.4: update it to 2.0.4 or later",
			e.Version)
	case major > 2:
		return fmt.Sprintf("OpenCode %s has another API than OpenCode 1 and 2, which this program knows: install 1.x alongside it "+
			"with `npm install --prefix ~/opencode-1 opencode-ai@%s`, and choose it with --opencode or MANAGER_OPENCODE="+
			"~/opencode-1/node_modules/.bin/opencode", e.Version, TestedVersion)
	}
	return fmt.Sprintf("OpenCode %s is not supported: 1.18 or a later 1.x is needed, or 2.0.4 or a later 2.x; %s was tested; %s",
		e.Version, TestedVersion, install)
}

// CheckVersion returns a [*VersionError] for a version that is never usable. The handshake checks later minors of 1.x.
func CheckVersion(version string) error {
	major, minor, patch := numbers(version)
	_, tested, _ := numbers(TestedVersion)
	if major == 1 && minor >= tested || major == 2 && (minor > 0 || patch >= 4) {
		return nil
	}
	return &VersionError{Version: version}
}

// numbers parses the forms in use, 1.18.33 and v2.0.18. Missing or invalid numbers are 0.
func numbers(version string) (major, minor, patch int) {
	_, _ = fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d.%d", &major, &minor, &patch)
	return major, minor, patch
}

// handshake detects the generation of the server and chooses the back end. Both generations answer unknown paths with
// their web page, and 1.18 knows /api/health too, so the order of the checks matters.
func (c *Client) handshake(ctx context.Context) error {
	version, notV2 := c.identify(ctx, "/api/info")
	if notV2 == nil {
		c.backend = v2{Client: c, v2memory: &v2memory{}}
		return c.accept(version)
	}
	if errors.Is(notV2, ErrUnauthorized) { // its web page answers without a password
		return notV2
	}
	version, notV1 := c.identify(ctx, "/global/health")
	if notV1 == nil {
		c.backend = v1{Client: c}
		if err := c.accept(version); err != nil {
			return err
		}
		return c.checkCalls(ctx)
	}
	if version, err := c.identify(ctx, "/api/health"); err == nil { // an API from before 2.0.4, whatever the number
		return &VersionError{Version: strings.TrimPrefix(version, "v")}
	}
	if booting(notV2) {
		return notV2
	}
	return notV1
}

func (c *Client) identify(ctx context.Context, path string) (string, error) {
	const op = "ask for the version"
	out := struct {
		Healthy bool // not sent by all
		Version string
	}{Healthy: true}
	err := c.call(ctx, request{
		op: op, method: http.MethodGet, path: path, out: &out, timeout: min(handshakeTimeout, c.cfg.CallTimeout),
	})
	switch {
	case err != nil:
		return "", err
	case !out.Healthy:
		return "", &Error{Op: op, Message: "the server says that it is not healthy", kind: ErrUnavailable}
	case out.Version == "":
		return "", &Error{Op: op, Message: path + " says no version", kind: ErrUnsupported}
	}
	return out.Version, nil
}

// slow reports whether the server may still be starting, so that another try makes sense.
func slow(err error) bool { return booting(err) || errors.Is(err, context.DeadlineExceeded) }

// booting reports whether OpenCode 2 answered that it is not ready yet.
func booting(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return ok && failed.Status == http.StatusServiceUnavailable
}

func (c *Client) accept(version string) error {
	c.version = strings.TrimPrefix(version, "v")
	if err := CheckVersion(version); err != nil {
		return err
	}
	major, minor, patch := numbers(version)
	tested := map[int]string{1: TestedVersion, 2: DescribedVersion}[major]
	_, testedMinor, testedPatch := numbers(tested)
	if cmp.Or(cmp.Compare(minor, testedMinor), cmp.Compare(patch, testedPatch)) > 0 {
		c.log.Warn("this OpenCode is newer than what manager was made for", "version", c.version, "made for", tested)
	}
	return nil
}

// needed are the calls of OpenCode 1 that are required to drive a session.
var needed = []string{
	"GET /global/event", "POST /session", "GET /session", "GET /session/status", "GET /session/{}/message",
	"GET /session/{}/children", "GET /session/{}/todo", "POST /session/{}/prompt_async", "POST /session/{}/abort",
	"GET /permission", "POST /permission/{}/reply", "GET /question", "POST /question/{}/reply",
}

var pathParameter = text.Regexp(`\{[^}]*\}`)

// checkCalls returns a [*VersionError] if an untested minor version of OpenCode 1 does not list a needed call.
func (c *Client) checkCalls(ctx context.Context) error {
	_, minor, _ := numbers(c.version)
	if _, tested, _ := numbers(TestedVersion); minor == tested {
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
