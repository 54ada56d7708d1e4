package fakeopencode

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// tree is the hash of a git tree with the content of the session's directory; empty outside of git, or where the
// configuration wants none. It is kept apart from the project's own repository.
func (x *session) tree() string {
	l := x.server.locations[x.Info.Location.Directory]
	if _, err := os.Stat(filepath.Join(l.ref.Directory, ".git")); err != nil || !l.config.Snapshots {
		return ""
	}
	if _, err := os.Stat(x.snapshots()); err != nil {
		x.git("init", "--quiet")
	}
	x.git("add", "--all")
	return x.git("write-tree")
}

func (x *session) snapshots() string {
	name := sha256.Sum256([]byte(x.Info.Location.Directory))
	return filepath.Join(x.server.data, "snapshot", hex.EncodeToString(name[:8]))
}

func (x *session) git(args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir = x.Info.Location.Directory
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_DIR="+x.snapshots(), "GIT_WORK_TREE="+cmd.Dir, "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, _ := cmd.Output() // a snapshot that could not be made is none
	return strings.TrimSpace(string(out))
}
