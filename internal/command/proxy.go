package command

import (
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// sharedNetwork is used by providers' NAT and by VPNs between one's own machines (RFC 6598).
var sharedNetwork = netip.MustParsePrefix("100.64.0.0/10")

// ProxyOf returns the variable whose proxy a process with this environment asks for an address of the local network, and the
// host to add to NO_PROXY; empty if it asks none, or the address is elsewhere: there a proxy may be the only way.
func ProxyOf(environ []string, address string) (variable, host string) {
	to, err := url.Parse(address)
	if err != nil || !local(to.Hostname()) {
		return "", ""
	}
	set := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		set[name] = value
	}
	// As in httpproxy.FromEnvironment: the upper case is preferred.
	either := func(name string) (variable, value string) {
		if value := set[name]; value != "" {
			return name, value
		}
		lower := strings.ToLower(name)
		return lower, set[lower]
	}
	variable, proxy := either(strings.ToUpper(to.Scheme) + "_PROXY")
	_, exempt := either("NO_PROXY")
	config := httpproxy.Config{HTTPProxy: proxy, HTTPSProxy: proxy, NoProxy: exempt}
	if through, err := config.ProxyFunc()(to); err != nil || through == nil {
		return "", ""
	}
	return variable, to.Hostname()
}

// local reports whether a host is in a private network, by its address or by a name that no public server has.
func local(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap().WithZone("")
		return ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || sharedNetwork.Contains(ip)
	}
	at := strings.LastIndexByte(host, '.')
	switch host[at+1:] {
	case "local", "lan", "internal", "localhost", "home", "intranet", "corp":
		return true
	}
	return at < 0 && host != "" || strings.HasSuffix(host, ".home.arpa")
}
