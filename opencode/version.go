package opencode

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// TestedVersion is the version of OpenCode that this package was written against.
const TestedVersion = "1.18.33"

// Version asks an OpenCode binary for its version. An empty binary means "opencode"
// in PATH. The error matches [ErrNoBinary] if there is none. It takes about as long
// as OpenCode needs to start, a second.
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
	return strings.TrimSpace(string(out)), nil
}

// VersionError says that an OpenCode is not one that this package was tested with.
type VersionError struct {
	Version string // what was found
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("OpenCode %s is not supported: this program was tested with %s and relies on details that "+
		"change between versions; install it with `npm install -g opencode-ai@%s`",
		e.Version, TestedVersion, TestedVersion)
}

// CheckVersion accepts every patch release of the tested minor version and answers
// any other version with a [*VersionError].
func CheckVersion(version string) error {
	if minor(strings.TrimPrefix(version, "v")) == minor(TestedVersion) {
		return nil
	}
	return &VersionError{Version: version}
}

// minor is everything before the last dot.
func minor(version string) string {
	i := strings.LastIndexByte(version, '.')
	return version[:max(i, 0)]
}
