package command

import (
	"slices"
	"strings"
)

// thisMachine are the addresses of this machine as programs compare them with NO_PROXY. There is no [::1]: some clients
// refuse to start with it.
const thisMachine = "localhost,127.0.0.1,::1"

// WithoutRepository removes the variables with which git tells hooks and aliases which repository they are about, and with
// which users keep their dotfiles in one (git rev-parse --local-env-vars). A process that inherits them works on that
// repository, wherever it runs. GIT_CONFIG_COUNT stays: with it CI sets safe.directory and credentials.
func WithoutRepository(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_INDEX_VERSION", "GIT_OBJECT_DIRECTORY",
			"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_IMPLICIT_WORK_TREE",
			"GIT_INTERNAL_SUPER_PREFIX", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE", "GIT_NO_REPLACE_OBJECTS",
			"GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_DEFAULT_REF_FORMAT", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS",
			"GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS":
			return true
		}
		return false
	})
}

// Environ returns the environment for a process that manager starts, from NAME=VALUE entries of which the last of a name
// counts. It names no repository ([WithoutRepository]), and keeps proxies away from this machine: OpenCode would ask the
// proxy for manager's own tools, and for a model that runs here. It may be applied again. Every process except git, gh,
// editors and manager itself gets it.
func Environ(environ []string) []string {
	environ = WithoutRepository(environ)
	if !slices.ContainsFunc(environ, func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return value != "" && slices.Contains([]string{"http_proxy", "https_proxy", "all_proxy"}, strings.ToLower(name))
	}) {
		return slices.Clip(environ)
	}
	lower, upper := "", ""
	rest := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "no_proxy":
			lower = value
		case "NO_PROXY":
			upper = value
		default:
			return false
		}
		return true
	})
	// Programs prefer one or the other spelling, and most read only that one.
	return append(rest, "no_proxy="+withThisMachine(lower, upper), "NO_PROXY="+withThisMachine(upper, lower))
}

// withThisMachine adds this machine to a value of NO_PROXY, or to its other spelling if it is empty.
func withThisMachine(value, other string) string {
	if strings.TrimSpace(value) == "" {
		value = other
	}
	value = strings.Trim(value, ", ")
	entries := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	if slices.Contains(entries, "*") {
		return value
	}
	for host := range strings.SplitSeq(thisMachine, ",") {
		if !slices.Contains(entries, host) {
			value = strings.TrimLeft(value+","+host, ",")
		}
	}
	return value
}
