package command

import (
	"slices"
	"strings"
)

// thisMachine are the addresses of this machine as programs compare them with NO_PROXY. There is no [::1]: some clients
// refuse to start with it.
const thisMachine = "localhost,127.0.0.1,::1"

// Environ returns the environment for a process that manager starts, from NAME=VALUE entries of which the last of a name
// counts. It keeps proxies away from this machine: OpenCode would ask the proxy for manager's own tools, and for a model
// that runs here. It may be applied again. Every process except git, gh, editors and manager itself gets it.
func Environ(environ []string) []string {
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
